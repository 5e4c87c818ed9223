"""What augmentations do."""

from collections.abc import Sequence

from amcl.experiments.analyses.pieces import both_sides, number, with_field
from amcl.experiments.cases import SIDE, Case, Metric, Part, of_pairs, sides
from amcl.recipes import with_amcl
from amcl.sweep.fields import with_values
from amcl.training import Config


def overlap(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """Crops that share so much of their area."""
    told = (
        "Two crops of a picture share this part of their area. The less they share, the less "
        "alike are the views of one picture."
    )
    accuracy = both_sides(base, "overlap", values, metric, "overlap", "Overlap of the crops", told)
    measures = (
        of_pairs("tau_positive", "mean τ⁺"),
        of_pairs("tau_positive_variance", "variance of τ⁺"),
        of_pairs("between_heads_positive", "variance of τ⁺ between heads"),
    )
    amcl = with_amcl(base)
    cases = [
        Case(
            labels={"overlap": v, "measure": m.name},
            config=with_field(amcl, "overlap", v),
            metric=m,
        )
        for v in values
        for m in measures
    ]
    temperatures = Part(
        name="overlap-temperatures",
        title="Temperatures of positive pairs",
        told="A high τ⁺ says that the method holds a pair for uncertain; a variance between heads, "
        "that they do not look at the same things. At the end of training, on validation images; "
        "the paper takes the mean over epochs.",
        cases=tuple(cases),
        columns="measure",
        x="overlap",
        panels="measure",
    )
    return [accuracy, temperatures]


def color(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """Color jitter of so many times SimCLR's: brightness, contrast, saturation 0.8, hue 0.2."""

    def jittered(config: Config, strength: str) -> Config:
        s = number("strength", strength)
        strong, hue = round(0.8 * s, 6), round(min(0.2 * s, 0.5), 6)
        return with_values(config, {"jitter": (strong, strong, strong, hue)})

    cases = [
        Case(labels={"strength": v, SIDE: side}, config=jittered(config, v), metric=metric)
        for v in values
        for side, config in sides(base).items()
    ]
    return [
        Part(
            name="color",
            title="Strength of the color distortion",
            told="1 is SimCLR's on ImageNet: brightness, contrast and saturation change by up to "
            "0.8, hue by up to 0.2.",
            cases=tuple(cases),
            columns="strength",
            x="strength",
            series=SIDE,
            compared=SIDE,
        )
    ]


def augmentations(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """One kind of augmentation after the other."""
    told = (
        "a crop, b blur, c gray, d color jitter, e flip. The paper's claim: the more kinds, the "
        "more AMCL gains."
    )
    title = "Kinds of augmentation"
    return [both_sides(base, "views", values, metric, "augmentations", title, told)]
