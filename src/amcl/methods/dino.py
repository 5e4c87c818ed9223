"""DINO: a student predicts what a slowly moving teacher sees in other crops of an image."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from amcl.backbones import Backbone
from amcl.losses import DINOLoss
from amcl.losses.dino import Centering
from amcl.methods.base import pair
from amcl.methods.heads import HeadMethod, HeadSettings
from amcl.methods.registry import register_method
from amcl.modules import Activation, MomentumCopy, Prototypes, cosine_momentum
from amcl.settings import Rule, non_negative
from amcl.temperature import ConstantSettings, TemperatureSettings
from amcl.temperature.base import Sign


@dataclass(frozen=True, kw_only=True)
class DINOSettings(HeadSettings):
    """Settings of DINO (arXiv 2104.14294). A head is a projector with its prototypes.

    The temperature is the student's. Adaptive ones stay above the teacher's: where the student is
    the sharper one, it is taught to be less sure, and in the end to prefer no prototype. φ reads
    projections and does not shape them, so that their gradient is DINO's at each pair's τ.

    Example:
        >>> DINOSettings().amcl().temperature.tau_range(dim=256)
        (0.075, 0.125)
    """

    name: ClassVar[str] = "dino"
    title: ClassVar[str] = "DINO"
    network: ClassVar[Literal["resnet", "vit"]] = "vit"
    multi_crop: ClassVar[bool] = True
    signs: ClassVar[tuple[Sign, ...]] = ("positive",)
    divides_similarities: ClassVar[bool] = False
    activation: ClassVar[Activation] = "gelu"
    temperature_defaults: ClassVar[Mapping[str, Any]] = {
        "tau_lower": 0.075,
        "tau_upper": 0.125,
        "beta": 1.0,
        "phi_gradient": False,
        "macl_reweight": False,
    }
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            fields=("center_momentum",),
            depends=("centering",),
            used=lambda values: values["centering"] == "center",
            belongs="a moving center (--centering center)",
        ),
        Rule(
            fields=("sinkhorn_iterations",),
            depends=("centering",),
            used=lambda values: values["centering"] == "sinkhorn",
            belongs="Sinkhorn and Knopp (--centering sinkhorn)",
        ),
        Rule(
            fields=("teacher_tau_start",),
            depends=("teacher_tau_warmup",),
            used=lambda values: values["teacher_tau_warmup"] > 0,
            belongs="a warm-up of the teacher's temperature (--teacher-tau-warmup 30)",
        ),
    )

    temperature: TemperatureSettings = ConstantSettings(tau=0.1)
    projector: tuple[int, ...] = (2048, 2048, 256)
    prototypes: int = 65536
    """K, prototypes of each head."""
    prototype_unit_length: bool = True
    """Prototypes have length one; false learns their lengths, which ViT-S gains by."""
    prototype_freeze: float = 1.0
    """Epochs at the start in which prototypes do not learn."""
    teacher_tau: float = 0.07
    """Temperature of the teacher after its warm-up."""
    teacher_tau_start: float = 0.04
    """Temperature of the teacher at the start."""
    teacher_tau_warmup: int = 30
    """Epochs in which the teacher's temperature rises; 0: it has its last value from the start."""
    centering: Centering = "center"
    """What keeps the teacher from one prototype: center, a moving average of its similarities;
    sinkhorn, equal shares of the batch for all prototypes."""
    center_momentum: float = 0.9
    """Share of itself that the center keeps in a step."""
    sinkhorn_iterations: int = 3
    """Iterations of Sinkhorn and Knopp."""
    momentum: float = 0.996
    """Share of itself that the teacher keeps in a step."""
    momentum_end: float = 1.0
    """Momentum rises to this along a half cosine."""
    drop_path: float = 0.0
    """Rate at which the student skips its last block; that of others rises to it (ViT)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        non_negative("prototype_freeze", self.prototype_freeze, "it is in epochs; 0: never")
        for name in ("momentum", "momentum_end"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {value}: usual is 0.99 to 1.")
        if not 0 <= self.drop_path < 1:
            raise ValueError(f"drop_path must lie in [0, 1), got {self.drop_path}: DINO has 0.1.")

    def facts(self) -> list[tuple[str, str]]:
        return [*super().facts(), ("prototypes", f"{self.prototypes:,}")]

    def check(self) -> None:
        self.make_loss()

    def make_loss(self) -> DINOLoss:
        """Make the loss of these settings, with its temperature scheme."""
        return DINOLoss(
            **self.loss_settings(),
            num_prototypes=self.prototypes,
            teacher_tau=self.teacher_tau,
            teacher_tau_start=self.teacher_tau_start,
            teacher_tau_warmup=self.teacher_tau_warmup,
            centering=self.centering,
            center_momentum=self.center_momentum,
            sinkhorn_iterations=self.sinkhorn_iterations,
        )


@register_method(DINOSettings)
class DINO(HeadMethod):
    """DINO with C heads, and DINO + AMCL.

    The teacher sees the first two views, the student all of them. Views of one size pass the
    backbone together, as in the original, which matters to batch norm alone.

    Args:
        settings: Settings of heads, prototypes, temperatures, teacher and loss.
        backbone: The network that is trained.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> method = DINO(DINOSettings(heads=3, projector=(16, 8), prototypes=64), backbone)
        >>> views = [*torch.randn(2, 4, 3, 32, 32), *torch.randn(3, 4, 3, 16, 16)]
        >>> method(views).shape, method.loss.center.shape
        (torch.Size([]), torch.Size([3, 1, 64]))
    """

    loss: DINOLoss
    exported: ClassVar[str] = "teacher.module.0"

    def __init__(self, settings: DINOSettings, backbone: Backbone) -> None:
        loss = settings.make_loss()
        extra = loss.temperature.extra_outputs
        heads = settings.make_heads(backbone.dim, settings.heads, extra)
        heads.init_normal()
        super().__init__(settings, backbone, heads, loss)
        self.prototypes = Prototypes(
            settings.dim,
            settings.prototypes,
            settings.heads,
            unit_length=settings.prototype_unit_length,
        )
        backbone.allow_crops()
        self.teacher = MomentumCopy(self.student)
        self.teacher_prototypes = MomentumCopy(self.prototypes)
        if settings.drop_path:
            backbone.set_drop_path(settings.drop_path)  # the student alone, as in the original
        self.momentum = settings.momentum
        self._momentum_range = settings.momentum, settings.momentum_end
        self._freeze = settings.prototype_freeze
        self._frozen = self._freeze > 0

    @property
    def student(self) -> nn.Sequential:
        """Backbone and projectors, which the teacher follows."""
        return nn.Sequential(self.backbone, self.heads)

    def forward(self, views: Sequence[torch.Tensor], watch: bool = False) -> torch.Tensor:
        h = torch.cat([self.backbone(torch.cat(group)) for group in _by_size(views)])
        student = self.heads(h).chunk(len(views), dim=1)
        seen = torch.cat([views[0], views[1]])
        teacher = self.teacher(seen).chunk(2, dim=1)
        return self._keep(
            self.loss(
                student, teacher, self.prototypes(), self.teacher_prototypes(), return_stats=watch
            )
        )

    def compared(self, views: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return projections of the first view by the student, of the second by the teacher."""
        view0, view1 = pair(views)
        return self.project(view0), self.teacher(view1)

    def load_backbone(self, weights: Mapping[str, torch.Tensor], source: object) -> None:
        """Load the weights into student and teacher."""
        super().load_backbone(weights, source)
        self.teacher.copy_from(self.student)

    def before_step(self, epoch: float, progress: float) -> None:
        """Follow the schedules: the temperatures, the momentum, the freezing of prototypes."""
        super().before_step(epoch, progress)
        self.momentum = cosine_momentum(*self._momentum_range, progress)
        self._frozen = epoch < self._freeze

    def after_backward(self) -> None:
        """Drop the gradients of prototypes that do not learn yet: the optimizer skips them."""
        if self._frozen:
            for parameter in self.prototypes.parameters():
                parameter.grad = None

    def after_step(self) -> None:
        """Update the center and the teacher, whose new weights the next step sees."""
        self.loss.update_center()
        self.teacher.update(self.student, self.momentum)
        self.teacher_prototypes.update(self.prototypes, self.momentum)
        super().after_step()


def _by_size(views: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Return groups of views of the same size, in their order."""
    return [list(group) for _, group in groupby(views, key=lambda view: view.shape[-2:])]
