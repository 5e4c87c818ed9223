"""The log of a training: metrics for the run folder and trackers, and what a person sees."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from amcl.training.display import Display, format_rate, format_wait
from amcl.training.trackers import Writer

logger = logging.getLogger("amcl")

_LONG_WAIT = 0.2  # share of the time from which on images are waited for too long
_HINT_AFTER = 20.0  # seconds of an epoch


class RunLog:
    """Writes metrics to the run folder and to trackers, and shows progress.

    Args:
        display: Progress on the terminal; one that is not shown belongs to a process other than the
            first.
        writers: The run folder and trackers. Without any, the training is a part of something that
            reports on its own, and epochs are no news.
        log_every: Number of steps between rows of metrics.
        data_hint: What helps where images are waited for too long; "" gives no hint.
    """

    def __init__(
        self,
        display: Display,
        writers: Sequence[Writer] = (),
        log_every: int = 1,
        data_hint: str = "",
    ) -> None:
        self.display = display
        self.writers = writers
        self.log_every = log_every
        self._data_hint = data_hint

    def write(self, row: dict[str, Any]) -> None:
        """Write a row of metrics."""
        for writer in self.writers:
            writer.write(row)

    def step(self, step: int, loss: float, lr: float) -> None:
        """Show a step, and write its loss now and then."""
        self.display.advance(step, loss)
        if step % self.log_every == 0:
            self.write({"kind": "step", "step": step, "loss": loss, "lr": lr})
        if self.display.elapsed > _HINT_AFTER:  # by then, starting the workers counts little
            self._hint(self.display.data_wait)

    def _hint(self, data_wait: float) -> None:
        """Say once what helps where images are waited for too long."""
        if self._data_hint and data_wait > _LONG_WAIT and self.display.shown:
            logger.warning(
                "training waits for images %.0f %% of the time: %s",
                *(100 * data_wait, self._data_hint),
            )
            self._data_hint = ""

    def epoch(
        self, step: int, loss: float, lr: float, data_wait: float, metrics: dict[str, float]
    ) -> None:
        """Write and show the mean loss and the metrics of an epoch that has ended.

        Args:
            step: Number of steps that have been taken.
            loss: Mean loss of the epoch.
            lr: Learning rate of its last step.
            data_wait: Share of its time in which images were waited for.
            metrics: Other metrics.
        """
        display = self.display
        number = step // display.per_epoch
        rate = round(display.rate(step), 1)
        row = {"kind": "epoch", "step": step, "epoch": number, "loss": loss, "lr": lr}
        speed = {"images_per_second": rate, "data_wait": round(data_wait, 4)}
        self.write({**row, **speed, **metrics})
        if display.shown:
            is_news = self.writers and not display.bar.live.is_started
            logger.log(
                logging.INFO if is_news else logging.DEBUG,
                "epoch %d/%d  loss %.4f  %s images/s%s  %s left",
                *(number, display.epochs, loss, format_rate(rate), format_wait(data_wait)),
                display.left(step),
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
