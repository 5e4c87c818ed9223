"""MoCo: keys from a slowly moving encoder, negatives from a queue of past keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl.backbones import Backbone
from amcl.distributed import shuffle
from amcl.methods.base import pair
from amcl.methods.contrastive import ContrastiveSettings
from amcl.methods.momentum import MomentumMethod, MomentumSettings
from amcl.methods.queue import QueueSettings
from amcl.methods.registry import register_method
from amcl.modules import Queue


@dataclass(frozen=True, kw_only=True)
class MoCoSettings(QueueSettings, MomentumSettings, ContrastiveSettings):
    """Settings of MoCo.

    Example:
        >>> MoCoSettings(queue=1024).num_negatives(batch_size=256)
        1024
    """

    name: ClassVar[str] = "moco"
    title: ClassVar[str] = "MoCo"
    views_of_negatives: ClassVar[int] = 1

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

    def num_negatives(self, batch_size: int) -> int:
        return self.queue or super().num_negatives(batch_size)

    def min_batch_size(self) -> int:
        return 1 if self.queue else super().min_batch_size()

    def queued_per_step(self, batch_size: int) -> int:
        return batch_size * (2 if self.symmetric else 1)

    def min_queue(self) -> int:
        return self.top_k or 0


@register_method(MoCoSettings)
class MoCo(MomentumMethod):
    """MoCo, with a queue of projections for each head (Eq. 2.4), and MoCo + AMCL.

    Args:
        settings: Settings of heads, temperature, queue, momentum and loss.
        backbone: The network that is trained.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> method = MoCo(MoCoSettings(heads=3, projector=(16, 8), queue=32), backbone)
        >>> method(torch.randn(2, 4, 3, 32, 32)).shape, method.queue.z.shape
        (torch.Size([]), torch.Size([3, 32, 8]))
    """

    def __init__(self, settings: MoCoSettings, backbone: Backbone) -> None:
        loss = settings.make_loss("other_view")
        extra = loss.temperature.extra_outputs
        heads = settings.make_heads(backbone.dim, settings.heads, extra)
        super().__init__(settings, backbone, heads, loss)
        self.symmetric = settings.symmetric
        self.shuffle = settings.shuffle
        width = settings.dim + extra
        self.queue = Queue(settings.heads, settings.queue, width) if settings.queue else None

    def forward(self, views: Sequence[torch.Tensor], watch: bool = False) -> torch.Tensor:
        view0, view1 = pair(views)
        negatives = None if self.queue is None else self.queue.z
        q0 = self.project(view0)
        k1 = self._keys_of(view1)
        loss = self._keep(self.loss(q0, k1, negatives, return_stats=watch))
        keys = [k1]
        if self.symmetric:
            q1 = self.project(view1)
            k0 = self._keys_of(view0)
            loss = 0.5 * (loss + self._keep(self.loss(q1, k0, negatives)))
            keys.insert(0, k0)
        if self.training and self.queue is not None:
            self.queue.hold(torch.cat(keys, dim=1))
        return loss

    def compared(self, views: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return queries of the first view and keys of the second."""
        view0, view1 = pair(views)
        return self.project(view0), self.keys(view1)

    def after_step(self) -> None:
        """Put the step's keys into the queue.

        Not in `forward`: the loss still reads the queue until its backward pass is over.
        """
        if self.queue is not None:
            self.queue.push_held()
        super().after_step()

    @torch.no_grad()
    def _keys_of(self, view: torch.Tensor) -> torch.Tensor:
        """Return keys of a view; batch norm sees them among images of other processes.

        Otherwise the statistics that a query shares with its key would give the positive away.
        """
        if not self.shuffle:
            keys: torch.Tensor = self.keys(view)
            return keys
        shuffled = shuffle(view)
        return shuffled.undo(self.keys(shuffled.items).transpose(0, 1)).transpose(0, 1)
