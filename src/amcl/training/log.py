"""The log of a run: metrics in its folder, other trackers, and what a person sees."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from amcl.checkpoints.run_folder import RunFolder
from amcl.config import Config
from amcl.training.display import Display
from amcl.training.plan import Plan
from amcl.training.trackers import make_trackers

logger = logging.getLogger("amcl")


class RunLog:
    """Writes metrics to the run folder and to trackers, and shows progress.

    On processes other than the first it does nothing. Trackers are closed however the run ends.
    """

    def __init__(self, folder: RunFolder, config: Config, plan: Plan, first: bool) -> None:
        self.folder, self.epochs, self.per_epoch = folder, plan.epochs, plan.per_epoch
        self.log_every, self.first = config.run.log_every, first
        self.trackers = make_trackers(config, folder.path) if first else []
        self.display = Display(plan.total, plan.per_epoch, plan.batch_size, shown=first)
        self._stack = ExitStack()

    def __enter__(self) -> RunLog:
        for tracker in self.trackers:
            self._stack.callback(tracker.close)
        self._stack.enter_context(self.display)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def write(self, row: dict[str, Any]) -> None:
        """Write a row of metrics to the folder and to all trackers."""
        if self.first:
            self.folder.write(row)
            for tracker in self.trackers:
                tracker.write(row)

    def step(self, step: int, loss: float, lr: float) -> None:
        """Show a step, and write its loss now and then."""
        self.display.advance(step, loss)
        if step % self.log_every == 0:
            self.write({"kind": "step", "step": step, "loss": loss, "lr": lr})

    def epoch(self, step: int, loss: float, lr: float, metrics: dict[str, float]) -> None:
        """Write and show the mean loss and the metrics of an epoch that has ended."""
        number, rate = step // self.per_epoch, round(self.display.rate(step), 1)
        row = {"kind": "epoch", "step": step, "epoch": number, "loss": loss, "lr": lr}
        self.write({**row, "images_per_second": rate, **metrics})
        if self.first:
            logger.log(
                logging.DEBUG if self.display.bar.live.is_started else logging.INFO,
                "epoch %d/%d  loss %.4f  %.0f images/s  %s left",
                *(number, self.epochs, loss, rate, self.display.left(step)),
            )

    def probe(self, step: int, metrics: dict[str, float], advice: list[str]) -> dict[str, Any]:
        """Write and show the metrics of a probe; returns the row."""
        number = step // self.per_epoch
        row = {"kind": "probe", "step": step, "epoch": number, **metrics}
        self.write(row)
        text = "  ".join(
            f"{name} {value:.1%}" if name.startswith("knn") else f"{name} {value:.3g}"
            for name, value in metrics.items()
        )
        logger.info("epoch %d  %s", number, text)
        for message in advice:
            logger.warning("epoch %d: %s", number, message)
        return row
