"""The images that each step, part and process of pre-training sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from amcl.config import Config
from amcl.data import DataSet
from amcl.errors import UnfitError
from amcl.printable import counted
from amcl.seeds import generator
from amcl.training.fit import suitable_batch

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Plan:
    """The images that each step, part and process sees."""

    images: int
    batch_size: int
    accumulate: int
    epochs: int
    seed: int
    rank: int
    world_size: int

    @staticmethod
    def of(config: Config, data: DataSet, fabric: Fabric) -> Plan:
        """Return the plan of a run on this process; raise an error if the numbers do not fit."""
        run = config.run
        images = len(data.train)
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
                f"and {counted(run.accumulate, 'part')}: choose a multiple of {unit} for "
                "--batch-size."
            )
        return Plan(
            images,
            run.batch_size,
            run.accumulate,
            run.epochs,
            run.seed,
            fabric.global_rank,
            fabric.world_size,
        )

    def check_norms(self, module: nn.Module) -> None:
        """Raise an error if batch normalization would get single images."""
        images = self.batch_size // (self.accumulate * self.world_size)
        if images < 2 and any(isinstance(m, _BatchNorm) for m in module.modules()):
            raise UnfitError(
                f"--batch-size {self.batch_size} is one image a process and part, and batch "
                "normalization needs two or more: choose a larger --batch-size, or a smaller "
                "--accumulate."
            )

    @property
    def per_epoch(self) -> int:
        """Number of steps of an epoch; the rest comes in another epoch's order."""
        return self.images // self.batch_size

    @property
    def left_over(self) -> int:
        """Number of images that an epoch leaves out."""
        return self.images - self.per_epoch * self.batch_size

    @property
    def total(self) -> int:
        """Number of steps of the run."""
        return self.per_epoch * self.epochs

    def rows(self, part: int) -> tuple[int, int]:
        """Return this process's rows of a step's batch, from and to, in one part."""
        count = self.batch_size // (self.accumulate * self.world_size)
        start = (part * self.world_size + self.rank) * count
        return start, start + count

    def indices(self, done: int) -> Iterator[torch.Tensor]:
        """Yield this process's images, part by part, from step `done` on."""
        for step in range(done, self.total):
            epoch, position = divmod(step, self.per_epoch)
            if position == 0 or step == done:
                order = torch.randperm(self.images, generator=generator(self.seed, "order", epoch))
            batch = order[position * self.batch_size : (position + 1) * self.batch_size]
            for part in range(self.accumulate):
                start, stop = self.rows(part)
                yield batch[start:stop]
