"""Files that are whole or not there."""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write; it takes its name at the end, and leaves nothing behind after an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:  # told with the name that people know
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def is_free(path: Path, *known: str) -> bool:
    """Return whether nothing is at `path`, or a folder that holds nothing but files named `known`.

    What a killed process left of a file that it was writing does not count.
    """
    if not path.is_dir():
        return not path.exists()
    leftover = re.compile(r"\..+\.\d+\.writing")
    return all(leftover.fullmatch(each.name) or each.name in known for each in path.iterdir())


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, whole or not at all."""
    with whole_file(path) as file:
        file.write(text.encode())


def digest(parts: Iterable[bytes | memoryview]) -> str:
    """SHA-256 of bytes that come in parts.

    >>> digest([b"a", b"bc"]) == digest([b"abc"])
    True
    """
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make the renaming of a file itself survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
