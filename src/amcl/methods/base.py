"""What every method shares: a backbone, and what the training loop asks of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn

from amcl.backbones import Backbone
from amcl.losses import LossStats


@dataclass(frozen=True, kw_only=True)
class MethodSettings:
    """What can be set about a method."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        """The end of the chain of checks."""


class Drawn(NamedTuple):
    """What a method draws at random for n images, beside their V views. On the CPU."""

    masked: torch.Tensor
    """True where a patch is not seen, (V, n, L)."""
    sigma: torch.Tensor
    """σ of the noise in each view, (V, n); 0 for none."""
    seeds: torch.Tensor
    """From which the noise of each view follows, (V, n)."""

    def rows(self, start: int, stop: int) -> "Drawn":
        """Those of images start … stop − 1: the part of a rank or of a micro-batch."""
        return Drawn(*(value[:, start:stop] for value in self))


class Method(nn.Module):
    """A self-supervised method: two views of N images in, a loss out."""

    num_views: ClassVar[int] = 2
    """How many views of an image it takes."""

    stats: LossStats | None = None
    """What the last call with `watch` saw of similarities and temperatures."""

    terms: dict[str, torch.Tensor]
    """What the last call with `watch` found of losses that are not over heads."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone = backbone
        self.terms = {}

    def forward(
        self, view0: torch.Tensor, view1: torch.Tensor, watch: bool = False
    ) -> torch.Tensor:
        """The loss of two views (N, 3, S, S); `watch` leaves statistics in `stats` and `terms`.

        A method that draws something beside the views takes it as `drawn`.
        """
        raise NotImplementedError

    def draw(self, n: int, generator: torch.Generator) -> Drawn | None:
        """What is drawn for n images beside their views: masks, noise. Most draw nothing."""
        return None

    def draw_weights(self) -> None:
        """Draw the backbone's first weights, where this method has a start of its own."""

    def start_from(self, weights: Mapping[str, torch.Tensor], where: object) -> None:
        """Take the backbone's first weights, with timm's keys, from elsewhere."""
        self.backbone.load(weights, where)

    def before_step(self, epoch: float, progress: float) -> None:
        """Tell how far training is: in epochs, and as a share of the whole."""

    def after_step(self) -> None:
        """What follows each step of the optimizer."""

    def with_fixed_rate(self) -> list[nn.Module]:
        """Parts whose learning rate does not decay."""
        return []

    def rate_scales(self) -> dict[nn.Parameter, float]:
        """Parameters that learn at a multiple of the learning rate; the others at 1."""
        return {}

    def measured(self) -> dict[str, float]:
        """What the last call with `watch` saw, as flat numbers for a log."""
        of_heads: dict[str, Any] = {} if self.stats is None else self.stats.to_dict()
        return {f"term/{name}": value.item() for name, value in self.terms.items()} | of_heads
