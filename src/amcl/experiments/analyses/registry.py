"""The analyses by name. A file of this package declares one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amcl.config import Config
from amcl.experiments.cases import KNN, Case, Change, Metric, Part, along, dashed, sides

Make = Callable[[Config, Sequence[str], Metric], list[Part]]
Configs = Callable[[Config], Mapping[str, Config]]


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """A question, and the runs that answer it.

    Args:
        name: Name on the command line.
        question: The question in words.
        values: Values that are tried, unless others are given.
        few: Values for a quick look.
        make: Returns the tables for a configuration, values and a metric.
        own_metric: Whether it has metrics of its own, whatever --metric says.
    """

    name: str
    question: str
    values: tuple[str, ...]
    few: tuple[str, ...]
    make: Make
    own_metric: bool = False

    def parts(
        self,
        base: Config,
        values: Sequence[str] = (),
        metric: Metric = KNN,
        few: bool = False,
    ) -> list[Part]:
        """Return the tables that answer the question for runs like `base`."""
        return self.make(base, tuple(values) or (self.few if few else self.values), metric)


ANALYSES: dict[str, Analysis] = {}


def register(analysis: Analysis) -> None:
    """Make an analysis known to the command line."""
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
    **part: Any,
) -> Make:
    """Return what makes a table of runs along one axis.

    Args:
        label: The label of the axis.
        change: The setting that takes the values, or a function that applies one.
        configs: The runs of each value, by side; the default is the method as published and with
            AMCL.
        references: Runs that are the same all along the axis: dashed lines.
        part: Title and other fields of `Part`.
    """

    def make(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
        cases: tuple[Case, ...] = dashed(label, references(base), metric)
        cases += along(label, values, configs(base), metric, change)
        return [Part(cases=cases, x=label, **part)]

    return make
