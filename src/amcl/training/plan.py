"""Which images each step, part and process sees, and what processes agree on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from amcl.config import Config
from amcl.data import DataSet
from amcl.distributed import mean_over_ranks
from amcl.errors import UnfitError
from amcl.seeds import generator
from amcl.training.fit import suitable_batch
from amcl.training.hardware import StopRequest

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Plan:
    """Which images each step, part and process sees."""

    images: int
    batch_size: int
    accumulate: int
    epochs: int
    seed: int
    rank: int
    world_size: int
    check_every: int

    @staticmethod
    def of(config: Config, data: DataSet, fabric: Fabric) -> Plan:
        """The plan of a run on this process; an error where the numbers do not fit."""
        run, images = config.run, len(data.train)
        unit = run.accumulate * fabric.world_size
        if run.batch_size > images:
            suggested = suitable_batch(images, run.batch_size, unit)
            steps = max(images // suggested, 1)
            raise UnfitError(
                f"a batch of {run.batch_size} images does not fit into the {images} there are. Use "
                f"--batch-size {suggested}, which makes {counted(steps, 'step')} an epoch, or at "
                f"most {images}; without --batch-size a suitable one is chosen."
            )
        if run.batch_size % unit:
            raise UnfitError(
                f"a batch of {run.batch_size} does not divide among {fabric.world_size} processes "
                f"and {run.accumulate} parts: choose a multiple of {unit} for --batch-size."
            )
        return Plan(
            images,
            run.batch_size,
            run.accumulate,
            run.epochs,
            run.seed,
            fabric.global_rank,
            fabric.world_size,
            # Looking at the loss waits for the device, which costs nothing on a CPU.
            check_every=1 if fabric.device.type == "cpu" else 10,
        )

    @property
    def per_epoch(self) -> int:
        """Steps an epoch; what is left over comes in another epoch's order."""
        return self.images // self.batch_size

    @property
    def left_over(self) -> int:
        """Images that an epoch leaves out."""
        return self.images - self.per_epoch * self.batch_size

    @property
    def total(self) -> int:
        """Steps of the run."""
        return self.per_epoch * self.epochs

    def is_multiple(self, done: int, epochs: int) -> bool:
        """Return whether after `done` steps the epochs are a multiple of `epochs`; never for 0."""
        return epochs > 0 and (done // self.per_epoch) % epochs == 0

    def rows(self, part: int) -> tuple[int, int]:
        """This process's rows of a step's batch, from and to, in one part."""
        count = self.batch_size // (self.accumulate * self.world_size)
        start = (part * self.world_size + self.rank) * count
        return start, start + count

    def indices(self, done: int) -> Iterator[torch.Tensor]:
        """This process's images, part by part, from step `done` on."""
        for step in range(done, self.total):
            epoch, place = divmod(step, self.per_epoch)
            if place == 0 or step == done:
                order = torch.randperm(self.images, generator=generator(self.seed, "order", epoch))
            batch = order[place * self.batch_size : (place + 1) * self.batch_size]
            for part in range(self.accumulate):
                start, stop = self.rows(part)
                yield batch[start:stop]

    def agree(
        self, loss_sum: torch.Tensor, loss: torch.Tensor, stop: StopRequest
    ) -> tuple[torch.Tensor, bool]:
        """The loss over all processes, and whether any was asked to stop."""
        asked = torch.tensor(float(stop.signal is not None), device=loss.device)
        mean = mean_over_ranks(torch.stack([loss, loss_sum, asked]))
        loss_sum.copy_(mean[1])
        return mean[0], mean[2].item() > 0


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "step"), counted(2, "step")
    ('1 step', '2 steps')
    """
    return f"{count} {noun}{'s' * (count != 1)}"
