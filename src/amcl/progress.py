"""Output for people: a console that never fails, a progress bar, durations in words."""

import io
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar


def stderr_console() -> "Console":
    """Return a console on stderr; what cannot be written there is dropped.

    A terminal that is closed or a pipe that nobody reads is no reason to end a training.

    Returns:
        A console for messages and progress bars.

    Example:
        >>> stderr_console().print("3 of 5 runs")
    """
    from rich.console import Console

    stderr: Any = _Stderr()
    return Console(file=stderr, highlight=False)


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


def duration(seconds: float) -> str:
    """Return a duration in words.

    >>> duration(40), duration(600), duration(2e4)
    ('40 s', '10 min', '5.6 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Progress:
    """A progress bar on a terminal for work that takes longer than a second.

    Args:
        title: Text in front of the bar.
        total: Amount of work.
        show: False shows no bar.
    """

    def __init__(self, title: str, total: int, show: bool = True) -> None:
        self._title = title
        self._total = total
        self._done = 0
        self._bar: Bar | None = None
        self._show = show
        self._start = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """Add to the work that is done."""
        self._done += count
        slow = time.monotonic() - self._start > 1
        if self._bar is None and self._show and slow and _Stderr().isatty():
            from rich.progress import Progress as Bar

            self._bar = Bar(console=stderr_console(), transient=True)
            self._bar.add_task(self._title, total=self._total)
            self._bar.start()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)
