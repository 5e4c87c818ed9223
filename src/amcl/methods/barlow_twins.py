"""Barlow Twins: the channels of two views correlate one to one, and with no other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from amcl.backbones import Backbone
from amcl.losses import CrossCorrelationLoss
from amcl.methods.heads import HeadMethod, HeadSettings
from amcl.methods.registry import register_method
from amcl.settings import positive_number
from amcl.temperature import ConstantSettings, TemperatureSettings


@dataclass(frozen=True, kw_only=True)
class BarlowTwinsSettings(HeadSettings):
    """Settings of Barlow Twins. Temperatures lie around 1.

    Example:
        >>> BarlowTwinsSettings().amcl().temperature.tau_range(dim=2048)
        (0.5, 1.5)
    """

    name: ClassVar[str] = "barlow"
    title: ClassVar[str] = "Barlow Twins"
    compares: ClassVar[Literal["images", "channels"]] = "channels"

    temperature_defaults: ClassVar[Mapping[str, Any]] = {
        "tau": 1.0,
        "phi_scale": 1.0,
        "macl_reweight": False,
    }

    temperature: TemperatureSettings = ConstantSettings(tau=1.0)
    projector: tuple[int, ...] = (2048, 2048, 2048)
    projector_norm: bool = True
    lam: float = 5e-3
    """λ, the weight of the off-diagonal part."""
    omega_reduction: Literal["mean", "sum"] = "mean"
    """Ω over channels: their mean, or the paper's sum."""
    loss_scale: float = 1.0
    """Multiplies the loss, a sum over channels that LARS does not mind but SGD does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("loss_scale", self.loss_scale)


@register_method(BarlowTwinsSettings)
class BarlowTwins(HeadMethod):
    """Barlow Twins (Eq. 2.3), and with several heads and adaptive temperatures + AMCL.

    Args:
        settings: Settings of heads, temperature and loss.
        backbone: The network that is trained.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> method = BarlowTwins(BarlowTwinsSettings(heads=3, projector=(16, 8)), backbone)
        >>> method(torch.randn(2, 4, 3, 32, 32)).shape
        torch.Size([])
    """

    def __init__(self, settings: BarlowTwinsSettings, backbone: Backbone) -> None:
        loss = CrossCorrelationLoss(
            **settings.loss_settings(),
            lam=settings.lam,
            omega_reduction=settings.omega_reduction,
        )
        extra = loss.temperature.extra_outputs
        heads = settings.make_heads(backbone.dim, settings.heads, extra)
        super().__init__(settings, backbone, heads, loss)
        self.scale = settings.loss_scale

    def forward(self, views: Sequence[torch.Tensor], watch: bool = False) -> torch.Tensor:
        z0, z1 = self.compared(views)
        return self.scale * self._keep(self.loss(z0, z1, return_stats=watch))
