"""Locks between processes, on every platform and on folders that machines share."""

import errno
from pathlib import Path

import filelock

_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}


def try_lock(path: Path) -> filelock.BaseFileLock | None:
    """Lock a file until the lock is released or its process ends.

    Args:
        path: The file, which is created if there is none. Links are not followed.

    Returns:
        The lock; None if another process has it, or if the file system has no locks.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     lock = try_lock(Path(folder, "file"))
        ...     second = try_lock(Path(folder, "file"))
        ...     lock.release()
        >>> second is None
        True
    """
    # A lock that knows of threads could not be released in another thread than this one.
    lock = filelock.FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        return None
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return lock
