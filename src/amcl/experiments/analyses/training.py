"""What labels, backbones and epochs do."""

from collections.abc import Sequence
from typing import Any

from amcl.experiments.analyses.pieces import number
from amcl.experiments.cases import SIDE, Case, Metric, Part, few_labels, sides
from amcl.sweep.fields import with_values
from amcl.training import Config


def labels(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """Logistic regression on features with so many labels a class."""
    return [few_label_part(sides(base), values)]


def few_label_part(configs: dict[str, Config], values: Sequence[str]) -> Part:
    """Runs against the number of labels."""
    for v in values:
        if not v.isdecimal() or int(v) < 1:
            raise ValueError(f"labels a class are whole numbers, as in 10 50 500; got {v!r}.")
    cases = [
        Case(labels={"labels a class": v, SIDE: side}, config=config, metric=few_labels(v))
        for v in values
        for side, config in configs.items()
    ]
    return Part(
        name="labels",
        title="Number of labels",
        told="Logistic regression on the features with so many labeled pictures a class.",
        cases=tuple(cases),
        columns=SIDE,
        x="labels a class",
        series=SIDE,
        compared=SIDE,
    )


def backbones(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """Backbones, and a quarter, a half and all of the epochs."""
    full = base.run.epochs
    epochs = sorted({max(1, full // 4), max(1, full // 2), full})
    cases = [
        Case(
            labels={"backbone": v, SIDE: side, "epochs": str(count)},
            config=with_values(config, {**_backbone(v, base), "epochs": count}),
            metric=metric,
        )
        for v in values
        for side, config in sides(base).items()
        for count in epochs
    ]
    return [
        Part(
            name="backbones",
            title="Backbones and epochs",
            told="Each run has the schedule of its own length: the shorter are no halves of longer "
            "ones.",
            cases=tuple(cases),
            columns="epochs",
            x="epochs",
            series=SIDE,
            panels="backbone",
            compared=SIDE,
        )
    ]


def _backbone(text: str, base: Config) -> dict[str, Any]:
    """`resnet18*0.25` is a network and its width."""
    name, _, width = text.partition("*")
    if text == "own":
        return {"backbone": base.backbone.backbone, "width": base.backbone.width}
    return {"backbone": name, "width": number("width", width or "1")}
