"""TS: a temperature that swings with the epochs."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl import functional as F
from amcl.settings import non_negative, positive_number
from amcl.temperature.base import Temperature, for_each_anchor
from amcl.temperature.settings import TemperatureSettings, register_temperature


class ScheduledTemperature(Temperature):
    """TS: the same τ for all pairs, a cosine between τ_max and τ_min with a period in epochs.

    Call `set_epoch` during training (fractions count); the epoch is in the state dict.

    Args:
        tau_min: Least temperature τ_min.
        tau_max: Greatest temperature τ_max, with which training starts.
        period: Number of epochs in which the temperature comes back.

    Example:
        >>> temperature = ScheduledTemperature(tau_min=0.1, tau_max=1.0, period=400)
        >>> temperature.set_epoch(200)
        >>> temperature.keys(torch.randn(3, 2, 8)).flatten()
        tensor([0.1000, 0.1000])
    """

    epoch: torch.Tensor

    def __init__(self, tau_min: float = 0.1, tau_max: float = 1.0, period: float = 400.0) -> None:
        super().__init__()
        self.tau_min = positive_number("tau_min", tau_min, "TS uses 0.1")
        self.period = positive_number("period", period, "TS uses 400 epochs")
        if positive_number("tau_max", tau_max, "TS uses 1") < tau_min:
            raise ValueError(f"tau_max={tau_max} is below tau_min={tau_min}: swap them.")
        self.tau_max = float(tau_max)
        self.register_buffer("epoch", torch.tensor(0.0))

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        tau = F.cosine_schedule_tau(self.epoch.to(z), self.tau_min, self.tau_max, self.period)
        return for_each_anchor(tau, z)

    def set_epoch(self, epoch: float) -> None:
        self.epoch.fill_(non_negative("epoch", epoch, "count from the start of training"))

    def extra_repr(self) -> str:
        return f"tau_min={self.tau_min:.4g}, tau_max={self.tau_max:.4g}, period={self.period:.4g}"


@register_temperature
@dataclass(frozen=True, kw_only=True)
class ScheduledSettings(TemperatureSettings):
    """Settings of `ScheduledTemperature`.

    Example:
        >>> ScheduledSettings(tau_period=100).build(dim=128)
        ScheduledTemperature(tau_min=0.1, tau_max=1, period=100)
    """

    name: ClassVar[str] = "scheduled"

    tau_lower: float | None = None
    """The least temperature; none: 0.1."""
    tau_upper: float | None = None
    """The greatest temperature; none: 1."""
    tau_period: float = 400.0
    """Epochs in which the temperature comes back."""

    def build(self, dim: int) -> ScheduledTemperature:
        return ScheduledTemperature(*self.tau_range(dim), self.tau_period)

    def tau_range(self, dim: int) -> tuple[float, float]:
        lower = 0.1 if self.tau_lower is None else self.tau_lower
        upper = 1.0 if self.tau_upper is None else self.tau_upper
        return lower, upper

    def typical(self, dim: int) -> float:
        return sum(self.tau_range(dim)) / 2

    def summary(self, dim: int) -> str:
        return "scheduled, from {:g} to {:g}".format(*self.tau_range(dim))
