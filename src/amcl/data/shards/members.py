"""The files in a tar archive: their names and where they lie, whatever is damaged."""

import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from amcl.data.shards.positions import read_at

BLOCK = tarfile.BLOCKSIZE
_CHUNK = 2**20
_LONGEST = 2**16  # bytes of a name or of an extended header
_REGULAR = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_EXTENDED = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_WITHOUT_DATA = {
    tarfile.LNKTYPE: "a link, which is not followed",
    tarfile.SYMTYPE: "a link, which is not followed",
    tarfile.CHRTYPE: "a device, not a file",
    tarfile.BLKTYPE: "a device, not a file",
    tarfile.FIFOTYPE: "a pipe, not a file",
    tarfile.DIRTYPE: "a folder, not a file",
}
_MAGIC = np.frombuffer(b"ustar", np.uint8)
_MAGIC_OFFSET = 257
_SPARSE_CONTINUES = 482  # offset of a flag in a GNU header of a sparse file, then in each block
_SPARSE_BLOCK_CONTINUES = 504


@dataclass(frozen=True)
class Member:
    """A file in an archive: its name, and the bytes that it has there."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Skipped:
    """Something in an archive that is no file, with the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class Damage:
    """A part of an archive that cannot be read, in words."""

    reason: str


def members(archive: int, size: int) -> Iterator[Member | Skipped | Damage]:
    """Yield what is in a tar archive; nothing but headers is read.

    Behind a damaged header, reading resumes at the next block that is one: it has the checksum and
    the magic number of a header and fits into the archive. Data that by chance look like that are
    as good as impossible, as they would have to have 64 bits right.

    Args:
        archive: Descriptor of the open archive.
        size: Its size in bytes.

    Yields:
        Files, other things, and damaged parts, in their order.
    """
    reader = _Reader(archive, size)
    position = 0
    is_ended = False
    while position + BLOCK <= size:
        block = read_at(archive, BLOCK, position)
        if not any(block):
            following = _after_zeros(archive, position, size)
            is_ended = following == size
            if not is_ended:
                yield Damage(f"zeros from byte {position:,} to {following:,}: files may be missing")
            position = following
            continue
        try:
            thing, position = reader.read(block, position)
        except _Truncated as error:
            yield Damage(str(error))
            return
        except ValueError as error:
            following = _next_header(archive, position + BLOCK, size)
            yield Damage(_lost(error, block, position, following, size))
            reader.forget()
            position = following
            continue
        if thing is not None:
            yield thing
    if not is_ended:
        yield Damage("it ends without the mark of its end: files may be missing")


class _Truncated(ValueError):
    """An archive that ends within a file."""


class _Reader:
    """Reads headers, and remembers what a header says of the next one."""

    def __init__(self, archive: int, size: int) -> None:
        self.archive = archive
        self.size = size
        self._name: str | None = None
        self._pax: dict[str, str] = {}

    def read(self, block: bytes, position: int) -> tuple[Member | Skipped | None, int]:
        """Return what a header announces, and the position of the next one."""
        header = _parse(block)
        data = position + BLOCK
        if header.type == tarfile.GNUTYPE_SPARSE:
            data = self._after_sparse_map(block, data)
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, *_EXTENDED):
            self._remember(header, data)
            return None, data + _padded(header.size)
        if header.type == tarfile.XGLTYPE:
            return None, data + _padded(header.size)
        name, pax = self._name or header.name, self._pax
        self.forget()
        name = pax.get("path", name)
        if header.type in _WITHOUT_DATA:
            return Skipped(name, _WITHOUT_DATA[header.type]), data
        size = int(pax.get("size", header.size))
        if size < 0:
            raise ValueError("a size below 0")
        if data + size > self.size:
            raise _Truncated(
                f"it is cut off: it ends at byte {self.size:,}, within {name!r:.200}, which ends "
                f"at byte {data + size:,}"
            )
        end = data + _padded(size)
        if header.type == tarfile.GNUTYPE_SPARSE or any(k.startswith("GNU.sparse") for k in pax):
            return Skipped(name, "a sparse file, which is not read"), end
        if header.type not in _REGULAR:
            return Skipped(name, "not a file"), end
        return Member(name, data, size), end

    def forget(self) -> None:
        """Forget what a header said of the next one."""
        self._name, self._pax = None, {}

    def _remember(self, header: tarfile.TarInfo, data: int) -> None:
        """Keep the long name or the extended header of the next file."""
        if not 0 <= header.size <= _LONGEST:
            raise ValueError(f"an extended header of {header.size:,} bytes")
        if data + header.size > self.size:
            raise _Truncated(f"it is cut off: it ends at byte {self.size:,}, within a header")
        content = read_at(self.archive, header.size, data)
        if header.type == tarfile.GNUTYPE_LONGNAME:
            self._name = os.fsdecode(content.split(b"\0")[0])
        elif header.type in _EXTENDED:
            self._pax = _parse_pax(content)

    def _after_sparse_map(self, block: bytes, position: int) -> int:
        continues = block[_SPARSE_CONTINUES]
        while continues:
            block = read_at(self.archive, BLOCK, position)
            if len(block) < BLOCK:
                raise _Truncated(f"it is cut off: it ends at byte {self.size:,}, within a header")
            position += BLOCK
            continues = block[_SPARSE_BLOCK_CONTINUES]
        return position


def _parse(block: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise ValueError(str(error)) from None


def _parse_pax(content: bytes) -> dict[str, str]:
    """Return the entries of an extended header, lines of length, name and value."""
    entries = {}
    while content.strip(b"\0"):
        length, _, _ = content.partition(b" ")
        line = content[: int(length)]
        name, equals, value = line[len(length) + 1 : -1].partition(b"=")
        if int(length) < 5 or not equals or line[-1:] != b"\n":
            raise ValueError("an extended header that cannot be read")
        entries[os.fsdecode(name)] = os.fsdecode(value)
        content = content[int(length) :]
    return entries


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _is_header(block: bytes, position: int, size: int) -> bool:
    try:
        header = _parse(block)
    except ValueError:
        return False
    return header.size >= 0 and position + BLOCK + header.size <= size


def _after_zeros(archive: int, position: int, size: int) -> int:
    """Return the position of the next block with another byte than 0, or the end."""
    while position < size:
        chunk = np.frombuffer(read_at(archive, _CHUNK, position), np.uint8)
        if len(chunk) == 0:
            break
        if chunk.any():
            return position + int((chunk != 0).argmax()) // BLOCK * BLOCK
        position += len(chunk)
    return size


def _next_header(archive: int, position: int, size: int) -> int:
    """Return the position of the next block that is a header beyond doubt, or the end."""
    while position + BLOCK <= size:
        chunk = read_at(archive, _CHUNK, position)
        blocks = np.frombuffer(chunk, np.uint8, len(chunk) // BLOCK * BLOCK).reshape(-1, BLOCK)
        if len(blocks) == 0:
            break
        magic = blocks[:, _MAGIC_OFFSET : _MAGIC_OFFSET + len(_MAGIC)]
        for number in (magic == _MAGIC).all(1).nonzero()[0].tolist():
            start = position + number * BLOCK
            if _is_header(bytes(blocks[number]), start, size):
                return int(start)
        position += len(blocks) * BLOCK
    return size


def _lost(error: ValueError, block: bytes, position: int, following: int, size: int) -> str:
    name = os.fsdecode(block[:100].split(b"\0")[0])
    which = f" of {name!r}" if name.isprintable() and name else ""
    rest = "the rest of it is lost" if following == size else "what it belongs to is lost"
    return f"damaged header{which} at byte {position:,} ({error}): {rest}"
