"""Encoded images in shards, by number."""

import io
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import torch
from numpy.typing import NDArray

from amcl.data.packed import NO_LABEL, PackedRecords
from amcl.data.shards.index import ROW, Names, Rows, ShardIndex, load_index
from amcl.data.shards.positions import open_to_read, read_into
from amcl.progress import Progress

_OPEN_SHARDS = 64  # descriptors that a process keeps
_BUFFER = 2**20  # bytes that are read at once
_THREADS = 8
_IN_SHARD = np.dtype([("shard", "<i4"), *ROW.descr])


@dataclass(frozen=True)
class _Shard:
    path: str
    size: int
    mtime: int


@dataclass(frozen=True)
class ShardRecord:
    """An image in a shard.

    Args:
        shard: The shard.
        member: Its name in the shard.
        offset: Position of its first byte.
        size: Number of its bytes.
    """

    shard: _Shard
    member: str
    offset: int
    size: int

    @property
    def name(self) -> str:
        """Path of the shard, and name in it."""
        return f"{self.shard.path}/{self.member}"

    def open(self) -> BinaryIO:
        """Open it for reading, or raise an error if the shard is no longer what it was."""
        if self.size == 0:
            raise ValueError("empty file (0 bytes)")
        descriptor = _opened(self.shard)
        status = os.fstat(descriptor.number)
        if (status.st_size, status.st_mtime_ns) != (self.shard.size, self.shard.mtime):
            raise ValueError("the shard has changed since its index was read")
        if self.size <= _BUFFER:
            return io.BytesIO(os.pread(descriptor.number, self.size, self.offset))
        section = _Section(descriptor, self.offset, self.size)
        return cast(BinaryIO, io.BufferedReader(section, _BUFFER))


class ShardRecords(PackedRecords):
    """Images in shards.

    All of them together are a few arrays: worker processes share them, and a million images take
    some tens of megabytes.

    Args:
        indices: The indices of the shards.
    """

    def __init__(self, indices: Sequence[ShardIndex]) -> None:
        self._shards = tuple(_Shard(str(i.path), i.size, i.mtime) for i in indices)
        # Labels are texts by number, the same number for the same text in every shard.
        self.texts = tuple(dict.fromkeys(t for i in indices for t in i.labels))
        self._names: Names = np.concatenate([i.names for i in indices] or [np.empty(0, np.uint8)])
        self._rows: Rows = np.empty(sum(len(i.rows) for i in indices), _IN_SHARD)
        numbers = {text: number for number, text in enumerate(self.texts)}
        start = first_name = 0
        for shard, index in enumerate(indices):
            rows = self._rows[start : start + len(index.rows)]
            for field in ROW.names or ():
                rows[field] = index.rows[field]
            rows["shard"] = shard
            rows["name"] += first_name
            # The last one is that of NO_LABEL, which is -1.
            table = np.array([*(numbers[text] for text in index.labels), NO_LABEL])
            rows["label"] = table[index.rows["label"]]
            start += len(index.rows)
            first_name += len(index.names)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> ShardRecord:
        row = self._rows[index]
        shard = self._shards[row["shard"]]
        return ShardRecord(shard, self.member(index), int(row["offset"]), int(row["size"]))

    @property
    def labels(self) -> NDArray[Any]:
        """Number (N,) in `texts` of the label of each image; `NO_LABEL` for none."""
        labels: NDArray[Any] = self._rows["label"]
        return labels

    def member(self, index: int) -> str:
        """Return the name of an image in its shard."""
        row = self._rows[index]
        name = self._names[row["name"] : row["name"] + row["length"]]
        return os.fsdecode(name.tobytes())

    def select(self, indices: torch.Tensor) -> "ShardRecords":
        """Return the images with these indices, in their order."""
        records = ShardRecords(())
        records._shards, records.texts, records._names = self._shards, self.texts, self._names
        records._rows = self._rows[indices.numpy()]
        return records

    def fingerprint(self) -> Iterator[bytes]:
        """Yield paths, sizes and times of change of the shards, and where each image lies."""
        for shard in self._shards:
            yield os.fsencode(f"{shard.path} {shard.size} {shard.mtime}\n")
        for field in ("shard", "offset", "size"):
            yield self._rows[field].tobytes()

    def identity(self) -> Iterator[bytes]:
        """Yield names and sizes of images, whichever shards they are in."""
        for index, size in enumerate(self._rows["size"].tolist()):
            yield os.fsencode(f"{self.member(index)} {size}\n")


def load_indices(paths: Sequence[Path]) -> list[ShardIndex]:
    """Return the indices of shards; those that are not kept yet are made, several at a time.

    Args:
        paths: The shards.

    Returns:
        An index for each.
    """
    pool = ThreadPoolExecutor(_THREADS)
    indices = []
    try:
        with Progress("reading the indices of shards", len(paths)) as progress:
            for index in pool.map(load_index, paths):
                indices.append(index)
                progress.advance(1)
    finally:
        pool.shutdown(cancel_futures=True)
    return indices


class _Descriptor:
    """An open shard, which closes when nothing reads it anymore."""

    def __init__(self, path: str) -> None:
        self.number = open_to_read(path)

    def __del__(self) -> None:
        if hasattr(self, "number"):
            os.close(self.number)


@lru_cache(_OPEN_SHARDS)
def _opened(shard: _Shard) -> _Descriptor:
    """Open a shard; processes may share the descriptor, since it is read without seeking."""
    return _Descriptor(shard.path)


class _Section(io.RawIOBase):
    """The bytes of an image in a shard, as a file."""

    def __init__(self, descriptor: _Descriptor, offset: int, size: int) -> None:
        self._descriptor = descriptor
        self._offset = offset
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError("a position before the first byte")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        length = max(0, min(len(view), self._size - self._position))
        start = self._offset + self._position
        length = read_into(self._descriptor.number, view[:length], start) if length else 0
        self._position += length
        return length
