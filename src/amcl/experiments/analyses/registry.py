"""The analyses by name. A file of this package declares one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amcl.config import Config
from amcl.experiments.specs import KNN, CellSpec, Change, Metric, TableSpec, along, dashed, sides

Make = Callable[[Config, Sequence[str], Metric], list[TableSpec]]
Configs = Callable[[Config], Mapping[str, Config]]


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """A question, and the runs that answer it.

    Args:
        name: Name on the command line.
        question: The question in words.
        values: Values to try by default.
        few: Values at small scales.
        make: Function that returns the tables for a configuration, values and a metric.
        own_metric: Whether it has metrics of its own, whatever --metric says.
    """

    name: str
    question: str
    values: tuple[str, ...]
    few: tuple[str, ...]
    make: Make
    own_metric: bool = False

    def specs(
        self,
        base: Config,
        values: Sequence[str] = (),
        metric: Metric = KNN,
        few: bool = False,
    ) -> list[TableSpec]:
        """Return the tables that answer the question for runs like `base`."""
        return self.make(base, tuple(values) or (self.few if few else self.values), metric)


ANALYSES: dict[str, Analysis] = {}


def register(analysis: Analysis) -> None:
    """Add an analysis to those of the command line."""
    ANALYSES[analysis.name] = analysis


def analysis(name: str, question: str, **about: Any) -> Callable[[Make], Make]:
    """Register the function below as the analysis of this name; see `Analysis`."""

    def decorate(make: Make) -> Make:
        register(Analysis(name=name, question=question, make=make, **about))
        return make

    return decorate


def axis(
    label: str,
    change: Change,
    *,
    configs: Configs = sides,
    references: Configs = lambda base: {},
    **spec: Any,
) -> Make:
    """Return a function that specifies a table of runs along one axis.

    Args:
        label: The label of the axis.
        change: The setting that takes the values, or a function that applies one.
        configs: The runs of each value, by side; the default is the method as published and with
            AMCL.
        references: Runs that are the same all along the axis: dashed lines.
        spec: Title and other fields of `TableSpec`.
    """

    def make(base: Config, values: Sequence[str], metric: Metric) -> list[TableSpec]:
        cells: tuple[CellSpec, ...] = dashed(label, references(base), metric)
        cells += along(label, values, configs(base), metric, change)
        return [TableSpec(cells=cells, x=label, **spec)]

    return make
