"""Different schemes for positive and negative pairs."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from amcl.temperature.adaptive_settings import PhiSettings
from amcl.temperature.base import Sign, Temperature
from amcl.temperature.constant import ConstantTemperature
from amcl.temperature.settings import register_temperature


class SplitTemperature(Temperature):
    """One scheme for positive pairs and another for negative ones.

    With a constant and an adaptive scheme these are two variants of the paper's Fig. 7:
    `SplitTemperature(positive=ConstantTemperature(), negative=AdaptiveTemperature())` and the
    reverse. Losses ask for the `branch` they need, never the split scheme itself.

    Args:
        positive: Scheme of positive pairs.
        negative: Scheme of negative pairs.

    Example:
        >>> low = ConstantTemperature(0.1)
        >>> high = ConstantTemperature(0.2)
        >>> SplitTemperature(positive=low, negative=high).branch("negative")
        ConstantTemperature(value=0.2)
    """

    def __init__(self, *, positive: Temperature, negative: Temperature) -> None:
        super().__init__()
        for name, scheme in (("positive", positive), ("negative", negative)):
            if not isinstance(scheme, Temperature):
                raise TypeError(
                    f"{name} must be a temperature scheme, got {scheme!r}. For a fixed number: "
                    "ConstantTemperature(0.1)."
                )
        if positive.needs_probability:
            raise ValueError(
                f"{type(positive).__name__} weighs anchors, which is for the scheme of negative "
                "pairs to do: use reweight=False for that of positive ones."
            )
        self.positive = positive
        self.negative = negative
        self.needs_probability = negative.needs_probability
        self.extra_outputs = max(positive.extra_outputs, negative.extra_outputs)

    def branch(self, sign: Sign) -> Temperature:
        return (self.positive if sign == "positive" else self.negative).branch(sign)

    def observe(self, anchors: torch.Tensor, positives: torch.Tensor, shared: bool = False) -> None:
        self.positive.observe(anchors, positives, shared)
        self.negative.observe(anchors, positives, shared)

    def set_epoch(self, epoch: float) -> None:
        self.positive.set_epoch(epoch)
        self.negative.set_epoch(epoch)

    def set_num_images(self, count: int) -> None:
        self.positive.set_num_images(count)
        self.negative.set_num_images(count)

    def set_images(self, indices: torch.Tensor) -> None:
        self.positive.set_images(indices)
        self.negative.set_images(indices)


@register_temperature
@dataclass(frozen=True, kw_only=True)
class AdaptivePositiveSettings(PhiSettings):
    """Settings of a split scheme in which positive pairs adapt and negative ones do not."""

    name: ClassVar[str] = "adaptive-positive"

    def build(self, dim: int) -> SplitTemperature:
        return SplitTemperature(positive=self.phi(dim), negative=ConstantTemperature(self.tau))


@register_temperature
@dataclass(frozen=True, kw_only=True)
class AdaptiveNegativeSettings(PhiSettings):
    """Settings of a split scheme in which negative pairs adapt and positive ones do not."""

    name: ClassVar[str] = "adaptive-negative"
    needs_negatives: ClassVar[bool] = True

    def build(self, dim: int) -> SplitTemperature:
        return SplitTemperature(positive=ConstantTemperature(self.tau), negative=self.phi(dim))
