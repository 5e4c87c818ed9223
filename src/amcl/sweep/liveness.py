"""Whether a process of this machine is still alive."""

import os
import socket
from functools import cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> str:
    """Return a text that identifies this process among all processes of all machines.

    Returns:
        Machine, process ID and time of its start; "" on systems without ``/proc``.

    Example:
        >>> this_process() == this_process()
        True
    """
    return _identity(os.getpid())


def has_died(process: str) -> bool:
    """Return True if a process was one of this machine, and has ended.

    Args:
        process: Text that `this_process` returned there.

    Example:
        >>> has_died(this_process()), has_died("a process of another machine")
        (False, False)
    """
    machine, _, rest = process.rpartition(" pid ")
    number = rest.partition(" ")[0]
    return machine == _machine() != "" and number.isdecimal() and _identity(int(number)) != process


def _identity(pid: int) -> str:
    started = _started(pid)
    return f"{_machine()} pid {pid} {started}" if started else ""


@cache
def _machine() -> str:
    """Return the name of this machine since it was started, and of the container."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip()
        container = os.readlink("/proc/self/ns/pid")  # process IDs are those of a namespace
        return f"{socket.gethostname()} {boot} {container}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return the time at which a process started, in ticks; "" if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    state, *fields = text.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]  # one that has ended may not be reaped yet
