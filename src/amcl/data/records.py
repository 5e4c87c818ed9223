"""Encoded images by number: the bytes that are decoded, wherever they are stored."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol, Self

import numpy as np
import torch


class Record(Protocol):
    """An encoded image."""

    @property
    def name(self) -> str:
        """Path of its file, or shard and name within it."""
        ...

    @property
    def size(self) -> int:
        """Number of its bytes, or about as many; 0 if its file is missing."""
        ...

    def open(self) -> BinaryIO:
        """Open it, or raise an error whose message is the reason."""
        ...


class Records(Protocol):
    """N encoded images in a fixed order; worker processes share what they hold."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> Record: ...

    def select(self, indices: torch.Tensor) -> Self:
        """Return the images with these indices, in their order."""
        ...

    def fingerprint(self) -> Iterator[bytes]:
        """Yield what changes with any image, its file and the order."""
        ...

    def identity(self) -> Iterator[bytes]:
        """Yield what changes with any image and the order, but not where they are stored."""
        ...


@dataclass(frozen=True)
class FileRecord:
    """An image file.

    Args:
        name: Its path.
    """

    name: str

    @property
    def size(self) -> int:
        """Number of its bytes; 0 if it is missing."""
        try:
            return os.stat(self.name).st_size
        except OSError:  # reported when it is read
            return 0

    def open(self) -> BinaryIO:
        """Open the file if it is a regular one, and not empty."""
        status = os.stat(self.name)
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait forever
            is_folder = stat.S_ISDIR(status.st_mode)
            raise ValueError("a folder, not an image file" if is_folder else "not a regular file")
        if status.st_size == 0:
            raise ValueError("empty file (0 bytes)")
        return open(self.name, "rb")


class FileRecords:
    """Image files.

    Args:
        paths: The files.

    Example:
        >>> files = FileRecords(["a.png", "b.png"])
        >>> len(files), files[1].name
        (2, 'b.png')
    """

    def __init__(self, paths: Sequence[str]) -> None:
        # One block of bytes: worker processes share it, where a list of strings would be copied
        # into each of them as reference counts change.
        self._paths = np.array([os.fsencode(path) for path in paths], dtype=np.bytes_)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> FileRecord:
        return FileRecord(os.fsdecode(bytes(self._paths[index])))

    def select(self, indices: torch.Tensor) -> "FileRecords":
        """Return the files with these indices, in their order."""
        files = FileRecords(())
        files._paths = self._paths[indices.numpy()]
        return files

    def fingerprint(self) -> Iterator[bytes]:
        """Yield paths, sizes and times of change."""
        for path in self._names():
            yield os.fsencode(f"{path} {_status(path, 'st_size', 'st_mtime_ns')}\n")

    def identity(self) -> Iterator[bytes]:
        """Yield names below the common folder, and sizes."""
        paths = list(self._names())
        root = os.path.commonpath([os.path.dirname(path) for path in paths]) if paths else ""
        for path in paths:
            name = os.path.relpath(path, root or ".")
            yield os.fsencode(f"{name} {_status(path, 'st_size')}\n")

    def _names(self) -> Iterator[str]:
        return (self[index].name for index in range(len(self)))


def _status(path: str, *names: str) -> str:
    try:
        status = os.stat(path)
    except OSError:  # reported when it is read
        return "missing"
    return " ".join(str(getattr(status, name)) for name in names)
