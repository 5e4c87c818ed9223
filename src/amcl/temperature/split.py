"""Different schemes for positive and negative pairs."""

from amcl.temperature.base import Sign, Temperature


class SplitTemperature(Temperature):
    """One scheme for positive pairs and another for negative ones.

    With a constant and an adaptive scheme these are two variants of the paper's Fig. 7:
    `SplitTemperature(positive=ConstantTemperature(), negative=AdaptiveTemperature())` and the
    reverse. Losses ask for the `branch` they need, never the split scheme itself.
    """

    def __init__(self, *, positive: Temperature, negative: Temperature) -> None:
        super().__init__()
        for name, scheme in (("positive", positive), ("negative", negative)):
            if not isinstance(scheme, Temperature):
                raise TypeError(
                    f"{name} must be a temperature scheme, got {scheme!r}. For a fixed number: "
                    "ConstantTemperature(0.1)."
                )
        self.positive, self.negative = positive, negative
        self.extra_outputs = max(positive.extra_outputs, negative.extra_outputs)

    def branch(self, sign: Sign) -> Temperature:
        return (self.positive if sign == "positive" else self.negative).branch(sign)

    def set_epoch(self, epoch: float) -> None:
        self.positive.set_epoch(epoch)
        self.negative.set_epoch(epoch)
