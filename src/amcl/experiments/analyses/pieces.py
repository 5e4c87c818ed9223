"""What analyses are put together from."""

from collections.abc import Sequence

from amcl.experiments.cases import NONE, SIDE, Case, Metric, Part, sides
from amcl.sweep.fields import value_from, with_values
from amcl.training import Config


def both_sides(
    base: Config,
    field: str,
    values: Sequence[str],
    metric: Metric,
    name: str,
    title: str,
    told: str,
) -> Part:
    """A field along the axis, both sides of a method for each value."""
    cases = [
        Case(labels={name: v, SIDE: side}, config=with_field(config, field, v), metric=metric)
        for v in values
        for side, config in sides(base).items()
    ]
    return Part(
        name=name,
        title=title,
        told=told,
        cases=tuple(cases),
        columns=name,
        x=name,
        series=SIDE,
        compared=SIDE,
    )


def dashed(axis: str, side: str, config: Config, metric: Metric, scheme: str = "") -> Case:
    """A case that is the same all along the axis."""
    panel = {"temperature": scheme} if scheme else {}
    return Case(labels={axis: NONE, SIDE: side, **panel}, config=config, metric=metric)


def with_field(config: Config, field: str, text: str) -> Config:
    """The configuration with a field as it is typed."""
    return with_values(config, {field: value_from(config, field, text)})


def number(name: str, text: str) -> float:
    """A number above 0 as it is typed."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be a number above 0, got {text!r}.")
    return value
