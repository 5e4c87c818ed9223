"""SupCon: two views through one network, images of the same class are positives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from amcl.backbones import Backbone
from amcl.losses import SupervisedContrastiveLoss
from amcl.methods.heads import HeadMethod, HeadSettings
from amcl.methods.registry import register_method
from amcl.settings import positive_number


@dataclass(frozen=True, kw_only=True)
class SupConSettings(HeadSettings):
    """Settings of SupCon, which learns from labels.

    Example:
        >>> SupConSettings().facts()[-1]
        ('labels', 'used in pre-training')
    """

    name: ClassVar[str] = "supcon"
    title: ClassVar[str] = "SupCon"
    has_negatives: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = True
    temperature_defaults: ClassVar[Mapping[str, Any]] = {"macl_reweight": False}

    loss_scale: float = 1.0
    """Multiplies the loss; τ/0.07 in the original code, which SGD minds and AdamW does not."""

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_number("loss_scale", self.loss_scale)

    def describe(self) -> str:
        return f"{super().describe()}, with labels"

    def facts(self) -> list[tuple[str, str]]:
        return [*super().facts(), ("labels", "used in pre-training")]

    def num_negatives(self, batch_size: int) -> int:
        """Return the most negatives that an anchor has: those of an image alone in its class."""
        return 2 * (batch_size - 1)

    def min_batch_size(self) -> int:
        return 2


@register_method(SupConSettings)
class SupCon(HeadMethod):
    """SupCon (arXiv 2004.11362, L_out), and with several heads and adaptive temperatures + AMCL.

    Args:
        settings: Settings of heads, temperature and loss.
        backbone: The network that is trained.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> method = SupCon(SupConSettings(projector=(16, 8)).amcl(), backbone)
        >>> labels = torch.tensor([0, 1, 0, 2])
        >>> method(torch.randn(2, 4, 3, 32, 32), labels=labels).shape  # two views of four images
        torch.Size([])
    """

    def __init__(self, settings: SupConSettings, backbone: Backbone) -> None:
        loss = SupervisedContrastiveLoss(**settings.loss_settings())
        extra = loss.temperature.extra_outputs
        heads = settings.make_heads(backbone.dim, settings.heads, extra)
        super().__init__(settings, backbone, heads, loss)
        self.scale = settings.loss_scale

    def forward(
        self,
        views: Sequence[torch.Tensor],
        watch: bool = False,
        labels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if labels is None:
            raise TypeError("SupCon learns from classes: give labels=, one for each image, (N,).")
        z0, z1 = self.compared(views)
        return self.scale * self._keep(self.loss(z0, z1, labels, return_stats=watch))
