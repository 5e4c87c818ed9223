"""What methods with projection heads share: heads, temperature and loss, composed by settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeVar

import torch

from amcl.backbones import Backbone
from amcl.losses import LossStats
from amcl.losses.base import HeadLoss, HeadReduction
from amcl.methods.base import Method, MethodSettings, pair
from amcl.modules import LastNorm, ProjectionHeads
from amcl.settings import Rule, choose, positive_number, whole_number
from amcl.temperature import (
    AdaptiveTemperature,
    ConstantTemperature,
    FirstHeadTemperature,
    LearnableTemperature,
    ScheduledTemperature,
    SplitTemperature,
    Temperature,
    UncertaintyTemperature,
    prior_inside,
    range_around,
)
from amcl.temperature.adaptive import PRIOR_FIX, PhiOutput
from amcl.temperature.base import Sign

Scheme = Literal[
    "constant",
    "learnable",
    "adaptive",
    "adaptive-positive",
    "adaptive-negative",
    "first-head",
    "uncertainty",
    "scheduled",
]
AMCL_HEADS = 3
"""Heads of the AMCL form of a method that has one head."""
S = TypeVar("S", bound="HeadSettings")
ADAPTIVE = ("adaptive", "adaptive-positive", "adaptive-negative", "first-head")

_SWITCH_ON = "(--temperature adaptive, with --heads 3)"
RULES = (
    Rule(
        fields=(
            *("beta", "prior_tau", "phi_depth", "phi_input", "phi_output", "phi_scale"),
            *("phi_gradient", "omega_reduction", "omega_set", "omega_place", "similarity"),
        ),
        depends=("temperature",),
        used=lambda values: values["temperature"] in ADAPTIVE,
        belongs=f"adaptive temperatures {_SWITCH_ON}",
    ),
    Rule(
        fields=("phi_scale",),
        depends=("phi_output",),
        used=lambda values: values["phi_output"] != "plain",
        belongs="a centered φ (--phi-output centered)",
    ),
    Rule(
        fields=("tau_lower", "tau_upper", "eta", "iota"),
        depends=("temperature",),
        used=lambda values: values["temperature"] in (*ADAPTIVE, "scheduled"),
        belongs=f"adaptive and scheduled temperatures {_SWITCH_ON}",
    ),
    Rule(
        fields=("tau_period",),
        depends=("temperature",),
        used=lambda values: values["temperature"] == "scheduled",
        belongs="scheduled temperatures (--temperature scheduled)",
    ),
    Rule(
        fields=("tau",),
        depends=("temperature",),
        used=lambda values: values["temperature"] != "scheduled",
        belongs="temperatures that are not scheduled (--temperature constant)",
    ),
    Rule(  # adaptive temperatures lie around τ₀, which is τ unless it is given
        fields=("tau",),
        depends=("temperature", "prior_tau"),
        used=lambda values: (
            values["temperature"] not in ("adaptive", "first-head") or values["prior_tau"] is None
        ),
        belongs="constant temperatures (--temperature constant; adaptive ones have --prior-tau)",
    ),
    Rule(
        fields=("head_reduction", "shared_projector"),
        depends=("heads",),
        used=lambda values: values["heads"] > 1,
        belongs="several heads (--heads 3)",
    ),
)


@dataclass(frozen=True, kw_only=True)
class HeadSettings(MethodSettings):
    """Heads and temperature. One head and a constant temperature are the method as published."""

    has_heads: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = RULES
    signs: ClassVar[tuple[Sign, ...]] = ("positive", "negative")
    """Signs of the pairs, of images or channels, that the loss compares."""
    unsupported: ClassVar[Mapping[str, str]] = {}
    """Temperature schemes that the method does not take, and why."""

    heads: int = 1
    """C, the number of projection heads (for SimSiam: of predictors)."""
    temperature: Scheme = "constant"
    """How each pair gets its temperature; adaptive is AMCL's."""
    tau: float = 0.1
    """The temperature: constant, or what adaptive ones vary around (τ₀), where a learnable one
    starts, the scale of uncertainty (TaU)."""
    tau_lower: float | None = None
    """η: adaptive temperatures stay above it; none: τ₀/2. Scheduled: the least; none: 0.1."""
    tau_upper: float | None = None
    """η + ι: adaptive temperatures stay below it; none: 3τ₀/2. Scheduled: the greatest; none: 1."""
    tau_period: float = 400.0
    """Epochs in which a scheduled temperature (TS) comes back."""
    beta: float = 0.1
    """β, the weight of the regularizer Ω of adaptive temperatures."""
    prior_tau: float | Literal["literal"] | None = None
    """τ₀, the temperature at which Ω has its minimum; none: the same as tau, or the middle of the
    range where tau lies outside of it; "literal": the paper's 2/D."""
    phi_depth: int = 1
    """Layers of φ."""
    phi_input: Literal["unit", "raw"] = "unit"
    """φ reads projections of unit length, or as they are."""
    phi_output: PhiOutput = "centered"
    """centered: ⟨φ(z), φ(z')⟩ is ρ times a correlation, around 0; plain: the layer's own output."""
    phi_scale: float = 2.0
    """ρ, the greatest ⟨φ(z), φ(z')⟩ of a centered φ."""
    phi_gradient: bool = True
    """The gradient of τ reaches the projections through φ; false: φ alone learns from it."""
    head_reduction: HeadReduction = "mean"
    """The loss over heads: their mean keeps the learning rate of one head; the paper sums."""
    projector: tuple[int, ...] = (512, 128)
    """Widths of the projector behind the backbone's own: hidden layers, then D."""
    projector_norm: bool = False
    """Batch norm before each hidden ReLU of the projector."""
    projector_bias: bool = True
    """Biases in the projector."""
    projector_last_norm: LastNorm = "none"
    """Batch norm on the projections: none, plain (no scale or shift), affine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("heads", self.heads)
        choose("temperature", self.temperature, Scheme.__args__)  # type: ignore[attr-defined]
        if self.temperature in self.unsupported:
            raise ValueError(
                f"temperature={self.temperature!r} {self.unsupported[self.temperature]}: choose "
                "another temperature or method."
            )
        if not self.projector:
            raise ValueError("projector must name at least one width, such as (512, 128), got ().")
        positive_number("tau", self.tau, "usual values are 0.05 to 1")
        if self.prior_tau is not None and self.prior_tau != "literal":
            positive_number("prior_tau", self.prior_tau, PRIOR_FIX)
        for width in self.projector:
            whole_number("projector", width, "it lists widths, such as 512 128")

    @property
    def adapts(self) -> bool:
        return self.temperature in ADAPTIVE

    def describe(self) -> str:
        heads = f"{self.heads} head{'s' * (self.heads != 1)}"
        return f"{self.name}, {heads}, {self.temperature} temperature"

    def facts(self) -> list[tuple[str, str]]:
        between = "from {:g} to {:g}".format(*self.tau_range)
        temperature = f"{self.temperature}, {self.tau:g}"
        if self.adapts:
            temperature = f"{self.temperature}, {between}, β = {self.beta:g}"
        elif self.temperature == "scheduled":
            temperature = f"scheduled, {between}"
        return [
            ("heads", str(self.heads)),
            ("temperature", temperature),
            ("projector", "–".join(map(str, self.projector))),
            *super().facts(),
        ]

    def published(self: S) -> S:
        return replace(self, heads=1, temperature="constant")

    def amcl(self: S) -> S:
        heads = self.heads if self.heads > 1 else AMCL_HEADS
        return replace(self, heads=heads, temperature="adaptive")

    @property
    def dim(self) -> int:
        """D, the width of a projection."""
        return self.projector[-1]

    @property
    def tau_range(self) -> tuple[float, float]:
        """The range of τ: what is given, and else what follows from τ₀ or TS's own."""
        if self.temperature == "scheduled":
            lower, upper = 0.1, 1.0
        else:
            lower, upper = range_around(
                self.tau if self.prior_tau is None else self.prior_tau, self.dim
            )
        lower = lower if self.tau_lower is None else self.tau_lower
        upper = upper if self.tau_upper is None else self.tau_upper
        return lower, upper

    @property
    def omega_prior(self) -> float | Literal["literal"]:
        """τ₀ of Ω: what is given, and else `tau`, so that AMCL starts from the method's own."""
        if self.prior_tau is not None:
            return self.prior_tau
        return prior_inside(self.tau, *self.tau_range)

    def check(self) -> None:
        self.make_temperature()

    def make_temperature(self, dim: int | None = None) -> Temperature:
        """The temperature scheme these settings ask for."""
        if self.temperature == "uncertainty":
            return UncertaintyTemperature(self.tau)
        if self.temperature == "learnable":
            return LearnableTemperature(self.tau, upper=max(1.0, self.tau))
        if self.temperature == "scheduled":
            return ScheduledTemperature(*self.tau_range, self.tau_period)
        constant = ConstantTemperature(self.tau)
        if self.temperature == "constant":
            return constant
        lower, upper = self.tau_range
        adaptive = AdaptiveTemperature(
            dim or self.dim,
            lower=lower,
            upper=upper,
            phi_depth=self.phi_depth,
            phi_input=self.phi_input,
            phi_output=self.phi_output,
            phi_scale=self.phi_scale,
            phi_gradient=self.phi_gradient,
        )
        if self.temperature == "first-head":
            return FirstHeadTemperature(adaptive)
        if self.temperature == "adaptive-positive":
            return SplitTemperature(positive=adaptive, negative=constant)
        if self.temperature == "adaptive-negative":
            return SplitTemperature(positive=constant, negative=adaptive)
        return adaptive

    def make_heads(self, in_dim: int, num_heads: int, extra: int = 0) -> ProjectionHeads:
        """The projectors, `extra` outputs wider than D."""
        *hidden, dim = self.projector
        return ProjectionHeads(
            in_dim,
            *hidden,
            dim + extra,
            num_heads=num_heads,
            norm=self.projector_norm,
            bias=self.projector_bias,
            last_norm=self.projector_last_norm,
        )

    @property
    def omega_weight(self) -> float:
        """β where temperatures adapt; no other scheme has an Ω."""
        return self.beta if self.adapts else 0.0


class HeadMethod(Method):
    """A method that compares projections: backbone, heads and a loss over them.

    The same class is a method as published (one head, constant temperature) and its AMCL form
    (several heads, adaptive temperature): only settings differ.
    """

    def __init__(
        self, settings: HeadSettings, backbone: Backbone, heads: ProjectionHeads, loss: HeadLoss
    ) -> None:
        super().__init__(settings, backbone)
        self.heads = heads
        self.loss = loss

    def project(self, images: torch.Tensor) -> torch.Tensor:
        """Return the projections z of images, (C, N, D)."""
        z: torch.Tensor = self.heads(self.backbone(images))
        return z

    def compared(self, views: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the loss compares of two views of N images: (C, N, D) each.

        Of the second view it is the target of the first. Extra outputs of the temperature are
        still attached: `loss.pair_matrix` removes them.
        """
        view0, view1 = pair(views)
        return self.project(view0), self.project(view1)

    def before_step(self, epoch: float, progress: float) -> None:
        self.loss.set_epoch(epoch)

    def _keep(self, out: torch.Tensor | tuple[torch.Tensor, LossStats]) -> torch.Tensor:
        """Return the loss of a loss's output, and keep its statistics if there are any."""
        if isinstance(out, torch.Tensor):
            return out
        loss, self.stats = out
        return loss
