"""Consoles that no name of a file can act on, and whose stderr never fails."""

import io
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment

from amcl.printable import printable_lines


class SafeConsole(Console):
    """A console that prints control characters of texts as escapes; its own styles are not texts.

    The arguments are those of `rich.console.Console`.

    Example:
        >>> import io
        >>> out = io.StringIO()
        >>> SafeConsole(file=out).print("a\\x1b[2Jb", markup=False)
        >>> out.getvalue()
        'a\\\\x1b[2Jb\\n'
    """

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Return the parts of what is printed, each safe to print."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable_lines(text), style, control)


def stderr_console() -> Console:
    """Return a console on stderr; what cannot be written there is dropped.

    A terminal that is closed or a pipe that nobody reads is no reason to end a training.

    Returns:
        A console for messages and progress bars.

    Example:
        >>> stderr_console().print("3 of 5 runs")
    """
    stderr: Any = _Stderr()
    return SafeConsole(file=stderr, highlight=False)


class _Stderr:
    """The stderr of the moment, without its errors.

    A console ends the program when a pipe is closed, so that the errors must not reach it.
    """

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def _stream(self) -> Any:
        # A progress bar puts a stream of its own in front of stderr, which would lead back here.
        stream = getattr(sys.stderr, "rich_proxied_file", sys.stderr)
        return io.StringIO() if stream is None else stream  # None: it was closed from the start
