"""What a person sees while a run goes on: a progress bar on a terminal, lines elsewhere."""

import logging
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

logger = logging.getLogger("amcl")
console = Console(stderr=True, highlight=False)


def log_to_console(level: int = logging.INFO) -> None:
    """Send what the package has to say to the terminal."""
    logger.setLevel(level)
    known = [handler for handler in logger.handlers if isinstance(handler, _Lines)]
    if not known:
        known = [_Lines()]
        logger.addHandler(known[0])
    for handler in known:
        handler.setLevel(level)


class _Lines(logging.Handler):
    """Prints messages above the progress bar, each as one line, however long it is."""

    def emit(self, record: logging.LogRecord) -> None:
        console.print(self.format(record), markup=False, soft_wrap=True)


class Display:
    """Progress of a run: epoch, loss, images per second, time left."""

    def __init__(self, total: int, per_epoch: int, batch_size: int, shown: bool) -> None:
        self.total, self.per_epoch, self.batch_size = total, per_epoch, batch_size
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}  {task.fields[rate]} images/s "),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            disable=not (shown and console.is_terminal),
            transient=True,
        )
        self.task: TaskID | None = None
        self.first = self.marked = 0
        self.begun = self.since = time.perf_counter()

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
        self.first, self.begun = step, time.perf_counter()
        self.mark(step)
        self.task = self.bar.add_task(
            "", total=self.total, completed=step, epoch=self._epoch(step), loss="…", rate="…"
        )

    def advance(self, step: int, loss: float) -> None:
        """Show that `step` steps are done."""
        if self.task is None:
            raise RuntimeError("start() comes before advance()")
        rate = f"{self.rate(step):.0f}"
        self.bar.update(
            self.task, completed=step, epoch=self._epoch(step), loss=f"{loss:.3f}", rate=rate
        )

    def rate(self, step: int) -> float:
        """Images per second since the last mark."""
        seconds = max(time.perf_counter() - self.since, 1e-9)
        return (step - self.marked) * self.batch_size / seconds

    def mark(self, step: int) -> None:
        """Count speed anew from here: a new epoch, after probes and checkpoints."""
        self.marked, self.since = step, time.perf_counter()

    def left(self, step: int) -> str:
        """Time left, for people."""
        seconds = (time.perf_counter() - self.begun) / max(step - self.first, 1)
        seconds *= self.total - step
        if seconds < 90:
            return f"{seconds:.0f} s"
        return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

    def _epoch(self, step: int) -> str:
        epochs = self.total // self.per_epoch
        return f"{min(step // self.per_epoch + 1, epochs)}/{epochs}"
