"""What is compared: places in a table, each filled by a number of some runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from amcl.evaluation import PROTOCOLS, Protocol
from amcl.recipes import as_published, with_amcl
from amcl.training import Config

Source = Protocol | Literal["pairs", "course"]

NONE = "–"
"""A label of what is the same all along an axis: a dashed line."""
SIDE, BASELINE, AMCL = "side", "baseline", "+ AMCL"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of a run: of a protocol, of its pairs of views, or of its course."""

    name: str
    source: Source
    key: str
    share: bool = True
    """Shown in per cent."""

    def spelled(self, value: float, sign: bool = False) -> str:
        """The number for people, without its unit.

        >>> KNN.spelled(0.5), KNN.spelled(0.012, sign=True), LOSS.spelled(2.34567)
        ('50.0', '+1.2', '2.346')
        """
        plus = "+" if sign else ""
        return f"{100 * value:{plus}.1f}" if self.share else f"{value:{plus}.4g}"

    @property
    def label(self) -> str:
        """For an axis."""
        return f"{self.name} (%)" if self.share else self.name

    @property
    def protocol(self) -> Protocol | None:
        """The protocol that finds it, if one does."""
        return next((p for p in PROTOCOLS if p == self.source), None)


KNN = Metric(name="kNN accuracy", source="knn", key="top1")
LINEAR = Metric(name="linear probe", source="linear", key="top1")
FINETUNED = Metric(name="accuracy after fine-tuning", source="finetune", key="top1")
AUROC = Metric(name="AUROC of pairs", source="unlabeled", key="auroc", share=False)
LOSS = Metric(name="loss of the last epoch", source="course", key="loss", share=False)
FIRST_LOSS = Metric(name="loss of the first epoch", source="course", key="first_loss", share=False)


def few_labels(count: str) -> Metric:
    """Accuracy with so many labels a class."""
    return Metric(name="accuracy with few labels", source="few-labels", key=f"n={count}")


def of_pairs(key: str, name: str) -> Metric:
    """A number of `amcl.analysis` on pairs of views."""
    return Metric(name=name, source="pairs", key=key, share=False)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A place in a table: how it is called, which run fills it, by which number."""

    labels: Mapping[str, str]
    config: Config
    metric: Metric
    paper: float | None = None
    """What the paper has there."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A table with its picture."""

    name: str
    title: str
    told: str
    """How to read it."""
    cases: tuple[Case, ...]
    columns: str
    """The label that runs along the columns; all others make rows."""
    x: str
    """The label along the picture's horizontal axis."""
    series: str | None = None
    """The label with a color for each of its values."""
    panels: str | None = None
    """The label with a panel for each of its values."""
    ordered: bool = True
    """Whether the values along x have an order, and so a line through them a meaning."""
    compared: str | None = None
    """The label whose first value all others are compared with: the gain."""
    notes: tuple[str, ...] = ()

    def with_paper(self, numbers: Mapping[tuple[str, ...], float]) -> "Part":
        """The same with the paper's numbers, by the labels' values in their order."""
        cases = [replace(c, paper=numbers.get(tuple(c.labels.values()))) for c in self.cases]
        return replace(self, cases=tuple(cases))

    def labels(self, name: str) -> list[str]:
        """The values of a label, in their order."""
        return list(dict.fromkeys(c.labels[name] for c in self.cases if name in c.labels))


def sides(base: Config) -> dict[str, Config]:
    """A method as published and with AMCL."""
    return {BASELINE: as_published(base), AMCL: with_amcl(base)}
