"""Progress of a training for people: a bar on a terminal, lines elsewhere."""

import logging
import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from amcl.console import stderr_console
from amcl.printable import PrintableFormatter
from amcl.progress import duration

logger = logging.getLogger("amcl")
console = stderr_console()

_SECONDS = 30.0  # at least between lines within an epoch
_PARTS = 10  # maximum number of lines within an epoch


def log_to_console(level: int = logging.INFO) -> None:
    """Send the messages of the package to the terminal."""
    logger.setLevel(level)
    handlers = [handler for handler in logger.handlers if isinstance(handler, _Lines)]
    if not handlers:
        handlers = [_Lines()]
        handlers[0].setFormatter(PrintableFormatter())
        logger.addHandler(handlers[0])
    for handler in handlers:
        handler.setLevel(level)


class _Lines(logging.Handler):
    """Prints messages above the progress bar, each as one line, however long it is."""

    def emit(self, record: logging.LogRecord) -> None:
        console.print(self.format(record), markup=False, soft_wrap=True)


def format_rate(rate: float) -> str:
    """Return a number of images per second.

    >>> format_rate(0.43), format_rate(512.3)
    ('0.4', '512')
    """
    return f"{rate:.1f}" if rate < 10 else f"{rate:.0f}"


def format_wait(share: float) -> str:
    """Return the share of the time in which images are waited for, behind a number of images.

    >>> format_wait(0.123), format_wait(0.001)
    (', waiting for data 12 % of the time', '')
    """
    percent = f"{100 * share:.0f}"
    return f", waiting for data {percent} % of the time" if percent != "0" else ""


class Display:
    """Progress of a training: epoch, loss, images per second, time left.

    Args:
        total: Number of steps.
        per_epoch: Number of steps of an epoch.
        batch_size: Number of images of a step.
        shown: Show it, as the first process does.
        name: What is trained, where that is not clear.
    """

    def __init__(
        self, total: int, per_epoch: int, batch_size: int, shown: bool = True, name: str = ""
    ) -> None:
        self.total = total
        self.per_epoch = per_epoch
        self.batch_size = batch_size
        self.shown = shown
        self._title = f"{name}: epoch" if name else "epoch"
        self.bar = Progress(
            TextColumn(f"{self._title} {{task.fields[epoch]}}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}  {task.fields[rate]} images/s "),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            disable=not (shown and console.is_terminal),
            transient=True,
        )
        self._in_lines = shown and not console.is_terminal
        self._bar_task: TaskID | None = None
        self._first_step = 0
        self._marked_step = 0
        self._line_step = 0
        self._waited = 0.0
        self._begin = self._marked = self._last_line = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the last mark."""
        return max(time.perf_counter() - self._marked, 1e-9)

    @property
    def data_wait(self) -> float:
        """Share of the time since the last mark in which this process waited for images."""
        return min(self._waited / self.elapsed, 1.0)

    @property
    def epochs(self) -> int:
        """Number of epochs."""
        return self.total // self.per_epoch

    def __enter__(self) -> "Display":
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def start(self, step: int) -> None:
        """Begin at a step."""
        self._first_step = step
        self._begin = time.perf_counter()
        self.mark(step)
        self._bar_task = self.bar.add_task(
            "", total=self.total, completed=step, epoch=self._epoch(step), loss="…", rate="…"
        )

    def advance(self, step: int, loss: float) -> None:
        """Show that `step` steps are done."""
        if self._bar_task is None:
            raise RuntimeError("start() comes before advance()")
        rate = format_rate(self.rate(step))
        self.bar.update(
            self._bar_task, completed=step, epoch=self._epoch(step), loss=f"{loss:.3f}", rate=rate
        )
        self._log_line(step, loss)

    def add_wait(self, seconds: float) -> None:
        """Count time in which this process waited for images."""
        self._waited += seconds

    def rate(self, step: int) -> float:
        """Return the number of images per second since the last mark."""
        return (step - self._marked_step) * self.batch_size / self.elapsed

    def mark(self, step: int) -> None:
        """Count speed anew from here: a new epoch, after probes and checkpoints."""
        self._marked_step = self._line_step = step
        self._waited = 0.0
        self._marked = self._last_line = time.perf_counter()

    def left(self, step: int) -> str:
        """Return the time left, for people."""
        seconds = (time.perf_counter() - self._begin) / max(step - self._first_step, 1)
        return duration(seconds * (self.total - step))

    def _log_line(self, step: int, loss: float) -> None:
        """Write a line now and then within a long epoch, where there is no bar."""
        within = step % self.per_epoch
        is_due = (step - self._line_step) * _PARTS >= self.per_epoch
        now = time.perf_counter()
        if self._in_lines and within and is_due and now - self._last_line >= _SECONDS:
            self._line_step = step
            self._last_line = now
            logger.info(
                "%s %s  %.0f %%  loss %.4f  %s images/s%s  %s left",
                *(self._title, self._epoch(step), 100 * within / self.per_epoch, loss),
                *(format_rate(self.rate(step)), format_wait(self.data_wait), self.left(step)),
            )

    def _epoch(self, step: int) -> str:
        return f"{min(step // self.per_epoch + 1, self.epochs)}/{self.epochs}"
