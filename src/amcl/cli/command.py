"""The frame of a command: errors that a user can mend become one line and an exit code."""

import functools
from collections.abc import Callable

from amcl.errors import Interrupted, RunError, memory_message
from amcl.redaction import redact
from amcl.training.display import console


def command(
    name: str, interrupted: str = ""
) -> Callable[[Callable[[list[str]], None]], Callable[[list[str]], int]]:
    """Make a command of a function that takes the words of the command line.

    Args:
        name: Name in front of messages, such as "amcl embed".
        interrupted: Sentence for a user who stops the command with Ctrl-C.

    Returns:
        A decorator. The function that it makes returns the exit code.

    Example:
        >>> @command("amcl greet")
        ... def main(args: list[str]) -> None:
        ...     print("hello", *args)
        >>> main(["world"])
        hello world
        0
    """

    def decorate(work: Callable[[list[str]], None]) -> Callable[[list[str]], int]:
        @functools.wraps(work)
        def main(args: list[str]) -> int:
            return attempt(name, lambda: work(args), interrupted)

        return main

    return decorate


def attempt(name: str, work: Callable[[], None], interrupted: str = "") -> int:
    """Do the work of a command.

    Args:
        name: Name in front of messages, such as "amcl embed".
        work: Function that does it.
        interrupted: Sentence for a user who stops it with Ctrl-C.

    Returns:
        The exit code: 0, or that of an error, whose message is printed.
    """
    try:
        work()
    except Interrupted as error:
        return _fail(name, str(error), "yellow", error.exit_code)
    except RunError as error:
        return _fail(name, str(error), "red", error.exit_code)
    except (ValueError, FileNotFoundError, NotADirectoryError) as error:
        return _fail(name, str(error), "red", 2)
    except KeyboardInterrupt as error:
        code = getattr(error, "exit_code", 130)  # `Terminated` has one
        return _fail(name, f"interrupted. {interrupted}".rstrip(), "yellow", code)
    except OSError as error:
        return _fail(name, str(error), "red", 1)
    except (MemoryError, RuntimeError) as error:
        message = memory_message(error)
        if message is None:
            raise
        return _fail(name, message, "red", 1)
    return 0


def _fail(name: str, message: str, style: str, code: int) -> int:
    text = redact(f"{name}: {message}").replace("\n", "\n  ")
    console.print(text, style=style, markup=False, soft_wrap=True)
    return code
