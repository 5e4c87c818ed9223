"""Errors that end a run, each with the exit code that scripts see."""

import re
import signal

_NO_MEMORY = r"can't allocate memory|out of memory|cannot allocate memory"


class RunError(Exception):
    """A run cannot start or continue; the message says why and what to do."""

    exit_code = 1


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class if it has none.

    Example:
        >>> first_line(ValueError("no\\nyes")), first_line(KeyError())
        ('no', 'KeyError')
    """
    return (str(error).splitlines() or [type(error).__name__])[0]


def memory_message(error: BaseException) -> str | None:
    """Return what to do after an error that says that there is too little memory.

    Args:
        error: Any error. torch has a class for the memory of accelerators, and none for that of
            the CPU.

    Returns:
        One line; None for an error of another kind.

    Example:
        >>> memory_message(ValueError("no")) is None
        True
    """
    text = str(error)
    if not (isinstance(error, MemoryError) or re.search(_NO_MEMORY, text, re.IGNORECASE)):
        return None
    needed = re.search(r"allocate (\d+) bytes|allocate ([\d.]+ [KMGT]iB)", text)
    amount = ""
    if needed is not None:
        size = needed[2] or f"{int(needed[1]) / 2**30:,.1f} GiB"
        amount = f" ({size} were asked for at once)"
    return (
        f"there is not enough memory{amount}. Choose a smaller --batch-size or --image-size, a "
        "smaller network (--backbone, --width), fewer --heads, a smaller --queue or fewer "
        "--workers: those of them that this command has."
    )


class UnfitError(RunError):
    """Settings that do not fit the images or the processes there are."""


class NonFiniteError(RunError):
    """The loss or the weights are no longer finite."""

    exit_code = 3


class Interrupted(RunError):
    """A signal stopped the run, and everything is saved."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = 128 + (number or signal.SIGINT)

    def with_message(self, message: str) -> "Interrupted":
        """Return the same interruption with another message."""
        return Interrupted(message, self.exit_code - 128)


class StoppedWaiting(Exception):
    """A signal stopped a run that waits for images; it ends as `Interrupted`."""
