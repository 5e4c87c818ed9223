"""Files that are written whole or not at all, hashes, and the home folder."""

import errno
import hashlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from amcl.locks import try_lock
from amcl.printable import printable_lines

_UNFINISHED = re.compile(r"(\..+\.\d+\.writing)(\.lock)?")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag


@contextmanager
def whole_file(path: Path, older: Sequence[Path] = ()) -> Iterator[IO[bytes]]:
    """Open a file to write; it gets its name at the end, and an error leaves nothing behind.

    What a killed process left of the same file is removed.

    Args:
        path: The file.
        older: Names that earlier files move along to, the newest first, before the new one takes
            its name. The last of them is replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(path.parent, path.name)
    try:
        with _locked_name(path) as temporary:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            for source, target in reversed(list(pairwise([path, *older]))):
                if source.exists():
                    source.replace(target)
            temporary.replace(path)
            _sync_folder(path.parent)
    except OSError as error:  # with the path that the caller gave
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Make a new folder beside a path, which is removed at the end.

    What a killed process left of such a folder is removed, too.

    Args:
        path: The file or folder that is prepared in it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(path.parent, path.name)
    with _locked_name(path) as folder:
        folder.mkdir()
        yield folder


@contextmanager
def _locked_name(path: Path) -> Iterator[Path]:
    """Choose a name for an unfinished file or folder beside a path, and remove it at the end.

    While its lock is held, no other process takes it for what a killed one left. The name is random
    and new: no link that someone placed there is followed.
    """
    temporary = path.with_name(f".{path.name}.{secrets.randbits(32)}.writing")
    if os.path.lexists(temporary):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(temporary))
    lock = try_lock(_lock_of(temporary))
    try:
        yield temporary
    finally:
        _remove(temporary)
        if lock is not None:
            lock.release()
        _lock_of(temporary).unlink(missing_ok=True)


def _lock_of(temporary: Path) -> Path:
    return temporary.with_name(f"{temporary.name}.lock")


def is_free(path: Path, *allowed: str) -> bool:
    """Return whether nothing is at `path`, or a folder with no files but those named `allowed`.

    Unfinished files of a killed process do not count.
    """
    if not path.is_dir():
        return not path.exists()
    return all(_UNFINISHED.fullmatch(e.name) or e.name in allowed for e in path.iterdir())


def remove_unfinished(folder: Path, name: str = "") -> None:
    """Remove the unfinished files and folders that killed processes left in a folder.

    Args:
        folder: The folder.
        name: Name of the file that they would have become; "" for any.
    """
    for path in folder.iterdir():
        match = _UNFINISHED.fullmatch(path.name)
        if match is not None and path.name.startswith(f".{name}"):
            _remove_unlocked(folder / match[1])


def _remove_unlocked(path: Path) -> None:
    """Remove an unfinished file or folder and its lock, unless its process is still at it."""
    lock_path = _lock_of(path)
    if lock_path.is_symlink() or (lock_path.exists() and not lock_path.is_file()):
        _remove(lock_path)  # nobody here makes such a lock
    lock = try_lock(lock_path)
    if lock is None:  # another process has it, or the file system has no locks
        return
    _remove(path)
    lock.release()
    lock_path.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    """Remove a file or folder, if there is one; a link or a pipe is neither followed nor opened."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def free_path(path: Path) -> Path:
    """Return a path that does not exist: this one, or else the first of path-2, path-3, …

    Args:
        path: A file or folder.

    Returns:
        The path, with a number at the end of its name if it exists.

    Example:
        >>> free_path(Path("no such folder"))
        PosixPath('no such folder')
    """
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def check_name(name: str, where: object) -> None:
    """Raise an error unless a name that was read is that of a file within a folder.

    Args:
        name: The name.
        where: Origin of the name, for the error.

    Raises:
        ValueError: The name is empty, has a separator, or leads out of the folder.

    Example:
        >>> check_name("../thesis.txt", "a list")
        Traceback (most recent call last):
        ValueError: a list is damaged: '../thesis.txt' is no name of a file.
    """
    separated = "/" in name or os.sep in name or os.path.splitdrive(name)[0]
    if name in ("", ".", "..") or separated or "\0" in name:
        raise ValueError(f"{where} is damaged: {name!r:.60} is no name of a file.")


def expand_home(path: str | Path) -> Path:
    """Return the path with ~ at its beginning replaced by the home folder.

    Args:
        path: A path that a user gave.

    Returns:
        The path without ~; a file that has a name with ~ keeps it.

    Raises:
        ValueError: There is no home folder: in a container, a user may have none.

    Example:
        >>> expand_home("runs/first")
        PosixPath('runs/first')
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        if Path(path).exists():
            return Path(path)
        raise ValueError(
            f"{path}: there is no home folder that {Path(path).parts[0]} could stand for. Write "
            "the path in full, or set HOME."
        ) from None


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, whole or not at all; control characters become escapes."""
    with whole_file(path) as file:
        file.write(printable_lines(text).encode())


def open_own(path: Path, mode: str) -> IO[Any]:
    """Open a file that a folder has under a known name; a link under this name is an error.

    Args:
        path: The file.
        mode: Mode as that of `open`.

    Returns:
        The open file; texts are UTF-8, with the line ends of Unix.
    """

    def opener(name: str, flags: int) -> int:
        if not _NO_LINK and os.path.islink(name):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        return os.open(name, flags | _NO_LINK, 0o666)

    if "b" in mode:
        return open(path, mode, opener=opener)
    return open(path, mode, encoding="utf-8", newline="\n", opener=opener)


def drop_half_line(path: Path) -> bool:
    """Remove half a line from the end of a file, which a process that was killed leaves.

    Args:
        path: A file of lines; a link is an error.

    Returns:
        Whether there was one.
    """
    if not path.is_file():
        return False
    with open_own(path, "rb+") as file:
        content: bytes = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            file.truncate(whole)
    return whole < len(content)


def digest(parts: Iterable[bytes | memoryview]) -> str:
    """Return the SHA-256 of bytes that come in parts.

    >>> digest([b"a", b"bc"]) == digest([b"abc"])
    True
    """
    sha256 = hashlib.sha256()
    for part in parts:
        sha256.update(part)
    return sha256.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make the renaming of a file itself survive a loss of power."""
    if sys.platform == "win32":  # where folders cannot be opened, and NTFS has a journal of its own
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
