"""The index of a shard: where each of its images lies, kept in a file beside it."""

import json
import logging
import os
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from amcl.data.decode import ARRAY_EXTENSIONS, EXTENSIONS
from amcl.data.named import data_root
from amcl.data.packed import NO_LABEL
from amcl.data.shards.members import Damage, Member, Skipped, members
from amcl.data.shards.positions import open_to_read, read_at
from amcl.files import digest, whole_file
from amcl.text_files import parse_json, require

logger = logging.getLogger("amcl")

_LOCK = threading.Lock()  # of the notes: the indices of a set are read by several threads
_NOTED: set[str] = set()

FOLDER = ".amcl"  # of indices, in the folder of the shards
_FORMAT = 1
_LABEL = "cls"
_LONGEST_LABEL = 1024  # bytes
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", "unzstd"),
    b"PK\x03\x04": ("zip", "unzip"),
}

ROW = np.dtype(
    [("offset", "<i8"), ("size", "<i8"), ("name", "<i8"), ("length", "<i4"), ("label", "<i4")]
)
"""An image: its bytes in the shard, those of its name among all names, and its label."""

Rows = NDArray[Any]
Names = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class ShardIndex:
    """The images in a shard.

    Args:
        path: The shard.
        size: Its size in bytes.
        mtime: Its time of change in nanoseconds.
        rows: The images (N,), see `ROW`.
        names: Bytes of their names.
        labels: Different texts of labels.
        damages: Name and reason of each part that cannot be read.
        others: Number of other files by what follows the key in their names.
    """

    path: Path
    size: int
    mtime: int
    rows: Rows
    names: Names
    labels: tuple[str, ...]
    damages: tuple[tuple[str, str], ...]
    others: dict[str, int]

    def to_bytes(self) -> bytes:
        """Return the content of its file: a line of JSON, the rows, the names."""
        first = {
            "format": _FORMAT,
            "size": self.size,
            "mtime": self.mtime,
            "extensions": list(EXTENSIONS),
            "count": len(self.rows),
            "names": len(self.names),
            "labels": self.labels,
            "damages": self.damages,
            "others": self.others,
        }
        return json.dumps(first).encode() + b"\n" + self.rows.tobytes() + self.names.tobytes()


class _First(TypedDict):
    """The first line of the file of an index."""

    format: int
    size: int
    mtime: int
    extensions: list[str]
    count: int
    names: int
    labels: list[str]
    damages: list[list[str]]
    others: dict[str, int]


def load_index(path: Path) -> ShardIndex:
    """Return the index of a shard: the one that is kept, or a new one, which is then kept.

    It is kept beside the shard or, where that is impossible, in the cache folder.

    Args:
        path: The shard.

    Raises:
        ValueError: The shard is compressed.
    """
    status = path.stat()
    for file in filter(None, (_file_beside(path), _file_in_cache(path))):
        try:
            return _parse(file.read_bytes(), path, status)
        except (OSError, ValueError):  # none, that of an earlier shard, or damaged
            continue
    index = build_index(path)
    _keep(index)
    return index


def build_index(path: Path) -> ShardIndex:
    """Read the headers of a shard.

    Args:
        path: The shard.

    Returns:
        Its index.

    Raises:
        ValueError: The shard is compressed.
    """
    archive = open_to_read(path)
    try:
        status = os.fstat(archive)
        _refuse_compressed(path, read_at(archive, 8, 0))
        builder = _Builder(archive)
        for thing in members(archive, status.st_size):
            builder.add(thing)
    finally:
        os.close(archive)
    return builder.index(path, status)


def _refuse_compressed(path: Path, first: bytes) -> None:
    for magic, (kind, command) in _COMPRESSED.items():
        if first.startswith(magic):
            raise ValueError(
                f"{path} is compressed ({kind}), so that no image in it can be reached by its "
                f"number: unpack it first with `{command} {path.name}`. Images are compressed "
                "already: a shard without gzip is hardly larger."
            )


def split_name(name: str) -> tuple[str, str]:
    """Return the key of a file in a shard, and what follows it: its name up to the first dot.

    >>> split_name("cats/01.seg.png")
    ('cats/01', 'seg.png')
    """
    folder, slash, file = name.rpartition("/")
    key, _, extension = file.partition(".")
    return f"{folder}{slash}{key}", extension


class _Builder:
    """Collects the images and labels of a shard by their keys."""

    def __init__(self, archive: int) -> None:
        self._archive = archive
        self._images: dict[str, Member] = {}
        self._arrays: list[tuple[str, Member]] = []
        self._labels: dict[str, str] = {}
        self._damages: list[tuple[str, str]] = []
        self._others: Counter[str] = Counter()
        self._is_damaged = False

    def add(self, thing: Member | Skipped | Damage) -> None:
        if isinstance(thing, Damage):
            self._damages.append(("", thing.reason))
            self._is_damaged = True
            return
        name = thing.name.removeprefix("./").lstrip("/")
        key, extension = split_name(name)
        is_image = f".{extension.lower()}" in EXTENSIONS
        if not key or key.endswith("/"):
            return  # hidden files
        if isinstance(thing, Skipped):
            if is_image:
                self._damages.append((name, thing.reason))
        elif f".{extension.lower()}" in ARRAY_EXTENSIONS:
            self._arrays.append((key, Member(name, thing.offset, thing.size)))
        elif is_image:
            self._add_image(key, Member(name, thing.offset, thing.size))
        elif extension.lower() == _LABEL:
            self._add_label(key, thing)
        else:
            self._others[extension[:40]] += 1

    def _add_image(self, key: str, image: Member) -> None:
        first = self._images.setdefault(key, image)
        if first is not image:
            self._damages.append(
                (image.name, f"a second image of the key {key!r}: {first.name!r} is taken")
            )

    def _add_label(self, key: str, member: Member) -> None:
        if member.size > _LONGEST_LABEL:
            self._damages.append((member.name, f"a label of {member.size:,} bytes"))
            return
        try:
            text = read_at(self._archive, member.size, member.offset).decode().strip()
        except UnicodeDecodeError:
            self._damages.append((member.name, "a label that is no text"))
            return
        if self._labels.setdefault(key, text) != text:
            self._damages.append((member.name, f"a second label of the key {key!r}"))

    def index(self, path: Path, status: os.stat_result) -> ShardIndex:
        """Return the index of what was added."""
        self._settle_arrays()
        self._drop_halves()
        texts = {text: n for n, text in enumerate(dict.fromkeys(self._labels.values()))}
        rows = []
        names = bytearray()
        for key, image in self._images.items():
            name = os.fsencode(image.name)
            text = self._labels.get(key, "")
            label = texts[text] if text else NO_LABEL
            rows.append((image.offset, image.size, len(names), len(name), label))
            names += name
        return ShardIndex(
            path,
            status.st_size,
            status.st_mtime_ns,
            np.array(rows, ROW),
            np.frombuffer(bytes(names), np.uint8),
            tuple(texts),
            tuple(self._damages),
            dict(self._others),
        )

    def _settle_arrays(self) -> None:
        """Take arrays as images where there are no others; beside pictures they are features."""
        take = not self._images
        for key, array in self._arrays:
            if take:
                self._add_image(key, array)
            else:
                self._others[split_name(array.name)[1][:40]] += 1

    def _drop_halves(self) -> None:
        """Drop the images of a damaged shard that have lost their labels, and name other halves."""
        if not self._is_damaged or not self._labels:
            return
        for key in self._labels.keys() - self._images.keys():
            self._damages.append((key, "its image is lost, only its label is there"))
        without = [key for key in self._images if key not in self._labels]
        if len(without) >= len(self._images) / 2:
            return
        for key in without:
            self._damages.append((self._images.pop(key).name, "its label is lost"))


def _file_beside(path: Path) -> Path:
    return path.absolute().parent / FOLDER / f"{path.name}.index"


def _file_in_cache(path: Path) -> Path | None:
    folder = digest([os.fsencode(path.absolute().parent)])[:16]
    try:
        return data_root() / "shards" / folder / f"{path.name}.index"
    except ValueError:  # there is no home folder
        return None


def _parse(content: bytes, path: Path, status: os.stat_result) -> ShardIndex:
    """Return the index in the content of a file, or raise an error if it is not of this shard."""
    end = content.index(b"\n")
    first = parse_json(content[:end].decode(), str(path))
    require(first, _First, path)
    expected = _FORMAT, status.st_size, status.st_mtime_ns, list(EXTENSIONS)
    if (first["format"], first["size"], first["mtime"], first["extensions"]) != expected:
        raise ValueError("of another shard, or of another version of amcl")
    start = end + 1 + first["count"] * ROW.itemsize
    if len(content) != start + first["names"] or min(first["count"], first["names"]) < 0:
        raise ValueError("damaged")
    rows = np.frombuffer(content[end + 1 : start], ROW)
    _check_rows(rows, status.st_size, first["names"], len(first["labels"]))
    damages = [(name, reason) for name, reason in first["damages"]]
    names = np.frombuffer(content[start:], np.uint8)
    counts = status.st_size, status.st_mtime_ns
    labels = tuple(first["labels"])
    return ShardIndex(path, *counts, rows, names, labels, tuple(damages), first["others"])


def _check_rows(rows: Rows, size: int, names: int, labels: int) -> None:
    """Raise an error unless all images lie within the shard, and names and labels exist."""
    bounds = (("offset", "size", size), ("name", "length", names))
    for start, length, end in bounds:
        low = min(rows[start].min(initial=0), rows[length].min(initial=0))
        if low < 0 or (rows[start] > end - rows[length]).any():
            raise ValueError("damaged")
    if len(rows) and not NO_LABEL <= rows["label"].min() <= rows["label"].max() < labels:
        raise ValueError("damaged")


def _keep(index: ShardIndex) -> None:
    content = index.to_bytes()
    reasons = []
    for file in filter(None, (_file_beside(index.path), _file_in_cache(index.path))):
        try:
            with whole_file(file) as out:
                out.write(content)
        except OSError as error:
            reasons.append(f"{file.parent}: {error.strerror}")
        else:
            break
    if reasons:
        kept = f"kept in {file.parent}" if len(reasons) == 1 else "made anew each time"
        _note_once(
            f"Indices of the shards in {index.path.absolute().parent} cannot be kept there "
            f"({'; '.join(reasons)}): they are {kept}."
        )


def _note_once(message: str) -> None:
    """Log a message that several threads may have, once."""
    with _LOCK:
        is_new = message not in _NOTED
        _NOTED.add(message)
    if is_new:
        logger.warning(message)
