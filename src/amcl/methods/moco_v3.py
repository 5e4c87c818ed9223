"""MoCo v3: a predictor on the queries, the other keys of the batch for negatives, no queue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from amcl.backbones import Backbone
from amcl.methods.base import pair
from amcl.methods.contrastive import ContrastiveSettings
from amcl.methods.momentum import MomentumMethod, MomentumSettings
from amcl.methods.registry import register_method
from amcl.modules import LastNorm, ProjectionHeads, fix_positions, init_xavier, is_vit
from amcl.settings import whole_number
from amcl.temperature import ConstantSettings, TemperatureSettings


@dataclass(frozen=True, kw_only=True)
class MoCoV3Settings(MomentumSettings, ContrastiveSettings):
    """Settings of MoCo v3.

    Example:
        >>> MoCoV3Settings().loss_scale  # 2τ
        0.4
    """

    name: ClassVar[str] = "mocov3"
    title: ClassVar[str] = "MoCo v3"
    network: ClassVar[Literal["resnet", "vit"]] = "vit"
    views_of_negatives: ClassVar[int] = 1

    temperature_defaults: ClassVar[Mapping[str, Any]] = {"tau": 0.2}

    temperature: TemperatureSettings = ConstantSettings(tau=0.2)
    projector: tuple[int, ...] = (4096, 4096, 256)
    projector_norm: bool = True
    projector_bias: bool = False
    projector_last_norm: LastNorm = "plain"
    predictor: int = 4096
    """Hidden width of the predictors."""
    momentum_end: float = 1.0
    """Momentum rises to this along a half cosine; equal to momentum: it stays."""
    freeze_patches: bool = True
    """A vision transformer's patch embedding keeps its first weights, which is more stable."""
    fixed_positions: bool = True
    """A vision transformer's positions are sines and cosines and do not train."""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("predictor", self.predictor, "it is a width, such as 4096")

    @property
    def loss_scale(self) -> float:
        """Factor 2τ, which keeps the size of the gradient at any τ; 2τ₀ if pairs have their own."""
        return 2 * self.temperature.typical(self.dim)


@register_method(MoCoV3Settings)
class MoCoV3(MomentumMethod):
    """MoCo v3, and with several heads and adaptive temperatures (Eq. 2.4) MoCo v3 + AMCL.

    Each head has its own projector and predictor.

    Args:
        settings: Settings of heads, predictors, temperature, momentum and loss.
        backbone: The network that is trained.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> settings = MoCoV3Settings(heads=3, projector=(16, 8), predictor=8)
        >>> MoCoV3(settings, backbone)(torch.randn(2, 4, 3, 32, 32)).shape
        torch.Size([])
    """

    def __init__(self, settings: MoCoV3Settings, backbone: Backbone) -> None:
        loss = settings.make_loss("other_view")
        extra = loss.temperature.extra_outputs
        if is_vit(backbone.network):
            if settings.fixed_positions:
                fix_positions(backbone.network)
            if settings.freeze_patches:
                backbone.network.patch_embed.requires_grad_(False)
        heads = settings.make_heads(backbone.dim, settings.heads, extra)
        super().__init__(settings, backbone, heads, loss)
        width = settings.dim + extra
        self.predictors = ProjectionHeads(
            width,
            settings.predictor,
            width,
            num_heads=settings.heads,
            norm=True,
            bias=False,
            last_norm="plain",
        )
        self.scale = settings.loss_scale

    def init_weights(self) -> None:
        if is_vit(self.backbone.network):
            init_xavier(self.backbone.network, separate_qkv=True)
            self.keys.copy_from(self.query_encoder)

    def forward(self, views: Sequence[torch.Tensor], watch: bool = False) -> torch.Tensor:
        view0, view1 = pair(views)
        q0, q1 = (self.predictors(self.project(view)) for view in (view0, view1))
        k0 = self.keys(view0)
        k1 = self.keys(view1)
        forth = self._keep(self.loss(q0, k1, return_stats=watch))
        back = self._keep(self.loss(q1, k0))
        return self.scale * (forth + back)

    def compared(self, views: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return predictions of the first view and keys of the second."""
        view0, view1 = pair(views)
        return self.predictors(self.project(view0)), self.keys(view1)
