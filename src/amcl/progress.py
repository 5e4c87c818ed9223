"""A bar for work that takes its time."""

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(40), duration(600), duration(2e4)
    ('40 s', '10 min', '5.6 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Progress:
    """A bar on a terminal, for what takes longer than a second."""

    def __init__(self, what: str, total: int, shown: bool = True) -> None:
        self._what, self._total, self._done = what, total, 0
        self._bar: Bar | None = None
        self._shown = shown
        self._since = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """So much more is done."""
        self._done += count
        if (
            self._bar is None
            and self._shown
            and sys.stderr.isatty()
            and time.monotonic() - self._since > 1
        ):
            from rich.console import Console
            from rich.progress import Progress as Bar

            self._bar = Bar(console=Console(stderr=True), transient=True)
            self._bar.add_task(self._what, total=self._total)
            self._bar.start()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)
