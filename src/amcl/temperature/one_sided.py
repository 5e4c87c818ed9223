"""A temperature for each anchor, predicted by φ from the anchor alone."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from amcl import functional as F
from amcl.settings import Rule
from amcl.temperature.adaptive import AdaptiveTemperature
from amcl.temperature.adaptive_settings import TAU_OR_PRIOR, PhiSettings
from amcl.temperature.base import Pairing
from amcl.temperature.settings import register_temperature


class OneSidedTemperature(AdaptiveTemperature):
    """τ_i = σ(⟨φ(z_i), v⟩): a temperature for each anchor and head, whatever it is paired with.

    φ, its centering and its gate are those of `AdaptiveTemperature`; v is a learned direction in
    place of the other item's φ, so that r is ρ times a correlation with it. A network that
    predicts an anchor's temperature is what TempNet has (Qiu et al., ICML 2024, arXiv 2404.04575);
    its prototypes and its robust loss are not part of this scheme, which differs from AMCL in one
    thing alone: the temperature is one-sided.

    Args:
        dim: Width D of the projections.
        settings: Settings of `AdaptiveTemperature`.

    Example:
        >>> temperature = OneSidedTemperature(dim=8, lower=0.05, upper=0.15)
        >>> temperature.keys(torch.randn(3, 4, 8)).shape  # one for each anchor and head
        torch.Size([3, 4, 1])
    """

    pairwise = False

    def __init__(self, dim: int = 128, **settings: Any) -> None:
        super().__init__(dim, **settings)
        self.direction = nn.Parameter(torch.randn(dim))

    def gated_keys(self, z: torch.Tensor, gate: torch.Tensor, shared: bool = False) -> torch.Tensor:
        phi = super().gated_keys(z, gate, shared)
        direction = F.unit(self.direction.to(phi.dtype))
        if self.phi_output != "plain":
            direction = direction * (self.phi_scale * gate).sqrt()
        return self.tau_of((phi * direction).sum(-1, keepdim=True))

    def channel_keys(
        self,
        z: torch.Tensor,
        extra: torch.Tensor | None = None,
        channels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        raise ValueError(
            "OneSidedTemperature predicts the temperature of an image, and channels are none: use "
            "AdaptiveTemperature with the cross-correlation loss."
        )

    def for_heads(self, heads: slice) -> "OneSidedTemperature":
        return self  # keys are temperatures already

    def tau(self, anchor: torch.Tensor, other: torch.Tensor, pairing: Pairing) -> torch.Tensor:
        return anchor


@register_temperature
@dataclass(frozen=True, kw_only=True)
class OneSidedSettings(PhiSettings):
    """Settings of `OneSidedTemperature`.

    Example:
        >>> OneSidedSettings(tau=0.2).summary(dim=128)
        'one-sided, from 0.1 to 0.3, β = 0.1'
    """

    name: ClassVar[str] = "one-sided"
    needs_images: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = (TAU_OR_PRIOR,)

    def build(self, dim: int) -> OneSidedTemperature:
        return OneSidedTemperature(dim, **self.phi_settings(dim))
