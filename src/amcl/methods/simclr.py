"""SimCLR: two views through one network, every other image of the batch a negative."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl.backbones import Backbone
from amcl.methods.contrastive import ContrastiveSettings
from amcl.methods.heads import HeadMethod


@dataclass(frozen=True, kw_only=True)
class SimCLRSettings(ContrastiveSettings):
    """SimCLR."""

    name: ClassVar[str] = "simclr"


class SimCLR(HeadMethod):
    """SimCLR (Eq. 2.1), and with several heads and adaptive temperatures SimCLR + AMCL."""

    def __init__(self, settings: SimCLRSettings, backbone: Backbone) -> None:
        loss = settings.make_loss("both_views")
        extra = loss.temperature.extra_outputs
        super().__init__(backbone, settings.make_heads(backbone.dim, settings.heads, extra), loss)

    def forward(
        self, view0: torch.Tensor, view1: torch.Tensor, watch: bool = False
    ) -> torch.Tensor:
        z0, z1 = self.heads(self.backbone(view0)), self.heads(self.backbone(view1))
        return self._keep(self.loss(z0, z1, return_stats=watch))
