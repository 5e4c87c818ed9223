"""Faults at file operations: a command runs in a forked process whose k-th operation goes wrong.

An operation opens a file for writing, renames, removes or links one, makes or removes a folder, or
syncs a file, below a folder. Right before its k-th operation the process is killed, or from there
on the disk is full: no file can grow any more. Importing torch takes seconds and a fork takes none:
with everything imported in the parent, every k can be tried.
"""

import importlib
import mmap
import os
import resource
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Fault = Literal["kill", "full disk"]

CRASH = 70  # exit code of a process that ended with a traceback
_SECONDS = 120.0  # after which a process counts as hung
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_PATHS = {  # events of Python's audit hooks, and how many of their arguments are paths
    "open": 1,
    "os.rename": 2,  # os.replace too
    "os.remove": 1,
    "os.mkdir": 1,
    "os.rmdir": 1,
    "os.link": 2,
    "os.symlink": 2,
    "os.truncate": 1,
}


@dataclass(frozen=True)
class Outcome:
    """How a process ended."""

    code: int
    """Exit code; the negative number of a signal that killed it."""
    output: str
    """What it printed, standard error included."""
    operations: int
    """Number of its file operations below the folder."""


def run(work: Callable[[], Any], folder: Path, fault: Fault | None = None, at: int = 0) -> Outcome:
    """Do some work in a forked process.

    Args:
        work: The work; what it returns is the exit code.
        folder: Folder whose file operations count.
        fault: What goes wrong; None for nothing.
        at: Number of the operation before which it does, from 1.
    """
    counter = mmap.mmap(-1, 8)  # shared with the child
    receiver, sender = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads are not forked
        child = os.fork()
    if child == 0:
        os.close(receiver)
        _work(work, os.path.realpath(folder), fault, at, counter, sender)
    os.close(sender)
    try:
        output = _read(receiver, time.monotonic() + _SECONDS)
    except TimeoutError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(receiver)
    _, status = os.waitpid(child, 0)
    return Outcome(
        os.waitstatus_to_exitcode(status), output, int.from_bytes(counter[:8], sys.byteorder)
    )


def import_modules_of(work: Callable[[], Any], folder: Path) -> None:
    """Import in this process all modules that some work needs, by doing it in another."""
    listing = folder.with_name(f"{folder.name}.modules")

    def work_and_list() -> int:
        code: int = work() or 0
        listing.write_text("\n".join(sys.modules))
        return code

    outcome = run(work_and_list, folder)
    assert outcome.code == 0, outcome.output
    for name in listing.read_text().splitlines():
        if name.partition(".")[0] not in ("__main__", "__mp_main__"):
            with suppress(ImportError):  # some modules are made by others, which are imported
                importlib.import_module(name)
    listing.unlink()


def _read(receiver: int, deadline: float) -> str:
    parts = []
    while True:
        if not select.select([receiver], [], [], max(deadline - time.monotonic(), 0))[0]:
            text = b"".join(parts).decode(errors="replace")
            raise TimeoutError(f"the process hangs; it printed: {text}")
        part = os.read(receiver, 1 << 16)
        if not part:
            return b"".join(parts).decode(errors="replace")
        parts.append(part)


def _work(
    work: Callable[[], Any], folder: str, fault: Fault | None, at: int, counter: Any, sender: int
) -> None:
    """Do the work in this process, which ends with it."""
    code = CRASH
    try:
        os.dup2(sender, 1)
        os.dup2(sender, 2)
        os.close(sender)
        sys.stdout = sys.stderr = open(2, "w", closefd=False, errors="replace")  # noqa: SIM115
        _inject(folder, fault, at, counter)
        code = work() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _inject(folder: str, fault: Fault | None, at: int, counter: Any) -> None:
    """Count the operations of this process, and let one of them go wrong."""
    inside = folder + os.sep

    def operate() -> None:
        number = int.from_bytes(counter[:8], sys.byteorder) + 1
        counter[:8] = number.to_bytes(8, sys.byteorder)
        if fault is not None and number == at:
            if fault == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            # Python ignores the signal that goes with it, so that every write is an error.
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def is_inside(path: Any) -> bool:
        if not isinstance(path, str | bytes):
            return False
        absolute = os.path.abspath(os.fsdecode(path))
        return absolute == folder or absolute.startswith(inside)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _PATHS or (event == "open" and not arguments[2] & _WRITES):
            return
        if any(is_inside(path) for path in arguments[: _PATHS[event]]):
            operate()

    sync = os.fsync

    def fsync(descriptor: Any) -> None:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        if is_inside(os.readlink(f"/proc/self/fd/{number}")):
            operate()
        sync(descriptor)

    os.fsync = fsync
    sys.addaudithook(audit)
