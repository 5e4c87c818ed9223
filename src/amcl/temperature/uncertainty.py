"""TaU: temperature as uncertainty of the anchor."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl import functional as F
from amcl.settings import positive_number
from amcl.temperature.base import Temperature
from amcl.temperature.settings import SingleTauSettings, register_temperature


class UncertaintyTemperature(Temperature):
    """TaU: τ_i = t / sigmoid(score_i), with the score one more output of each projection head.

    Make the heads `dim + temperature.extra_outputs` wide and hand the loss their whole output; it
    takes the score off. τ depends on the anchor alone. For channels, which have no score of their
    own, the mean score of the batch serves all of a head.

    Args:
        scale: The least temperature t.

    Example:
        >>> temperature = UncertaintyTemperature(scale=0.1)
        >>> temperature.keys(torch.randn(1, 2, 8), extra=torch.zeros(1, 2, 1)).flatten()
        tensor([0.2000, 0.2000])
    """

    extra_outputs = 1

    def __init__(self, scale: float = 0.1) -> None:
        super().__init__()
        self.scale = positive_number("scale", scale, "TaU uses 0.1")

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        if extra is None:
            # Only anchors have a temperature; the key of a candidate is never read.
            return z.new_ones(z.shape[0], z.shape[1], 1)
        return F.uncertainty_tau(extra[..., :1], self.scale)

    def channel_keys(
        self,
        z: torch.Tensor,
        extra: torch.Tensor | None = None,
        channels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        mean_score = None if extra is None else extra.mean(dim=1, keepdim=True)
        return self.keys(z[:, :1], mean_score).expand(-1, z.shape[-1], 1)

    def extra_repr(self) -> str:
        return f"scale={self.scale:.4g}"


@register_temperature
@dataclass(frozen=True, kw_only=True)
class UncertaintySettings(SingleTauSettings):
    """Settings of `UncertaintyTemperature`.

    Example:
        >>> UncertaintySettings().build(dim=128)
        UncertaintyTemperature(scale=0.1)
    """

    name: ClassVar[str] = "uncertainty"
    has_score: ClassVar[bool] = True

    def build(self, dim: int) -> UncertaintyTemperature:
        return UncertaintyTemperature(self.tau)
