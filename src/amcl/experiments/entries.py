"""What the paper shows, by name: each table and figure, and the runs behind it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from amcl.experiments.cases import Part
from amcl.experiments.scales import Scale

Make = Callable[[Scale, tuple[str, ...]], list[Part]]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A table or figure of the paper."""

    name: str
    title: str
    sets: tuple[str, ...] = ()
    """The data sets that it is of in the paper."""
    make: Make | None = None
    """Its tables, at a scale and on some sets; none where nothing is trained."""
    shows: Literal["runs", "cost", "designs"] = "runs"
    """cost and designs: what networks cost, which no run is needed for."""
    histograms: bool = False
    """Whether it shows how similarities are spread."""
    unavailable: str = ""
    """Why it cannot be had yet."""
