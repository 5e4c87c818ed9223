"""What a person sees during a run: a progress bar on a terminal, lines elsewhere."""

import logging
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

logger = logging.getLogger("amcl")
console = Console(stderr=True, highlight=False)

_SECONDS, _PARTS = 30.0, 10  # between lines within an epoch; and how many an epoch has at most


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
        self._in_lines = shown and not console.is_terminal
        self.task: TaskID | None = None
        self.first = self.marked = 0
        self.begun = self.since = time.perf_counter()
        self._told = 0, self.since

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
        self._tell(step, loss)

    def rate(self, step: int) -> float:
        """Images per second since the last mark."""
        seconds = max(time.perf_counter() - self.since, 1e-9)
        return (step - self.marked) * self.batch_size / seconds

    def mark(self, step: int) -> None:
        """Count speed anew from here: a new epoch, after probes and checkpoints."""
        self.marked, self.since = step, time.perf_counter()
        self._told = step, self.since

    def left(self, step: int) -> str:
        """Time left, for people."""
        seconds = (time.perf_counter() - self.begun) / max(step - self.first, 1)
        seconds *= self.total - step
        if seconds < 90:
            return f"{seconds:.0f} s"
        return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

    def _tell(self, step: int, loss: float) -> None:
        """Write a line now and then within a long epoch, where there is no bar."""
        told, since = self._told
        enough = (step - told) * _PARTS >= self.per_epoch
        now, within = time.perf_counter(), step % self.per_epoch
        if self._in_lines and within and enough and now - since >= _SECONDS:
            self._told = step, now
            logger.info(
                "epoch %s  %.0f %%  loss %.4f  %.0f images/s  %s left",
                *(self._epoch(step), 100 * within / self.per_epoch, loss),
                *(self.rate(step), self.left(step)),
            )

    def _epoch(self, step: int) -> str:
        epochs = self.total // self.per_epoch
        return f"{min(step // self.per_epoch + 1, epochs)}/{epochs}"
