"""One temperature for all pairs, fixed or learned."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from amcl.settings import positive_number
from amcl.temperature.base import Temperature, for_each_anchor
from amcl.temperature.settings import SingleTauSettings, register_temperature


class ConstantTemperature(Temperature):
    """The same fixed τ for every pair and head: the temperature of the plain losses.

    Args:
        value: The temperature τ.

    Example:
        >>> ConstantTemperature(0.5).keys(torch.randn(3, 2, 8)).flatten()
        tensor([0.5000, 0.5000])
    """

    def __init__(self, value: float = 0.1) -> None:
        super().__init__()
        fix = "usual values are 0.05 to 1"
        self.value = positive_number("the constant temperature", value, fix)

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        return for_each_anchor(z.new_tensor(self.value), z)

    def extra_repr(self) -> str:
        return f"value={self.value:.4g}"


class LearnableTemperature(Temperature):
    """One τ for every pair and head, learned with the network, as in CLIP.

    log τ is the parameter; before each use it is put back inside its bounds, so that an optimizer
    step over the edge cannot strand it there.

    Args:
        init: First value of τ.
        lower: Lower bound of τ.
        upper: Upper bound of τ.

    Example:
        >>> round(LearnableTemperature(init=0.5).log_tau.exp().item(), 4)
        0.5
    """

    def __init__(self, init: float = 0.1, lower: float = 0.01, upper: float = 1.0) -> None:
        super().__init__()
        for name, value in (("lower", lower), ("init", init), ("upper", upper)):
            positive_number(name, value, "CLIP's floor is 0.01")
        if not lower <= init <= upper:
            raise ValueError(
                f"init={init} lies outside lower={lower} … upper={upper}: choose one inside."
            )
        self.lower = float(lower)
        self.upper = float(upper)
        self.log_tau = nn.Parameter(torch.tensor(math.log(init)))

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        with torch.no_grad():
            self.log_tau.clamp_(math.log(self.lower), math.log(self.upper))
        return for_each_anchor(self.log_tau.exp(), z)

    def extra_repr(self) -> str:
        return f"lower={self.lower:.4g}, upper={self.upper:.4g}"


@register_temperature
@dataclass(frozen=True, kw_only=True)
class ConstantSettings(SingleTauSettings):
    """Settings of `ConstantTemperature`.

    Example:
        >>> ConstantSettings(tau=0.2).build(dim=128)
        ConstantTemperature(value=0.2)
    """

    name: ClassVar[str] = "constant"

    def build(self, dim: int) -> ConstantTemperature:
        return ConstantTemperature(self.tau)


@register_temperature
@dataclass(frozen=True, kw_only=True)
class LearnableSettings(SingleTauSettings):
    """Settings of `LearnableTemperature`.

    Example:
        >>> LearnableSettings(tau=0.2).build(dim=128)
        LearnableTemperature(lower=0.01, upper=1)
    """

    name: ClassVar[str] = "learnable"

    def build(self, dim: int) -> LearnableTemperature:
        return LearnableTemperature(self.tau, upper=max(1.0, self.tau))
