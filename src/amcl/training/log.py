"""The log of a training: metrics for the run folder and trackers, and what a person sees."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from amcl.training.display import Display, format_rate
from amcl.training.trackers import Writer

logger = logging.getLogger("amcl")


class RunLog:
    """Writes metrics to the run folder and to trackers, and shows progress.

    Args:
        display: Progress on the terminal; one that is not shown belongs to a process other than the
            first.
        writers: The run folder and trackers. Without any, the training is a part of something that
            reports on its own, and epochs are no news.
        log_every: Number of steps between rows of metrics.
    """

    def __init__(
        self, display: Display, writers: Sequence[Writer] = (), log_every: int = 1
    ) -> None:
        self.display = display
        self.writers = writers
        self.log_every = log_every

    def write(self, row: dict[str, Any]) -> None:
        """Write a row of metrics."""
        for writer in self.writers:
            writer.write(row)

    def step(self, step: int, loss: float, lr: float) -> None:
        """Show a step, and write its loss now and then."""
        self.display.advance(step, loss)
        if step % self.log_every == 0:
            self.write({"kind": "step", "step": step, "loss": loss, "lr": lr})

    def epoch(self, step: int, loss: float, lr: float, metrics: dict[str, float]) -> None:
        """Write and show the mean loss and the metrics of an epoch that has ended."""
        display = self.display
        number = step // display.per_epoch
        rate = round(display.rate(step), 1)
        row = {"kind": "epoch", "step": step, "epoch": number, "loss": loss, "lr": lr}
        self.write({**row, "images_per_second": rate, **metrics})
        if display.shown:
            is_news = self.writers and not display.bar.live.is_started
            logger.log(
                logging.INFO if is_news else logging.DEBUG,
                "epoch %d/%d  loss %.4f  %s images/s  %s left",
                *(number, display.epochs, loss, format_rate(rate), display.left(step)),
            )

    def probe(self, step: int, metrics: dict[str, float], advice: list[str]) -> dict[str, Any]:
        """Write and show the metrics of a probe, and return their row."""
        number = step // self.display.per_epoch
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
