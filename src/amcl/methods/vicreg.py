"""VICReg: two views alike, channels of some variance that do not covary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from amcl.backbones import Backbone
from amcl.losses import VICRegLoss
from amcl.methods.heads import WITHOUT_NEGATIVES, HeadMethod, HeadSettings
from amcl.methods.registry import register_method
from amcl.settings import non_negative
from amcl.temperature import ConstantSettings, LearnableSettings, TemperatureSettings
from amcl.temperature.base import Sign


@dataclass(frozen=True, kw_only=True)
class VICRegSettings(HeadSettings):
    """Settings of VICReg. The heads are its expanders; temperatures lie around 1.

    β is 1, the squared distance of two views at which the best temperature is twice τ₀. φ reads
    projections and does not shape them: views that are alike have a lower τ than Ω asks for, and
    would be pushed apart to raise it.

    Example:
        >>> VICRegSettings().amcl().temperature.beta
        1.0
    """

    name: ClassVar[str] = "vicreg"
    title: ClassVar[str] = "VICReg"
    signs: ClassVar[tuple[Sign, ...]] = ("positive",)
    divides_similarities: ClassVar[bool] = False
    temperature_defaults: ClassVar[Mapping[str, Any]] = {**WITHOUT_NEGATIVES, "beta": 1.0}

    temperature: TemperatureSettings = ConstantSettings(tau=1.0)
    projector: tuple[int, ...] = (2048, 2048, 2048)
    projector_norm: bool = True
    invariance_weight: float = 25.0
    """λ, the weight of the squared distance of the two views."""
    variance_weight: float = 25.0
    """µ, the weight of the hinge on the standard deviation of channels."""
    covariance_weight: float = 1.0
    """ν, the weight of the covariances of channels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("invariance_weight", "variance_weight", "covariance_weight"):
            non_negative(name, getattr(self, name), "0 leaves the term out")

    @classmethod
    def refusal(cls, scheme: type[TemperatureSettings]) -> str:
        if scheme.has_score or issubclass(scheme, LearnableSettings):
            return (
                "is learned without a regularizer, and the loss of VICReg, which has no negative "
                "pairs, falls as it rises"
            )
        return super().refusal(scheme)


@register_method(VICRegSettings)
class VICReg(HeadMethod):
    """VICReg (arXiv 2105.04906) with C expanders, and VICReg + AMCL.

    Args:
        settings: Settings of expanders, temperature and loss.
        backbone: The network that is trained.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> method = VICReg(VICRegSettings(heads=3, projector=(16, 8)), backbone)
        >>> method(torch.randn(2, 4, 3, 32, 32)).shape
        torch.Size([])
    """

    def __init__(self, settings: VICRegSettings, backbone: Backbone) -> None:
        loss = VICRegLoss(
            **settings.loss_settings(),
            invariance_weight=settings.invariance_weight,
            variance_weight=settings.variance_weight,
            covariance_weight=settings.covariance_weight,
        )
        heads = settings.make_heads(backbone.dim, settings.heads, last_bias=False)
        super().__init__(settings, backbone, heads, loss)

    def forward(self, views: Sequence[torch.Tensor], watch: bool = False) -> torch.Tensor:
        z0, z1 = self.compared(views)
        return self._keep(self.loss(z0, z1, return_stats=watch))
