"""SimSiam: each view predicts the other's projection, which is held fixed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from amcl.backbones import Backbone
from amcl.losses import NegativeCosineLoss
from amcl.methods.base import pair
from amcl.methods.heads import WITHOUT_NEGATIVES, HeadMethod, HeadSettings
from amcl.methods.registry import register_method
from amcl.modules import LastNorm, ProjectionHeads
from amcl.settings import whole_number
from amcl.temperature import ConstantSettings, TemperatureSettings
from amcl.temperature.base import Sign


@dataclass(frozen=True, kw_only=True)
class SimSiamSettings(HeadSettings):
    """Settings of SimSiam. The heads are its predictors; temperatures lie around 1.

    β is above 1, the greatest similarity: without negatives Ω alone holds τ up, and it does so
    only where β > s. φ reads predictions and does not shape them: a prediction that also moves
    its temperature is no longer the best one, which is what SimSiam learns by.

    AMCL is not the default: it was level at best after 240 and 1,200 steps (docs/results.md).

    Example:
        >>> SimSiamSettings().amcl().temperature.beta
        3.0
    """

    name: ClassVar[str] = "simsiam"
    title: ClassVar[str] = "SimSiam"
    amcl_by_default: ClassVar[bool] = False
    signs: ClassVar[tuple[Sign, ...]] = ("positive",)
    takes_score: ClassVar[bool] = False
    temperature_defaults: ClassVar[Mapping[str, Any]] = WITHOUT_NEGATIVES

    temperature: TemperatureSettings = ConstantSettings(tau=1.0)
    projector: tuple[int, ...] = (2048, 2048)
    projector_norm: bool = True
    projector_last_norm: LastNorm = "affine"
    predictor: int = 512
    """Hidden width of the predictors."""
    shared_projector: bool = True
    """One projector for all predictors (the paper); false: one for each."""
    fixed_predictor_rate: bool = True
    """The predictors' learning rate does not decay."""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("predictor", self.predictor, "it is a width, such as 512")


@register_method(SimSiamSettings)
class SimSiam(HeadMethod):
    """SimSiam (Eq. 2.2) with C predictors, and SimSiam + AMCL.

    Args:
        settings: Settings of projector, predictors, temperature and loss.
        backbone: The network that is trained.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> settings = SimSiamSettings(heads=3, projector=(16, 8), predictor=8)
        >>> SimSiam(settings, backbone)(torch.randn(2, 4, 3, 32, 32)).shape
        torch.Size([])
    """

    def __init__(self, settings: SimSiamSettings, backbone: Backbone) -> None:
        loss = NegativeCosineLoss(**settings.loss_settings())
        projectors = 1 if settings.shared_projector else settings.heads
        heads = settings.make_heads(backbone.dim, projectors)
        super().__init__(settings, backbone, heads, loss)
        dim = settings.dim
        self.predictors = ProjectionHeads(
            dim, settings.predictor, dim, num_heads=settings.heads, norm=True
        )
        self.fixed = settings.fixed_predictor_rate

    def constant_lr_modules(self) -> list[nn.Module]:
        return [self.predictors] if self.fixed else []

    def forward(self, views: Sequence[torch.Tensor], watch: bool = False) -> torch.Tensor:
        view0, view1 = pair(views)
        h0 = self._target(view0)
        h1 = self._target(view1)
        z0 = self.predictors(h0)
        z1 = self.predictors(h1)
        return self._keep(self.loss(z0, z1, h0, h1, return_stats=watch))

    def compared(self, views: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return predictions of the first view, and their targets, projections of the second."""
        view0, view1 = pair(views)
        z0: torch.Tensor = self.predictors(self._target(view0))
        return z0, self._target(view1).expand_as(z0)

    def _target(self, view: torch.Tensor) -> torch.Tensor:
        """Return the targets: (N, D) of a shared projector, (C, N, D) of one for each head."""
        h = self.project(view)
        return h[0] if h.shape[0] == 1 else h
