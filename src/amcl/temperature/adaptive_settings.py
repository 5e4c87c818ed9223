"""Settings of the adaptive temperature, and of the schemes in which some pairs have it."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from amcl import functional as F
from amcl.settings import Rule, positive_number
from amcl.temperature.adaptive import AdaptiveTemperature, PhiOutput
from amcl.temperature.ranges import PRIOR_FIX, prior_inside, range_around
from amcl.temperature.settings import TemperatureSettings, register_temperature


@dataclass(frozen=True, kw_only=True)
class PhiSettings(TemperatureSettings):
    """Settings of schemes in which φ gives some or all pairs temperatures of their own."""

    adapts: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            fields=("phi_scale",),
            depends=("phi_output",),
            used=lambda values: values["phi_output"] != "plain",
            belongs="a centered φ (--phi-output centered)",
        ),
    )

    tau: float = 0.1
    """The temperature that adaptive ones vary around, and that of pairs that do not adapt."""
    tau_lower: float | None = None
    """η: adaptive temperatures stay above it; none: τ₀/2."""
    tau_upper: float | None = None
    """η + ι: adaptive temperatures stay below it; none: 3τ₀/2."""
    beta: float = 0.1
    """β, the weight of the regularizer Ω."""
    prior_tau: float | Literal["literal"] | tuple[float, ...] | None = None
    """τ₀, the temperature at which Ω has its minimum; none: the same as tau, or the middle of the
    range where tau lies outside of it; "literal": the paper's 2/D. Several: one for each head,
    whose temperatures vary around it."""
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

    def __post_init__(self) -> None:
        positive_number("tau", self.tau, "usual values are 0.05 to 1")
        priors = self.prior_tau if isinstance(self.prior_tau, tuple) else (self.prior_tau,)
        for prior in priors:
            if prior is not None and prior != "literal":
                positive_number("prior_tau", prior, PRIOR_FIX)
        if not priors:
            raise ValueError(f"prior_tau must name at least one temperature: {PRIOR_FIX}.")
        if len(priors) > 1 and (self.tau_lower is not None or self.tau_upper is not None):
            raise ValueError(
                f"prior_tau={priors} gives each head a range of its own, half of its τ₀ to either "
                "side: leave out tau_lower and tau_upper, or set them to None where the method has "
                "a range by default."
            )

    def phi(self, dim: int) -> AdaptiveTemperature:
        """Make the module that gives each pair its temperature.

        Args:
            dim: D, the width of the projections.
        """
        return AdaptiveTemperature(dim, **self.phi_settings(dim))

    def phi_settings(self, dim: int) -> dict[str, Any]:
        """Return the keywords of `AdaptiveTemperature`.

        Args:
            dim: D, the width of the projections.
        """
        lower: float | tuple[float, ...]
        upper: float | tuple[float, ...]
        lower, upper = self.tau_range(dim)
        if isinstance(self.prior_tau, tuple):
            lower, upper = zip(*(range_around(prior, dim) for prior in self.prior_tau), strict=True)
        return {
            "lower": lower,
            "upper": upper,
            "phi_depth": self.phi_depth,
            "phi_input": self.phi_input,
            "phi_output": self.phi_output,
            "phi_scale": self.phi_scale,
            "phi_gradient": self.phi_gradient,
        }

    def tau_range(self, dim: int) -> tuple[float, float]:
        prior = self.tau if self.prior_tau is None else self.prior_tau
        priors = prior if isinstance(prior, tuple) else (prior,)
        ranges = [range_around(each, dim) for each in priors]
        lower = min(lower for lower, _ in ranges) if self.tau_lower is None else self.tau_lower
        upper = max(upper for _, upper in ranges) if self.tau_upper is None else self.tau_upper
        return lower, upper

    def omega(self, dim: int) -> tuple[float, float | Literal["literal"] | tuple[float, ...]]:
        if self.prior_tau is not None:
            return self.beta, self.prior_tau
        return self.beta, prior_inside(self.tau, *self.tau_range(dim))

    def typical(self, dim: int) -> float:
        prior_tau = self.omega(dim)[1]
        if isinstance(prior_tau, tuple):
            return sum(prior_tau) / len(prior_tau)
        return F.literal_prior_tau(dim) if prior_tau == "literal" else prior_tau

    def summary(self, dim: int) -> str:
        lower, upper = self.tau_range(dim)
        return f"{self.name}, from {lower:g} to {upper:g}, β = {self.beta:g}"


# Where all pairs adapt, they lie around τ₀, which is τ unless it is given.
TAU_OR_PRIOR = Rule(
    fields=("tau",),
    depends=("prior_tau",),
    used=lambda values: values["prior_tau"] is None,
    belongs="constant temperatures (--temperature constant; adaptive ones have --prior-tau)",
)


@register_temperature
@dataclass(frozen=True, kw_only=True)
class AdaptiveSettings(PhiSettings):
    """Settings of `AdaptiveTemperature`, the paper's.

    Example:
        >>> AdaptiveSettings(tau=0.2).tau_range(dim=128)
        (0.1, 0.3)
    """

    name: ClassVar[str] = "adaptive"
    rules: ClassVar[tuple[Rule, ...]] = (TAU_OR_PRIOR,)

    def build(self, dim: int) -> AdaptiveTemperature:
        return self.phi(dim)
