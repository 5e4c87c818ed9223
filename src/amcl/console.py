"""A console of rich on which no name of a file can act."""

from collections.abc import Iterable
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
