"""Color jitter of several strengths."""

from amcl.config import Config
from amcl.config.fields import with_values
from amcl.experiments.analyses.registry import axis_analysis
from amcl.experiments.specs import SIDE, positive


def _jittered(config: Config, strength: str) -> Config:
    factor = positive("strength", strength)
    jitter = round(0.8 * factor, 6)
    hue = round(min(0.2 * factor, 0.5), 6)
    return with_values(config, {"jitter": (jitter, jitter, jitter, hue)})


axis_analysis(
    "color",
    "how does it bear strong color distortion?",
    values=("0.25", "0.5", "0.75", "1"),
    few=("0.25", "1"),
    label="strength",
    change=_jittered,
    title="Strength of the color distortion",
    how_to_read="1 is SimCLR's on ImageNet: brightness, contrast and saturation change by "
    "up to 0.8, hue by up to 0.2.",
    compared=SIDE,
)
