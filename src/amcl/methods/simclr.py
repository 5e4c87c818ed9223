"""SimCLR: two views through one network, every other image of the batch a negative."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl.backbones import Backbone
from amcl.methods.contrastive import ContrastiveSettings
from amcl.methods.heads import HeadMethod
from amcl.methods.registry import register_method


@dataclass(frozen=True, kw_only=True)
class SimCLRSettings(ContrastiveSettings):
    """Settings of SimCLR.

    Example:
        >>> SimCLRSettings().amcl().heads
        3
    """

    name: ClassVar[str] = "simclr"
    title: ClassVar[str] = "SimCLR"


@register_method(SimCLRSettings)
class SimCLR(HeadMethod):
    """SimCLR (Eq. 2.1), and with several heads and adaptive temperatures SimCLR + AMCL.

    Args:
        settings: Settings of heads, temperature and loss.
        backbone: The network that is trained.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> method = SimCLR(SimCLRSettings(projector=(16, 8)).amcl(), backbone)
        >>> method(torch.randn(2, 4, 3, 32, 32)).shape  # two views of four images
        torch.Size([])
    """

    def __init__(self, settings: SimCLRSettings, backbone: Backbone) -> None:
        loss = settings.make_loss("both_views")
        extra = loss.temperature.extra_outputs
        heads = settings.make_heads(backbone.dim, settings.heads, extra)
        super().__init__(settings, backbone, heads, loss)

    def forward(self, views: Sequence[torch.Tensor], watch: bool = False) -> torch.Tensor:
        z0, z1 = self.compared(views)
        return self._keep(self.loss(z0, z1, return_stats=watch))
