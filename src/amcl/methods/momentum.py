"""An encoder that follows the trained one slowly, which MoCo, MoCo v3 and BYOL share."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn

from amcl.backbones import Backbone
from amcl.losses.base import HeadLoss
from amcl.methods.heads import HeadMethod, HeadSettings
from amcl.modules import MomentumCopy, ProjectionHeads, cosine_momentum


@dataclass(frozen=True, kw_only=True)
class MomentumSettings(HeadSettings):
    """Settings that methods with a key encoder share, whatever their loss."""

    momentum: float = 0.99
    """Share of itself that the key encoder keeps in a step."""
    momentum_end: float | None = None
    """Momentum rises to this along a half cosine; none: it stays."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("momentum", "momentum_end"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {value}: usual is 0.99 to 1.")


class MomentumMethod(HeadMethod):
    """A method that compares with the outputs of a slow copy of backbone and heads.

    MoCo calls these outputs keys, BYOL targets.

    Args:
        settings: Settings of heads, temperature and momentum.
        backbone: The network that is trained.
        heads: Projection heads behind the backbone.
        loss: Loss over the projections.
    """

    def __init__(
        self,
        settings: MomentumSettings,
        backbone: Backbone,
        heads: ProjectionHeads,
        loss: HeadLoss,
    ) -> None:
        super().__init__(settings, backbone, heads, loss)
        self.momentum = settings.momentum
        self._start = settings.momentum
        self._end = settings.momentum_end
        self.keys = MomentumCopy(self.query_encoder)

    @property
    def query_encoder(self) -> nn.Sequential:
        """Backbone and heads, which the key encoder follows."""
        return nn.Sequential(self.backbone, self.heads)

    def load_backbone(self, weights: Mapping[str, torch.Tensor], source: object) -> None:
        """Load the weights into both encoders."""
        super().load_backbone(weights, source)
        self.keys.copy_from(self.query_encoder)

    def before_step(self, epoch: float, progress: float) -> None:
        """Update the key encoder, with this step's momentum, before it computes any key."""
        super().before_step(epoch, progress)
        if self._end is not None:
            self.momentum = cosine_momentum(self._start, self._end, progress)
        self.keys.update(self.query_encoder, self.momentum)
