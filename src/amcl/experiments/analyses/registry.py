"""The analyses by name. A file of this package registers one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from amcl.experiments.cases import KNN, Metric, Part
from amcl.training import Config

Make = Callable[[Config, Sequence[str], Metric], list[Part]]


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


def analysis(
    name: str,
    question: str,
    *,
    values: tuple[str, ...],
    few: tuple[str, ...],
    own_metric: bool = False,
) -> Callable[[Make], Make]:
    """Register the function below as the analysis of this name; see `Analysis`."""

    def register(make: Make) -> Make:
        ANALYSES[name] = Analysis(
            name=name, question=question, values=values, few=few, make=make, own_metric=own_metric
        )
        return make

    return register
