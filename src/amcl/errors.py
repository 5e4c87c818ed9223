"""How a run can end other than well, each with the exit code that scripts see."""

import signal


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


class UnfitError(RunError):
    """Settings that do not fit the images or the processes there are."""


class NonFiniteError(RunError):
    """The loss or the weights are no longer finite."""

    exit_code = 3


class Interrupted(RunError):
    """The run was asked to stop by a signal, and did so with everything saved."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = 128 + (number or signal.SIGINT)


class StoppedWaiting(Exception):
    """A run that waits for images was asked to stop; it ends as `Interrupted`."""
