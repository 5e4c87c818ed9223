"""BYOL: each view predicts the projection of the other by a slowly moving encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from amcl.backbones import Backbone
from amcl.losses import NegativeCosineLoss
from amcl.methods.base import pair
from amcl.methods.heads import WITHOUT_NEGATIVES
from amcl.methods.momentum import MomentumMethod, MomentumSettings
from amcl.methods.registry import register_method
from amcl.modules import ProjectionHeads
from amcl.settings import whole_number
from amcl.temperature import ConstantSettings, TemperatureSettings
from amcl.temperature.base import Sign


@dataclass(frozen=True, kw_only=True)
class BYOLSettings(MomentumSettings):
    """Settings of BYOL (arXiv 2006.07733). Temperatures lie around 1, as SimSiam's do.

    β is above 1, the greatest similarity: without negatives Ω alone holds τ up, and it does so
    only where β > s. φ reads predictions and does not shape them.

    Example:
        >>> BYOLSettings().amcl().temperature.beta
        3.0
    """

    name: ClassVar[str] = "byol"
    title: ClassVar[str] = "BYOL"
    signs: ClassVar[tuple[Sign, ...]] = ("positive",)
    takes_score: ClassVar[bool] = False
    temperature_defaults: ClassVar[Mapping[str, Any]] = WITHOUT_NEGATIVES
    loss_scale: ClassVar[float] = 4.0
    """Factor of the loss: ‖q − z'‖² is 2 − 2s in each direction, the negative cosine −s/2."""

    temperature: TemperatureSettings = ConstantSettings(tau=1.0)
    projector: tuple[int, ...] = (4096, 256)
    projector_norm: bool = True
    projector_bias: bool = False
    predictor: int = 4096
    """Hidden width of the predictors."""
    momentum: float = 0.996
    momentum_end: float = 1.0
    """Momentum rises to this along a half cosine; equal to momentum: it stays."""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("predictor", self.predictor, "it is a width, such as 4096")


@register_method(BYOLSettings)
class BYOL(MomentumMethod):
    """BYOL, and with several heads and adaptive temperatures (Eq. 2.2) BYOL + AMCL.

    Each head has its own projector, with its slow copy, and its own predictor. The loss is that of
    the paper without its constant, 4 with one head: at τ = 1 it is −2(s₀ + s₁), where the paper
    has (2 − 2s₀) + (2 − 2s₁).

    Args:
        settings: Settings of heads, predictors, temperature, momentum and loss.
        backbone: The network that is trained.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> settings = BYOLSettings(heads=3, projector=(16, 8), predictor=8)
        >>> BYOL(settings, backbone)(torch.randn(2, 4, 3, 32, 32)).shape
        torch.Size([])
    """

    def __init__(self, settings: BYOLSettings, backbone: Backbone) -> None:
        loss = NegativeCosineLoss(**settings.loss_settings())
        heads = settings.make_heads(backbone.dim, settings.heads)
        super().__init__(settings, backbone, heads, loss)
        dim = settings.dim
        self.predictors = ProjectionHeads(
            dim, settings.predictor, dim, num_heads=settings.heads, norm=True, bias=False
        )
        self.scale = settings.loss_scale

    def forward(self, views: Sequence[torch.Tensor], watch: bool = False) -> torch.Tensor:
        view0, view1 = pair(views)
        q0, q1 = (self.predictors(self.project(view)) for view in (view0, view1))
        target0 = self.keys(view0)
        target1 = self.keys(view1)
        return self.scale * self._keep(self.loss(q0, q1, target0, target1, return_stats=watch))

    def compared(self, views: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return predictions of the first view and their targets, of the second."""
        view0, view1 = pair(views)
        return self.predictors(self.project(view0)), self.keys(view1)
