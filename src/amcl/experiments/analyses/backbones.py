"""Backbones, and a quarter, a half and all of the epochs."""

from collections.abc import Sequence
from typing import Any

from amcl.config import Config
from amcl.config.fields import with_values
from amcl.experiments.analyses.registry import analysis
from amcl.experiments.specs import SIDE, CellSpec, Metric, TableSpec, positive, sides


@analysis(
    "backbones",
    "does it hold for other backbones and longer training?",
    values=("own",),
    few=("own",),
)
def backbones(base: Config, values: Sequence[str], metric: Metric) -> list[TableSpec]:
    """Return both sides of a method by backbone and number of epochs."""
    full = base.run.epochs
    epochs = sorted({max(1, full // 4), max(1, full // 2), full})
    cells = [
        CellSpec(
            labels={"backbone": value, SIDE: side, "epochs": str(count)},
            config=with_values(config, {**_backbone(value, base), "epochs": count}),
            metric=metric,
        )
        for value in values
        for side, config in sides(base).items()
        for count in epochs
    ]
    return [
        TableSpec(
            name="backbones",
            title="Backbones and epochs",
            how_to_read="Each run has the schedule of its own length: the shorter are no halves of "
            "longer ones.",
            cells=tuple(cells),
            x="epochs",
            panels="backbone",
            compared=SIDE,
        )
    ]


def _backbone(text: str, base: Config) -> dict[str, Any]:
    """Return the settings of `resnet18*0.25`, which is a network and its width."""
    name, _, width = text.partition("*")
    if text == "own":
        return {"backbone": base.backbone.name, "width": base.backbone.width}
    return {"backbone": name, "width": positive("width", width or "1")}
