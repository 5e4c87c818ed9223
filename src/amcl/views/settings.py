"""Settings of views."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import tyro

from amcl.settings import Rule
from amcl.views import boxes

LETTERS = {
    "a": "random resized crop",
    "b": "Gaussian blur",
    "c": "color dropping (grayscale)",
    "d": "color distortion (jitter)",
    "e": "horizontal flip",
    "h": "channel drop",
    "n": "noise",
    "s": "solarize",
}


def _rule(letter: str, name: str, *fields: str, replaces: str = "") -> Rule:
    """Return the rule of settings that belong to an operation.

    Args:
        letter: Letter of the operation.
        name: Name of what it makes.
        fields: Names of its settings.
        replaces: Letters in whose place it may come where images are not RGB.
    """
    return Rule(
        fields=fields,
        depends=("views",),
        used=lambda values: any(each in values["views"] for each in letter + replaces),
        belongs=f"{name} (the letter {letter} in --views)",
    )


@dataclass(frozen=True, kw_only=True)
class ViewSettings:
    """Operations that make a view, with their probabilities and strengths.

    Example:
        >>> ViewSettings(operations="ae", crop_scale=(0.2, 1.0)).flip_p
        0.5
    """

    rules: ClassVar[tuple[Rule, ...]] = (
        _rule("a", "crops", "crop_scale", "crop_ratio"),
        _rule("b", "blurs", "blur_p", "blur_sigma", "blur_kernel"),
        _rule("c", "grayscale", "gray_p"),
        _rule("d", "color jitter", "jitter", "jitter_p"),
        _rule("e", "flips", "flip_p"),
        _rule("s", "solarize", "solarize_p", "solarize_threshold"),
        _rule("h", "channel drop", "channel_drop_p", replaces="c"),
        _rule("n", "noise", "noise_p", "noise_sigma", replaces="cds"),
        Rule(
            fields=("local_size", "local_scale", "local_blur_p"),
            depends=("local_crops",),
            used=lambda values: values["local_crops"] > 0,
            belongs="local crops (--local-crops 6)",
        ),
    )

    operations: Annotated[str, tyro.conf.arg(name="views")] = "abcde"
    """Operations that are on: a crop, b blur, c gray, d jitter, e flip, h channel drop, n noise, s
    solarize. Where images are not RGB, others take the place of those on color."""
    crop_scale: tuple[float, float] = (0.08, 1.0)
    """Least and most share of the image's area that a crop takes."""
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Least and most width / height of a crop, in the true shape of the image."""
    flip_p: float = 0.5
    """Probability of the horizontal flip."""
    jitter_p: float = 0.8
    """Probability of the color jitter."""
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    """Strength of the jitter of brightness, contrast, saturation and hue (at most 0.5). Images that
    are not RGB have no saturation and no hue: 0 and 0."""
    gray_p: float = 0.2
    """Probability of grayscale."""
    blur_p: tuple[float, float] = (0.5, 0.5)
    """Probability of the blur, in the first and in the second view."""
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    """Least and most σ of the blur, in pixels of the view."""
    blur_kernel: int = 0
    """Width of the blur's kernel in pixels, odd; 0: a tenth of the view, made odd, at least 3."""
    solarize_p: tuple[float, float] = (0.0, 0.2)
    """Probability of solarize, in the first and in the second view, where "s" is on."""
    solarize_threshold: float = 0.5
    """Values from here to 1 are inverted by solarize."""
    channel_drop_p: float = 0.2
    """Probability that some channels, at most half of them, become their mean, where "h" is on."""
    noise_p: float = 0.5
    """Probability of Gaussian noise, where "n" is on."""
    noise_sigma: tuple[float, float] = (0.02, 0.2)
    """Least and most σ of the noise, in standard deviations of each channel."""
    min_overlap: float = 0.0
    """Least overlap of the two crops: the area they share over that of the smaller."""
    overlap: float | None = None
    """The overlap of the two crops, exactly; they then have one size."""
    local_crops: int = 0
    """Number of further, smaller crops of each image, for methods that take them (multi-crop)."""
    local_size: int | None = None
    """Pixels a side of the local crops; none: three sevenths of the views' size, 96 for 224, in
    whole patches of a vision transformer."""
    local_scale: tuple[float, float] = (0.05, 0.4)
    """Least and most share of the image's area that a local crop takes."""
    local_blur_p: float = 0.5
    """Probability of the blur in local crops."""

    def __post_init__(self) -> None:
        if unknown := [letter for letter in self.operations if letter not in LETTERS]:
            accepted = ", ".join(f"{letter} = {name}" for letter, name in LETTERS.items())
            raise ValueError(
                f"views={self.operations!r} has no operation for {', '.join(map(repr, unknown))}: "
                f"choose letters from {accepted}."
            )
        shares = (
            "flip_p",
            "jitter_p",
            "gray_p",
            "channel_drop_p",
            "noise_p",
            "solarize_threshold",
            "min_overlap",
            "local_blur_p",
        )
        for name in shares:
            _within(name, [getattr(self, name)], 1)
        for name in ("blur_p", "solarize_p"):
            _within(name, numbers(name, getattr(self, name), 2), 1)
        for name in ("crop_scale", "local_scale", "crop_ratio", "blur_sigma", "noise_sigma"):
            bounds = numbers(name, getattr(self, name), 2)
            _rising(name, bounds, most=1 if name.endswith("scale") else math.inf)
        _within("jitter", numbers("jitter", self.jitter, 4)[:3])
        _within("jitter of hue", self.jitter[3:], 0.5)
        if self.blur_kernel != 0 and (self.blur_kernel < 3 or self.blur_kernel % 2 == 0):
            raise ValueError(
                f"blur_kernel must be odd and at least 3, or 0 for a tenth of the view, got "
                f"{self.blur_kernel}."
            )
        self._check_overlap()
        if not isinstance(self.local_crops, int) or self.local_crops < 0:
            raise ValueError(f"local_crops must be 0 or more, got {self.local_crops}.")
        if self.local_crops and "a" not in self.operations:
            raise ValueError(
                f"views={self.operations!r} does not crop, and local_crops are crops: add 'a'."
            )

    def local(self) -> "ViewSettings":
        """Return the settings of a local crop: another scale and blur, no solarize."""
        return replace(
            self,
            crop_scale=self.local_scale,
            blur_p=(self.local_blur_p, self.local_blur_p),
            solarize_p=(0.0, 0.0),
            min_overlap=0.0,
            overlap=None,
            local_crops=0,
        )

    def _check_overlap(self) -> None:
        if self.overlap is None and self.min_overlap == 0:
            return
        if "a" not in self.operations:
            raise ValueError(
                f"views={self.operations!r} does not crop, so that views overlap fully: add 'a', "
                "or leave out min_overlap and overlap."
            )
        if self.overlap is None:
            return
        if self.min_overlap != 0:
            raise ValueError(
                f"Give min_overlap or overlap, not both: got {self.min_overlap} and {self.overlap}."
            )
        if not 0 < self.overlap <= 1:
            raise ValueError(
                f"overlap must be above 0 and at most 1, got {self.overlap}: None leaves it free."
            )
        least = boxes.least_overlap(self.crop_scale, self.crop_ratio)
        if self.overlap < least:
            raise ValueError(
                f"overlap = {self.overlap} is out of reach: crops of crop_scale = "
                f"{self.crop_scale} share {least:.2f} at least. Lower crop_scale's first value "
                f"or raise overlap."
            )


def numbers(name: str, values: Any, count: int) -> tuple[float, ...]:
    """Return `values` as a tuple of `count` numbers."""
    if not isinstance(values, Sequence) or len(values) != count:
        raise ValueError(f"{name} must be {count} numbers, got {values!r}.")
    return tuple(map(float, values))


def _within(name: str, values: Sequence[float], most: float = math.inf) -> None:
    if not all(0 <= value <= most and math.isfinite(value) for value in values):
        bound = "be finite and at least 0" if most == math.inf else f"lie from 0 to {most:g}"
        value_or_values = values[0] if len(values) == 1 else tuple(values)
        raise ValueError(f"{name} must {bound}, got {value_or_values}.")


def _rising(name: str, values: Sequence[float], most: float = math.inf) -> None:
    low, high = values
    if not (0 < low <= high <= most and math.isfinite(high)):
        bound = "" if most == math.inf else f", at most {most:g}"
        raise ValueError(
            f"{name} must be the least and the most, above 0{bound}, got {tuple(values)}: put the "
            "smaller first, or give one value twice to fix it."
        )
