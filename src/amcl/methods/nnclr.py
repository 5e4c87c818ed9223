"""NNCLR: a projection's nearest neighbor among past ones is the positive of the other view."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl.backbones import Backbone
from amcl.losses.base import full_precision
from amcl.methods.base import pair
from amcl.methods.contrastive import ContrastiveSettings
from amcl.methods.heads import HeadMethod
from amcl.methods.queue import QueueSettings
from amcl.methods.registry import register_method
from amcl.modules import LastNorm, ProjectionHeads, Queue
from amcl.settings import whole_number


@dataclass(frozen=True, kw_only=True)
class NNCLRSettings(QueueSettings, ContrastiveSettings):
    """Settings of NNCLR (arXiv 2104.14548).

    Example:
        >>> NNCLRSettings().num_negatives(batch_size=256)
        255
    """

    name: ClassVar[str] = "nnclr"
    title: ClassVar[str] = "NNCLR"
    views_of_negatives: ClassVar[int] = 1
    takes_score: ClassVar[bool] = False

    projector: tuple[int, ...] = (2048, 2048, 256)
    projector_norm: bool = True
    projector_bias: bool = False
    projector_last_norm: LastNorm = "affine"
    predictor: int = 4096
    """Hidden width of the predictors."""
    queue: int = 98304
    """K, past projections kept a head, among which the nearest neighbor is looked for."""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("predictor", self.predictor, "it is a width, such as 4096")
        whole_number("queue", self.queue, "neighbors are looked for among that many projections")

    def queued_per_step(self, batch_size: int) -> int:
        return batch_size


@register_method(NNCLRSettings)
class NNCLR(HeadMethod):
    """NNCLR, and with several heads and adaptive temperatures (Eq. 2.4) NNCLR + AMCL.

    Each head has its own projector, predictor and queue, and so neighbors of its own. An anchor is
    the neighbor of a projection; its candidates are the predictions of the other view. The
    projections of the first view enter the queue.

    Args:
        settings: Settings of heads, predictors, temperature, queue and loss.
        backbone: The network that is trained.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> settings = NNCLRSettings(heads=3, projector=(16, 8), predictor=8, queue=32)
        >>> method = NNCLR(settings, backbone)
        >>> method(torch.randn(2, 4, 3, 32, 32)).shape, method.queue.z.shape
        (torch.Size([]), torch.Size([3, 32, 8]))
    """

    def __init__(self, settings: NNCLRSettings, backbone: Backbone) -> None:
        loss = settings.make_loss("other_view")
        heads = settings.make_heads(backbone.dim, settings.heads)
        super().__init__(settings, backbone, heads, loss)
        dim = settings.dim
        self.predictors = ProjectionHeads(
            dim, settings.predictor, dim, num_heads=settings.heads, norm=True
        )
        self.queue = Queue(settings.heads, settings.queue, dim)

    def forward(self, views: Sequence[torch.Tensor], watch: bool = False) -> torch.Tensor:
        view0, view1 = pair(views)
        z0 = self.project(view0)
        z1 = self.project(view1)
        p0 = self.predictors(z0)
        p1 = self.predictors(z1)
        forth = self._keep(self.loss(self._neighbors(z0), p1, return_stats=watch))
        back = self._keep(self.loss(self._neighbors(z1), p0))
        if self.training:
            self.queue.hold(z0)
        return 0.5 * (forth + back)

    def compared(self, views: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return neighbors of the first view's projections, and predictions of the second."""
        view0, view1 = pair(views)
        return self._neighbors(self.project(view0)), self.predictors(self.project(view1))

    def after_step(self) -> None:
        """Put the step's projections into the queue."""
        self.queue.push_held()
        super().after_step()

    def _neighbors(self, z: torch.Tensor) -> torch.Tensor:
        # Half precision would not tell close neighbors apart.
        with full_precision(z):
            return self.queue.nearest(z)
