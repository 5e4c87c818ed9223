"""Color jitter of several strengths."""

from amcl.config import Config
from amcl.config.fields import with_values
from amcl.experiments.analyses.registry import Analysis, axis, register
from amcl.experiments.specs import SIDE, positive


def _jittered(config: Config, strength: str) -> Config:
    s = positive("strength", strength)
    strong, hue = round(0.8 * s, 6), round(min(0.2 * s, 0.5), 6)
    return with_values(config, {"jitter": (strong, strong, strong, hue)})


register(
    Analysis(
        name="color",
        question="how does it bear strong color distortion?",
        values=("0.25", "0.5", "0.75", "1"),
        few=("0.25", "1"),
        make=axis(
            "strength",
            _jittered,
            name="color",
            title="Strength of the color distortion",
            how_to_read="1 is SimCLR's on ImageNet: brightness, contrast and saturation change by "
            "up to 0.8, hue by up to 0.2.",
            compared=SIDE,
        ),
    )
)
