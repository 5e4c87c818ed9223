"""What a step is fed with: views of images, and what a method draws beside them."""

from dataclasses import dataclass

import torch

from amcl.data import Batch
from amcl.methods import Drawn, Method
from amcl.seeds import generator
from amcl.training.plan import Plan
from amcl.views import Views


@dataclass(frozen=True)
class Feed:
    """Makes a method's inputs of this process's images, drawn as they would be in one process."""

    method: Method
    views: Views
    plan: Plan
    device: torch.device
    channels_last: bool

    def __call__(
        self, batch: Batch, step: int, part: int
    ) -> tuple[list[torch.Tensor], dict[str, Drawn]]:
        """The views of a part of a step, (n, 3, S, S) each, and what else the method takes."""
        rows = self.plan.rows(part)
        drawn = self.method.draw(self.plan.batch_size, generator(self.plan.seed, "masks", step))
        beside = {} if drawn is None else {"drawn": drawn.rows(*rows)}
        return self._views(batch, step, *rows), beside

    def _views(self, batch: Batch, step: int, start: int, stop: int) -> list[torch.Tensor]:
        shapes = None
        if batch.shapes is not None:
            shapes = torch.ones(self.plan.batch_size, 2)
            shapes[start:stop] = batch.shapes
        chance = generator(self.plan.seed, "views", step)
        drawn = self.views.draw(self.plan.batch_size, generator=chance, shapes=shapes)
        drawn = drawn.rows(start, stop)
        if self.method.num_views == 1:
            drawn = drawn.first()
        made = self.views(batch.pixels.to(self.device), drawn.to(self.device))
        if self.channels_last:
            flat = made.flatten(0, 1).contiguous(memory_format=torch.channels_last)
            return list(flat.chunk(len(made)))
        return list(made)
