"""Reading of a file from a position, on systems with and without `os.pread`."""

import os
import threading

_seeking = threading.Lock()


def open_to_read(path: str | os.PathLike[str]) -> int:
    """Open a file, and return its descriptor."""
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))


def read_at(file: int, size: int, position: int) -> bytes:
    """Return at most `size` bytes from a position.

    Processes may share the file: with `os.pread`, nothing seeks in it, and where there is none, on
    Windows, processes do not inherit it.
    """
    if hasattr(os, "pread"):
        return os.pread(file, size, position)
    with _seeking:
        os.lseek(file, position, os.SEEK_SET)
        return os.read(file, size)


def read_into(file: int, view: memoryview, position: int) -> int:
    """Fill a buffer from a position, and return the number of bytes that were read."""
    if hasattr(os, "preadv"):
        return os.preadv(file, [view], position)
    content = read_at(file, len(view), position)
    view[: len(content)] = content
    return len(content)
