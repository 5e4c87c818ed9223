"""The paper's tables and figures by name. A decorated function declares one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from amcl.config import Config
from amcl.experiments.analyses import ANALYSES
from amcl.experiments.page import Topic
from amcl.experiments.scales import Scale
from amcl.experiments.specs import LINEAR, Metric, TableSpec
from amcl.results import Table

Make = Callable[[Scale, tuple[str, ...]], list[TableSpec]]
Count = Callable[[Scale], tuple[str, Topic, Table]]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A table or figure of the paper.

    Args:
        name: Name on the command line.
        title: Its subject.
        sets: The data sets that it is of in the paper.
        make: Function that returns its tables at a scale and on some sets; None without runs.
        count: Function for an entry without runs that returns the networks whose cost is counted,
            the section of the page and its numbers.
        histograms: Whether it shows histograms of similarities.
        detection: Name of the set that detectors are trained on, if it has some.
    """

    name: str
    title: str
    sets: tuple[str, ...] = ()
    make: Make | None = None
    count: Count | None = None
    histograms: bool = False
    detection: str = ""


ENTRIES: dict[str, Entry] = {}


def entry(
    name: str, title: str, *sets: str, histograms: bool = False, detection: str = ""
) -> Callable[[Make], Make]:
    """Register the function below as the entry of this name; see `Entry`."""

    def register(make: Make) -> Make:
        ENTRIES[name] = Entry(
            name=name,
            title=title,
            sets=sets,
            make=make,
            histograms=histograms,
            detection=detection,
        )
        return make

    return register


def analyze(scale: Scale, name: str, base: Config, metric: Metric = LINEAR) -> list[TableSpec]:
    """Return the tables of an analysis at a scale."""
    return ANALYSES[name].specs(base, metric=metric, few=scale.few)


def entry_of_analyses(
    name: str, title: str, data: str, *analyses: str, metric: Metric = LINEAR
) -> None:
    """Register an entry that is made of analyses of SimCLR on a data set."""

    @entry(name, title, data)
    def make(scale: Scale, sets: tuple[str, ...]) -> list[TableSpec]:
        base = scale.config(sets[0], "simclr")
        return [spec for each in analyses for spec in analyze(scale, each, base, metric)]


def with_note_on_sets(spec: TableSpec, sets: Sequence[str], published: Sequence[str]) -> TableSpec:
    """Return the table, with a note if the paper's numbers are of another data set."""
    if all(name in published for name in sets):
        return spec
    paper = ", ".join(published)
    return spec.with_note(
        f"The paper's numbers are of {paper}; the runs here are on {', '.join(sets)}."
    )
