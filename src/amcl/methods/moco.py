"""MoCo: keys from a slowly moving encoder, negatives from a queue of past keys."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl.backbones import Backbone
from amcl.distributed import shuffle
from amcl.methods.momentum import MomentumMethod, MomentumSettings
from amcl.modules import Queue


@dataclass(frozen=True, kw_only=True)
class MoCoSettings(MomentumSettings):
    """MoCo."""

    name: ClassVar[str] = "moco"

    queue: int = 4096
    """K, past keys kept a head; 0 takes the other keys of the batch for negatives, as MoCo v3."""
    symmetric: bool = True
    """Each view asks for the other, ½(l₀₁ + l₁₀); false: the first asks for the second."""
    shuffle: bool = True
    """Over several processes, shuffle images before the key encoder's batch norm."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.queue < 0:
            raise ValueError(f"queue must be 0 or more, got {self.queue}.")


class MoCo(MomentumMethod):
    """MoCo, with a queue of projections for each head (Eq. 2.4), and MoCo + AMCL."""

    def __init__(self, settings: MoCoSettings, backbone: Backbone) -> None:
        loss = settings.make_loss("other_view")
        extra = loss.temperature.extra_outputs
        heads = settings.make_heads(backbone.dim, settings.heads, extra)
        super().__init__(settings, backbone, heads, loss)
        self.settings = settings
        width = settings.dim + extra
        self.queue = Queue(settings.heads, settings.queue, width) if settings.queue else None
        self._pushed: list[torch.Tensor] = []

    def forward(
        self, view0: torch.Tensor, view1: torch.Tensor, watch: bool = False
    ) -> torch.Tensor:
        negatives = None if self.queue is None else self.queue.z
        q0, k1 = self.heads(self.backbone(view0)), self._keys_of(view1)
        loss = self._keep(self.loss(q0, k1, negatives, return_stats=watch))
        keys = [k1]
        if self.settings.symmetric:
            q1, k0 = self.heads(self.backbone(view1)), self._keys_of(view0)
            loss = 0.5 * (loss + self._keep(self.loss(q1, k0, negatives)))
            keys.insert(0, k0)
        if self.training:
            self._pushed += keys
        return loss

    def compared(
        self, view0: torch.Tensor, view1: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Queries of the first view and keys of the second."""
        return self.project(view0), self.keys(view1)

    def after_step(self) -> None:
        """Put the step's keys into the queue.

        Not in `forward`: the loss still reads the queue until its backward pass is over.
        """
        if self.queue is not None:
            self.queue.push(torch.cat(self._pushed, dim=1))
        self._pushed.clear()
        super().after_step()

    @torch.no_grad()
    def _keys_of(self, view: torch.Tensor) -> torch.Tensor:
        """Keys of a view; batch norm sees them among images of other processes.

        Otherwise the statistics a query shares with its key would give the positive away.
        """
        if not self.settings.shuffle:
            own: torch.Tensor = self.keys(view)
            return own
        shuffled = shuffle(view)
        return shuffled.undo(self.keys(shuffled.items).transpose(0, 1)).transpose(0, 1)
