"""Crops that share a part of their area."""

from collections.abc import Sequence

from amcl.config import Config
from amcl.experiments.analyses.registry import analysis
from amcl.experiments.specs import (
    SIDE,
    CellSpec,
    Metric,
    TableSpec,
    along,
    of_pairs,
    sides,
    with_field,
)
from amcl.recipes import with_amcl

_MEASURES = (
    of_pairs("tau_positive", "mean τ⁺"),
    of_pairs("tau_positive_variance", "variance of τ⁺"),
    of_pairs("between_heads_positive", "variance of τ⁺ between heads"),
)


@analysis(
    "overlap",
    "how does it bear crops that share little?",
    values=("0.3", "0.5", "0.7", "0.9"),
    few=("0.3", "0.9"),
)
def overlap(base: Config, values: Sequence[str], metric: Metric) -> list[TableSpec]:
    """Return both sides of a method by the overlap of crops, and temperatures with AMCL."""
    accuracy = TableSpec(
        name="overlap",
        title="Overlap of the crops",
        how_to_read="Two crops of a picture share this part of their area. The less they share, "
        "the less alike are the views of one picture.",
        cells=along("overlap", values, sides(base), metric, "overlap"),
        x="overlap",
        compared=SIDE,
    )
    temperatures = TableSpec(
        name="overlap-temperatures",
        title="Temperatures of positive pairs",
        how_to_read="A high τ⁺ says that the method takes a pair for uncertain; a variance between "
        "heads, that they do not look at the same things. At the end of training, on validation "
        "images; the paper takes the mean over epochs.",
        cells=tuple(
            CellSpec(
                labels={"overlap": value, "measure": measure.name},
                config=with_field(with_amcl(base), "overlap", value),
                metric=measure,
            )
            for value in values
            for measure in _MEASURES
        ),
        columns="measure",
        x="overlap",
        panels="measure",
    )
    return [accuracy, temperatures]
