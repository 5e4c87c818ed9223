"""Signals that stop a run or ask for a checkpoint; Windows has some of them only."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], object]

STOP = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU", "SIGBREAK")
    if hasattr(signal, name)
)
"""Ctrl-C, the end of a job, a lost connection, the limit of CPU time; Ctrl-Break on Windows."""

SAVE = tuple(getattr(signal, name) for name in ("SIGUSR1",) if hasattr(signal, name))
"""Sent by SLURM some time before the end of a job (`--signal=USR1@300`)."""


class Terminated(KeyboardInterrupt):
    """A signal other than Ctrl-C ends the command where it is, as Ctrl-C does.

    Args:
        number: The signal.

    Example:
        >>> Terminated(15).exit_code
        143
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def handle(numbers: tuple[int, ...], handler: Handler | signal.Handlers) -> dict[int, Any]:
    """Handle signals in another way. Outside the main thread, which alone gets them, do nothing.

    Args:
        numbers: The signals. A SIGHUP that is ignored stays ignored: that is what `nohup` is for.
        handler: Function of the signal and the frame, or one of `signal.Handlers`.

    Returns:
        The handlers before, for `restore`.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    hangup = getattr(signal, "SIGHUP", None)
    return {
        number: signal.signal(number, handler)
        for number in numbers
        if number != hangup or signal.getsignal(number) != signal.SIG_IGN
    }


def restore(handlers: dict[int, Any]) -> None:
    """Handle signals again as before `handle`."""
    for number, handler in handlers.items():
        # None is a handler that was not installed from Python, which Python cannot restore.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)
