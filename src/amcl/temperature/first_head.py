"""Adaptive temperatures that are copied from the first head."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl.settings import Rule
from amcl.temperature.adaptive import AdaptiveTemperature
from amcl.temperature.adaptive_settings import TAU_OR_PRIOR, PhiSettings
from amcl.temperature.base import Pairing, Temperature
from amcl.temperature.settings import register_temperature


class FirstHeadTemperature(Temperature):
    """The adaptive temperatures of head 1, used by all heads (a variant in the paper's Fig. 7).

    Args:
        adaptive: The scheme that head 1 has.

    Example:
        >>> temperature = FirstHeadTemperature(AdaptiveTemperature(dim=8))
        >>> temperature.keys(torch.randn(3, 4, 8)).shape  # one head for all three
        torch.Size([1, 4, 8])
    """

    pairwise = True

    def __init__(self, adaptive: AdaptiveTemperature) -> None:
        super().__init__()
        if not isinstance(adaptive, AdaptiveTemperature):
            raise TypeError(
                f"FirstHeadTemperature copies an AdaptiveTemperature, got a "
                f"{type(adaptive).__name__}."
            )
        if len(adaptive.ranges) > 1:
            raise ValueError(
                "FirstHeadTemperature gives all heads the temperatures of the first, and there are "
                f"ranges for {len(adaptive.ranges)} heads: give one range."
            )
        self.adaptive = adaptive

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        """Return keys of the first head, with a gate that any head closes: all heads use them."""
        gate = self.adaptive.gate(z, shared).amin(0, keepdim=True)
        return self.adaptive.gated_keys(z[:1], gate, shared)

    def channel_keys(
        self,
        z: torch.Tensor,
        extra: torch.Tensor | None = None,
        channels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        first = None if channels is None else channels[:1]
        return self.adaptive.channel_keys(z[:1], channels=first)

    def tau(self, anchor: torch.Tensor, other: torch.Tensor, pairing: Pairing) -> torch.Tensor:
        return self.adaptive.tau(anchor, other, pairing)

    def bounds(self) -> tuple[float, float]:
        return self.adaptive.bounds()

    def channel_bounds(self, literal: bool = False) -> tuple[float, float]:
        return self.adaptive.channel_bounds(literal)


@register_temperature
@dataclass(frozen=True, kw_only=True)
class FirstHeadSettings(PhiSettings):
    """Settings of `FirstHeadTemperature`.

    Example:
        >>> FirstHeadSettings(tau=0.2).summary(dim=128)
        'first-head, from 0.1 to 0.3, β = 0.1'
    """

    name: ClassVar[str] = "first-head"
    rules: ClassVar[tuple[Rule, ...]] = (TAU_OR_PRIOR,)

    def build(self, dim: int) -> FirstHeadTemperature:
        return FirstHeadTemperature(self.phi(dim))
