"""Temperatures that follow how alike the positive pairs of a batch are: MACL, and their scale."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl import functional as F
from amcl.distributed import gather
from amcl.settings import non_negative, positive_number
from amcl.temperature.base import Temperature
from amcl.temperature.settings import SingleTauSettings, TemperatureSettings, register_temperature

_CLOSEST = 1e-8  # of 1 − P, the divisor of MACL's weight
_LEAST_TAU = 0.01  # where positive pairs are equal, their mean squared distance is 0


class _BatchTemperature(Temperature):
    """One τ for all pairs of a head, from the mean similarity of its positive pairs."""

    def __init__(self) -> None:
        super().__init__()
        self._alignment: torch.Tensor | None = None

    @torch.no_grad()
    def observe(self, anchors: torch.Tensor, positives: torch.Tensor, shared: bool = False) -> None:
        alignment = F.paired(anchors, positives).mean(1, keepdim=True)
        if not shared:
            alignment = gather(alignment, check=False).mean(1, keepdim=True)
        self._alignment = alignment

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        if self._alignment is None:
            raise RuntimeError(
                f"{type(self).__name__} needs the positive pairs of the batch: call `observe` "
                "before `keys`, as the losses of amcl do."
            )
        return self.tau_at(self._alignment).to(z).expand(-1, z.shape[1], -1)

    def tau_at(self, alignment: torch.Tensor) -> torch.Tensor:
        """Return τ of heads whose positive pairs have this mean similarity.

        Args:
            alignment: Mean similarities (C, 1, 1).

        Returns:
            Temperatures (C, 1, 1).
        """
        raise NotImplementedError


class AlignmentTemperature(_BatchTemperature):
    """MACL: τ = τ₀ (1 + α (A − A₀)), with A the mean similarity of the batch's positive pairs.

    (Huang et al., ICML 2023, arXiv 2207.07874.) A is that of each head over all processes, without
    gradient. With `reweight` the loss of each anchor is divided by 1 − P, where P is the
    probability of its positive, exp(−loss), also without gradient: as the positive wins, the
    gradient of InfoNCE vanishes by the factor 1 − P, which this takes out. It is for InfoNCE, the
    softmax with the positive in the denominator.

    Args:
        value: Temperature τ₀ at A = A₀.
        alpha: Strength α of the change, from 0 to 1.
        baseline: Alignment A₀.
        reweight: Divide the loss of each anchor by 1 − P.

    Example:
        >>> temperature = AlignmentTemperature(0.1, alpha=0.5)
        >>> z = torch.nn.functional.normalize(torch.randn(1, 4, 8), dim=-1)
        >>> temperature.observe(z, z)  # positive pairs are equal: A = 1
        >>> temperature.keys(z).flatten()
        tensor([0.1500, 0.1500, 0.1500, 0.1500])
    """

    def __init__(
        self,
        value: float = 0.1,
        alpha: float = 0.5,
        baseline: float = 0.0,
        reweight: bool = True,
    ) -> None:
        super().__init__()
        self.value = positive_number("the temperature of MACL", value, "MACL uses 0.1")
        if non_negative("alpha", alpha, "MACL uses 0.5") > 1.0 or not 0.0 <= baseline <= 1.0:
            raise ValueError(
                f"alpha and baseline must lie in [0, 1], got {alpha} and {baseline}: MACL uses "
                "0.5 and 0."
            )
        self.alpha = float(alpha)
        self.baseline = float(baseline)
        self.reweight = reweight
        self.needs_probability = reweight

    def tau_at(self, alignment: torch.Tensor) -> torch.Tensor:
        # With α = 1, A₀ = 1 and opposite positives τ would be negative.
        tau = F.alignment_tau(alignment, self.value, self.alpha, self.baseline)
        return tau.clamp(min=0.1 * self.value)

    def objective(
        self, loss: torch.Tensor, anchor: torch.Tensor, num_negatives: int
    ) -> torch.Tensor:
        if not self.reweight:
            return loss
        return loss / (1.0 - torch.exp(-loss.detach())).clamp(min=_CLOSEST)

    def extra_repr(self) -> str:
        return (
            f"value={self.value:.4g}, alpha={self.alpha:.4g}, baseline={self.baseline:.4g}, "
            f"reweight={self.reweight}"
        )


class PositiveScaleTemperature(_BatchTemperature):
    """τ = c · mean ‖z − z⁺‖² over the positive pairs of the batch, for each head.

    The mean squared distance of unit vectors, 2 − 2A with A their mean similarity, is the scale
    that positive pairs have; it is that of all processes, without gradient. As they grow alike, τ
    falls, at most to 0.01: the opposite of MACL.

    Args:
        factor: Factor c. 1 is the plain mean, about 0.3 to 1 in trained networks.

    Example:
        >>> temperature = PositiveScaleTemperature(factor=0.5)
        >>> a, b = torch.eye(2).view(2, 1, 1, 2)  # at a right angle: ‖a − b‖² = 2
        >>> temperature.observe(a, b)
        >>> temperature.keys(a)
        tensor([[[1.]]])
    """

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = positive_number("factor", factor, "1 is the mean squared distance itself")

    def tau_at(self, alignment: torch.Tensor) -> torch.Tensor:
        return (self.factor * (2.0 - 2.0 * alignment)).clamp(min=_LEAST_TAU)

    def extra_repr(self) -> str:
        return f"factor={self.factor:.4g}"


@register_temperature
@dataclass(frozen=True, kw_only=True)
class AlignmentSettings(SingleTauSettings):
    """Settings of `AlignmentTemperature`.

    Example:
        >>> AlignmentSettings(tau=0.2).build(dim=128)
        AlignmentTemperature(value=0.2, alpha=0.5, baseline=0, reweight=True)
    """

    name: ClassVar[str] = "macl"

    macl_alpha: float = 0.5
    """α of MACL, by which the temperature rises with the similarity of positive pairs."""
    macl_baseline: float = 0.0
    """A₀ of MACL, the mean similarity of positive pairs at which the temperature is tau."""
    macl_reweight: bool = True
    """Divide the loss of each anchor by 1 − P, with P the probability of its positive."""

    def build(self, dim: int) -> AlignmentTemperature:
        return AlignmentTemperature(
            self.tau, self.macl_alpha, self.macl_baseline, self.macl_reweight
        )


@register_temperature
@dataclass(frozen=True, kw_only=True)
class PositiveScaleSettings(TemperatureSettings):
    """Settings of `PositiveScaleTemperature`.

    Example:
        >>> PositiveScaleSettings(scale_factor=0.2).build(dim=128)
        PositiveScaleTemperature(factor=0.2)
    """

    name: ClassVar[str] = "positive-scale"

    scale_factor: float = 1.0
    """Factor of the mean squared distance of positive pairs, which is the temperature."""

    def build(self, dim: int) -> PositiveScaleTemperature:
        return PositiveScaleTemperature(self.scale_factor)

    def typical(self, dim: int) -> float:
        return self.scale_factor

    def summary(self, dim: int) -> str:
        return f"{self.scale_factor:g} × the mean squared distance of positive pairs"
