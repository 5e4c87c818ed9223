"""A progress bar, and durations in words."""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


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
        if self._bar is None and self._show and slow:
            from rich.progress import Progress as Bar

            from amcl.console import stderr_console

            console = stderr_console()
            self._show = console.file.isatty()
            if self._show:
                self._bar = Bar(console=console, transient=True)
                self._bar.add_task(self._title, total=self._total)
                self._bar.start()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)
