"""Parts that methods with projection heads share: heads, temperature and loss, by settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeVar

import torch

from amcl.backbones import Backbone
from amcl.losses import LossStats
from amcl.losses.base import HeadLoss, HeadReduction
from amcl.methods.base import Method, MethodSettings, pair
from amcl.modules import Activation, LastNorm, ProjectionHeads
from amcl.settings import Rule, non_negative, whole_number
from amcl.temperature import TEMPERATURES, ConstantSettings, Temperature, TemperatureSettings
from amcl.temperature.base import Sign
from amcl.temperature.settings import switch

AMCL_HEADS = 3
"""Heads of the AMCL form of a method that has one head."""
WITHOUT_NEGATIVES = MappingProxyType(
    {"tau": 1.0, "beta": 3.0, "phi_gradient": False, "macl_reweight": False}
)
"""Settings of temperatures that methods with positive pairs alone prefer to the defaults."""
S = TypeVar("S", bound="HeadSettings")

RULES = (
    Rule(
        fields=("omega_reduction", "omega_set", "omega_place", "similarity"),
        depends=("temperature",),
        used=lambda values: TEMPERATURES[values["temperature"]].adapts,
        belongs="adaptive temperatures (--temperature adaptive, with --heads 3)",
    ),
    Rule(
        fields=("head_reduction", "head_diversity", "shared_projector"),
        depends=("heads",),
        used=lambda values: values["heads"] > 1,
        belongs="several heads (--heads 3)",
    ),
)


@dataclass(frozen=True, kw_only=True)
class HeadSettings(MethodSettings):
    """Heads and temperature. One head and a constant temperature are the method as published.

    Example:
        >>> from amcl.methods import SimCLRSettings
        >>> SimCLRSettings().amcl().describe()
        'simclr, 3 heads, adaptive temperature'
    """

    has_heads: ClassVar[bool] = True
    amcl_by_default: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = RULES
    signs: ClassVar[tuple[Sign, ...]] = ("positive", "negative")
    """Signs of the pairs, of images or channels, that the loss compares."""
    compares: ClassVar[Literal["images", "channels"]] = "images"
    """Kind of items whose pairs have temperatures."""
    divides_similarities: ClassVar[bool] = True
    """True if the loss divides similarities of pairs by their temperatures."""
    takes_score: ClassVar[bool] = True
    """True if the loss compares outputs of projectors, which may have a further one (TaU)."""
    activation: ClassVar[Activation] = "relu"
    """Activation of the projector's hidden layers."""
    temperature_defaults: ClassVar[Mapping[str, Any]] = {}
    """Values that the method prefers to the defaults of a temperature scheme, by name."""

    heads: int = 1
    """C, the number of projection heads (for SimSiam: of predictors)."""
    temperature: TemperatureSettings = ConstantSettings()
    """How each pair gets its temperature."""
    head_reduction: HeadReduction = "mean"
    """The loss over heads: their mean keeps the learning rate of one head; the paper sums."""
    head_diversity: float = 0.0
    """Weight of a penalty on heads that agree on which images are alike; 0: none."""
    projector: tuple[int, ...] = (512, 128)
    """Widths of the projector behind the backbone's own: hidden layers, then D."""
    projector_norm: bool = False
    """Batch norm before each hidden activation of the projector."""
    projector_bias: bool = True
    """Biases in the projector."""
    projector_last_norm: LastNorm = "none"
    """Batch norm on the projections: none, plain (no scale or shift), affine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("heads", self.heads)
        non_negative("head_diversity", self.head_diversity, "0 switches the penalty off")
        if reason := self.refusal(type(self.temperature)):
            raise ValueError(
                f"temperature={self.temperature.name!r} {reason}: choose another temperature or "
                "method."
            )
        if not self.projector:
            raise ValueError("projector must name at least one width, such as (512, 128), got ().")
        for width in self.projector:
            whole_number("projector", width, "it lists widths, such as 512 128")

    @property
    def adapts(self) -> bool:
        return self.temperature.adapts

    def describe(self) -> str:
        heads = f"{self.heads} head{'s' * (self.heads != 1)}"
        return f"{self.name}, {heads}, {self.temperature.name} temperature"

    def facts(self) -> list[tuple[str, str]]:
        return [
            ("heads", str(self.heads)),
            ("temperature", self.temperature.summary(self.dim)),
            ("projector", "–".join(map(str, self.projector))),
            *super().facts(),
        ]

    def published(self: S) -> S:
        return replace(self.with_temperature("constant"), heads=1, head_diversity=0.0)

    def amcl(self: S) -> S:
        heads = self.heads if self.heads > 1 else AMCL_HEADS
        return replace(self.with_temperature("adaptive"), heads=heads)

    def with_temperature(self: S, name: str) -> S:
        """Return the settings with another temperature scheme.

        Args:
            name: Name of a registered scheme.

        Returns:
            Settings in which the scheme keeps the values that it shares with the current one, such
            as τ, and has the method's defaults else.
        """
        return replace(self, temperature=switch(self.temperature, name, self.temperature_defaults))

    @classmethod
    def refusal(cls, scheme: type[TemperatureSettings]) -> str:
        """Return why the method does not take a temperature scheme; empty if it does.

        Args:
            scheme: Settings of the scheme.

        Returns:
            The reason as part of a sentence, or an empty string.
        """
        if scheme.needs_negatives and "negative" not in cls.signs:
            return f"adapts the temperatures of negative pairs, and {cls.title} has none"
        if scheme.needs_images and cls.compares != "images":
            return f"is that of an image, and {cls.title} compares {cls.compares}"
        if scheme.needs_logits and not cls.divides_similarities:
            return f"replaces s/τ, and {cls.title} does not divide similarities by temperatures"
        if scheme.has_score and not cls.takes_score:
            return f"is a further output of projectors, and pairs of {cls.title} do not start there"
        return ""

    @property
    def dim(self) -> int:
        """D, the width of a projection."""
        return self.projector[-1]

    def check(self) -> None:
        self.make_temperature()

    def make_temperature(self) -> Temperature:
        """Make the temperature scheme of these settings."""
        return self.temperature.build(self.dim)

    def loss_settings(self) -> dict[str, Any]:
        """Return the keywords that every loss over heads takes."""
        beta, prior_tau = self.temperature.omega(self.dim)
        return {
            "num_heads": self.heads,
            "temperature": self.make_temperature(),
            "beta": beta,
            "prior_tau": prior_tau,
            "head_reduction": self.head_reduction,
            "head_diversity": self.head_diversity,
            "validate": False,  # the training loop watches over finite numbers
        }

    def make_heads(
        self, in_dim: int, num_heads: int, extra: int = 0, last_bias: bool | None = None
    ) -> ProjectionHeads:
        """Make the projectors.

        Args:
            in_dim: Width of the input.
            num_heads: Number C of heads.
            extra: Number of outputs beyond D.
            last_bias: Bias of the last layer; None for that of the others.

        Returns:
            The projectors, with outputs (C, N, D + extra).
        """
        *hidden, dim = self.projector
        return ProjectionHeads(
            in_dim,
            *hidden,
            dim + extra,
            num_heads=num_heads,
            norm=self.projector_norm,
            bias=self.projector_bias,
            last_bias=last_bias,
            last_norm=self.projector_last_norm,
            activation=self.activation,
        )


class HeadMethod(Method):
    """A method that compares projections: backbone, heads and a loss over them.

    The same class is a method as published (one head, constant temperature) and its AMCL form
    (several heads, adaptive temperature): only settings differ.

    Args:
        settings: Settings of heads and temperature.
        backbone: The network that is trained.
        heads: Projection heads behind the backbone.
        loss: Loss over the projections.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> from amcl.methods import SimCLR, SimCLRSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> method = SimCLR(SimCLRSettings(heads=3, projector=(16, 8)), backbone)
        >>> isinstance(method, HeadMethod), method.project(torch.randn(4, 3, 32, 32)).shape
        (True, torch.Size([3, 4, 8]))
    """

    def __init__(
        self, settings: HeadSettings, backbone: Backbone, heads: ProjectionHeads, loss: HeadLoss
    ) -> None:
        super().__init__(settings, backbone)
        self.heads = heads
        self.loss = loss

    def project(self, images: torch.Tensor) -> torch.Tensor:
        """Return the projections z of images.

        Args:
            images: Images (N, C, S, S) of C channels.

        Returns:
            Projections (C, N, D), with extra outputs of the temperature still attached.
        """
        z: torch.Tensor = self.heads(self.backbone(images))
        return z

    def compared(self, views: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the loss compares of two views of N images.

        Args:
            views: Two tensors (N, C, S, S) of C channels.

        Returns:
            Projections (C, N, D) of the first view, and their targets, of the second. Extra outputs
            of the temperature are still attached: `loss.pair_matrix` removes them.
        """
        view0, view1 = pair(views)
        return self.project(view0), self.project(view1)

    def before_step(self, epoch: float, progress: float) -> None:
        self.loss.set_epoch(epoch)

    def set_num_images(self, count: int) -> None:
        self.loss.temperature.set_num_images(count)

    def set_images(self, indices: torch.Tensor) -> None:
        self.loss.set_images(indices)

    def _keep(self, out: torch.Tensor | tuple[torch.Tensor, LossStats]) -> torch.Tensor:
        """Return the loss of a loss's output, and keep its statistics if there are any."""
        if isinstance(out, torch.Tensor):
            return out
        loss, self.stats = out
        return loss
