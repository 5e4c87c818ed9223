"""The analyses by name. A file of this package declares one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amcl.config import Config
from amcl.experiments.specs import KNN, Change, Metric, TableSpec, along, dashed, sides

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


def analysis(name: str, question: str, **fields: Any) -> Callable[[Make], Make]:
    """Register the function below as the analysis of this name.

    Args:
        name: Name on the command line.
        question: The question in words.
        fields: Other fields of `Analysis`.

    Returns:
        A decorator for the function that makes the tables of the analysis.

    Example:
        >>> @analysis("decay", "how much weight decay?", values=("0", "0.1"), few=("0",))
        ... def decay(base, values, metric):
        ...     cells = along("decay", values, sides(base), metric, "weight_decay")
        ...     return [
        ...         TableSpec(name="decay", title="Decay", how_to_read="", cells=cells, x="decay")
        ...     ]
        >>> (table,) = ANALYSES["decay"].specs(Config())
        >>> len(table.cells)  # two values, each as published and with AMCL
        4
        >>> del ANALYSES["decay"]  # it was for this example only
    """

    def register(make: Make) -> Make:
        ANALYSES[name] = Analysis(name=name, question=question, make=make, **fields)
        return make

    return register


def axis_analysis(
    name: str,
    question: str,
    *,
    values: tuple[str, ...],
    few: tuple[str, ...],
    label: str,
    change: Change,
    configs: Configs = sides,
    references: Configs = lambda base: {},
    **spec: Any,
) -> None:
    """Register an analysis with one table, of runs along one axis.

    Args:
        name: Name on the command line, and of the files of the table.
        question: The question in words.
        values: Values to try by default.
        few: Values at small scales.
        label: The label of the axis.
        change: The setting that takes the values, or a function that applies one.
        configs: Function that returns the runs of each value, by side; the default is the method as
            published and with AMCL.
        references: Function that returns runs that are the same all along the axis: dashed lines.
        spec: Title and other fields of `TableSpec`.
    """

    @analysis(name, question, values=values, few=few)
    def make(base: Config, values: Sequence[str], metric: Metric) -> list[TableSpec]:
        cells = dashed(label, references(base), metric)
        cells += along(label, values, configs(base), metric, change)
        return [TableSpec(name=name, cells=cells, x=label, **spec)]
