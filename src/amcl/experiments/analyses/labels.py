"""Accuracy by the number of labels."""

from collections.abc import Mapping, Sequence

from amcl.config import Config
from amcl.experiments.analyses.registry import analysis
from amcl.experiments.specs import SIDE, Metric, TableSpec, along, few_labels, sides


@analysis(
    "labels",
    "what do labels add?",
    values=("10", "20", "50", "100", "200", "500"),
    few=("2", "4"),
    own_metric=True,
)
def labels(base: Config, values: Sequence[str], metric: Metric) -> list[TableSpec]:
    """Return both sides of a method by the number of labels a class."""
    return [by_labels(sides(base), values)]


def by_labels(configs: Mapping[str, Config], values: Sequence[str]) -> TableSpec:
    """Return runs against the number of labels a class."""
    for value in values:
        if not value.isdecimal() or int(value) < 1:
            raise ValueError(f"labels a class are whole numbers, as in 10 50 500; got {value!r}.")
    return TableSpec(
        name="labels",
        title="Number of labels",
        how_to_read="Logistic regression on the features with this number of labeled pictures a "
        "class.",
        cells=along("labels a class", values, configs, few_labels, lambda config, _: config),
        columns=SIDE,
        x="labels a class",
        compared=SIDE,
    )
