"""Errors that end a run, each with the exit code that scripts see."""

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
    """A signal stopped the run, and everything is saved."""

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = 128 + (number or signal.SIGINT)

    def with_message(self, message: str) -> "Interrupted":
        """Return the same interruption with another message."""
        return Interrupted(message, self.exit_code - 128)


class StoppedWaiting(Exception):
    """A signal stopped a run that waits for images; it ends as `Interrupted`."""
