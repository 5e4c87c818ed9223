"""The paper's tables and figures by name. A decorated function declares one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from amcl.config import Config
from amcl.experiments.analyses import ANALYSES
from amcl.experiments.cases import Metric, Part
from amcl.experiments.page import Topic
from amcl.experiments.scales import Scale
from amcl.results import Table

Make = Callable[[Scale, tuple[str, ...]], list[Part]]


@dataclass(frozen=True)
class Counted:
    """An entry that needs no run: what was counted, its section and its numbers."""

    subtitle: str
    topic: Topic
    numbers: Table


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A table or figure of the paper.

    Args:
        name: Name on the command line.
        title: What it shows.
        sets: The data sets that it is of in the paper.
        make: Returns its tables at a scale and on some sets; None where nothing is trained.
        count: Returns what it shows where nothing is trained.
        histograms: Whether it shows histograms of similarities.
        unavailable: Why it cannot be reproduced yet.
    """

    name: str
    title: str
    sets: tuple[str, ...] = ()
    make: Make | None = None
    count: Callable[[Scale], Counted] | None = None
    histograms: bool = False
    unavailable: str = ""


ENTRIES: dict[str, Entry] = {}


def entry(name: str, title: str, *sets: str, histograms: bool = False) -> Callable[[Make], Make]:
    """Register the function below as the entry of this name; see `Entry`."""

    def register(make: Make) -> Make:
        ENTRIES[name] = Entry(name=name, title=title, sets=sets, make=make, histograms=histograms)
        return make

    return register


def analyze(scale: Scale, name: str, base: Config, metric: Metric) -> list[Part]:
    """Return the tables of an analysis at a scale."""
    return ANALYSES[name].parts(base, metric=metric, few=scale.few)


def elsewhere(part: Part, sets: Sequence[str], published: Sequence[str]) -> Part:
    """Return the part, with a note where the paper's numbers are of another set than the runs."""
    if all(name in published for name in sets):
        return part
    runs, numbers = ", ".join(sets), ", ".join(published)
    return part.with_note(f"The paper's numbers are of {numbers}; the runs here are on {runs}.")
