"""Color jitter of several strengths."""

from collections.abc import Sequence

from amcl.experiments.analyses.registry import analysis
from amcl.experiments.cases import SIDE, Metric, Part, along, positive, sides
from amcl.sweep.fields import with_values
from amcl.training import Config


@analysis(
    "color",
    "how does it bear strong color distortion?",
    values=("0.25", "0.5", "0.75", "1"),
    few=("0.25", "1"),
)
def color(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """Return both sides of a method by the strength of the jitter, as a multiple of SimCLR's."""

    def jittered(config: Config, strength: str) -> Config:
        s = positive("strength", strength)
        strong, hue = round(0.8 * s, 6), round(min(0.2 * s, 0.5), 6)
        return with_values(config, {"jitter": (strong, strong, strong, hue)})

    return [
        Part(
            name="color",
            title="Strength of the color distortion",
            how_to_read="1 is SimCLR's on ImageNet: brightness, contrast and saturation change by "
            "up to 0.8, hue by up to 0.2.",
            cases=along("strength", values, sides(base), metric, jittered),
            x="strength",
            compared=SIDE,
        )
    ]
