"""Temperatures that are functions of the similarity of a pair: DySTreSS, and no temperature."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl import functional as F
from amcl.settings import positive_number
from amcl.temperature.base import Pairing, Temperature
from amcl.temperature.settings import TemperatureSettings, register_temperature


class _SimilarityTemperature(Temperature):
    """Keys are the vectors whose dot products are similarities."""

    pairwise = True

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        return F.unit(z)

    def channel_keys(
        self,
        z: torch.Tensor,
        extra: torch.Tensor | None = None,
        channels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return F.channels(z) if channels is None else channels


class SimilarityTemperature(_SimilarityTemperature):
    """DySTreSS: τ = τ_min + ½ (τ_max − τ_min)(1 + cos(π(1 + s))), from the similarity of a pair.

    (Manna et al., 2025, arXiv 2308.01140.) τ passes no gradient. Pairs with s = 0 have τ_min; the
    more alike or opposed a pair is, the nearer its τ is to τ_max.

    Args:
        tau_min: Temperature τ_min of pairs with s = 0.
        tau_max: Temperature τ_max of pairs with s = ±1.

    Example:
        >>> temperature = SimilarityTemperature(0.1, 0.2)
        >>> keys = temperature.keys(torch.eye(2).unsqueeze(0))
        >>> temperature.tau(keys, keys, F.all_pairs)
        tensor([[[0.2000, 0.1000],
                 [0.1000, 0.2000]]])
    """

    def __init__(self, tau_min: float = 0.1, tau_max: float = 0.2) -> None:
        super().__init__()
        self.tau_min = positive_number("tau_min", tau_min, "0.1 is usual")
        if positive_number("tau_max", tau_max, "0.2 is usual") < tau_min:
            raise ValueError(f"tau_max={tau_max} is below tau_min={tau_min}: swap them.")
        self.tau_max = float(tau_max)

    @torch.no_grad()
    def tau(self, anchor: torch.Tensor, other: torch.Tensor, pairing: Pairing) -> torch.Tensor:
        return F.similarity_tau(pairing(anchor, other), self.tau_min, self.tau_max)

    def bounds(self) -> tuple[float, float]:
        return self.tau_min, self.tau_max

    def extra_repr(self) -> str:
        return f"tau_min={self.tau_min:.4g}, tau_max={self.tau_max:.4g}"


class ArtanhTemperature(_SimilarityTemperature):
    """No temperature: the logit of a pair is 2 artanh(s) = log((1 + s)/(1 − s)).

    (Kim and Kim, 2025, arXiv 2501.17683.) As a temperature it is τ = s / (2 artanh s), ½ at s = 0,
    which depends on s with gradient, so that s/τ and its derivative are those of the logit. There
    is nothing to set.

    Example:
        >>> temperature = ArtanhTemperature()
        >>> keys = temperature.keys(torch.tensor([[[1.0, 0.0], [0.6, 0.8]]]))
        >>> s = F.all_pairs(keys, keys)[0, 0, 1]
        >>> s / temperature.tau(keys, keys, F.all_pairs)[0, 0, 1]  # log(1.6 / 0.4)
        tensor(1.3863)
    """

    def tau(self, anchor: torch.Tensor, other: torch.Tensor, pairing: Pairing) -> torch.Tensor:
        return F.artanh_tau(pairing(anchor, other))


@register_temperature
@dataclass(frozen=True, kw_only=True)
class SimilaritySettings(TemperatureSettings):
    """Settings of `SimilarityTemperature`.

    Example:
        >>> SimilaritySettings(tau_lower=0.05, tau_upper=0.15).build(dim=128)
        SimilarityTemperature(tau_min=0.05, tau_max=0.15)
    """

    name: ClassVar[str] = "dystress"

    tau_lower: float | None = None
    """The temperature of pairs that are not alike; none: 0.1."""
    tau_upper: float | None = None
    """The temperature of pairs that are equal or opposite; none: 0.2."""

    def build(self, dim: int) -> SimilarityTemperature:
        return SimilarityTemperature(*self.tau_range(dim))

    def tau_range(self, dim: int) -> tuple[float, float]:
        lower = 0.1 if self.tau_lower is None else self.tau_lower
        upper = 0.2 if self.tau_upper is None else self.tau_upper
        return lower, upper

    def typical(self, dim: int) -> float:
        return self.tau_range(dim)[0]  # most pairs are not alike

    def summary(self, dim: int) -> str:
        return "DySTreSS, from {:g} to {:g}".format(*self.tau_range(dim))


@register_temperature
@dataclass(frozen=True, kw_only=True)
class ArtanhSettings(TemperatureSettings):
    """Settings of `ArtanhTemperature`: there are none.

    Example:
        >>> ArtanhSettings().build(dim=128)
        ArtanhTemperature()
    """

    name: ClassVar[str] = "artanh"
    needs_logits: ClassVar[bool] = True

    def build(self, dim: int) -> ArtanhTemperature:
        return ArtanhTemperature()

    def typical(self, dim: int) -> float:
        return 0.5

    def summary(self, dim: int) -> str:
        return "none, logits are 2 artanh(s)"
