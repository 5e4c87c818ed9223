"""What became of each trial of a study."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from amcl.sweep.outcome import ENDINGS, Ending

__all__ = ["ENDINGS", "Ending", "Record", "best_of", "complete"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One trial: where it was in the space, and how it ended."""

    number: int
    ending: Ending
    point: dict[str, Any]
    """Values by field, as far as they have an effect: κ only with a top-κ form."""
    value: float | None = None
    """The objective at the last epoch, of complete trials only."""
    reason: str = ""
    """Why it ended otherwise."""
    probes: dict[int, float] = field(default_factory=dict)
    """What was watched, by epoch."""
    run: str = ""
    """Its run folder, below the study's."""


def best_of(records: Sequence[Record]) -> Record | None:
    """The complete trial of the greatest value; the first of equals.

    >>> found = [
    ...     Record(number=i, ending="complete", point={}, value=v) for i, v in enumerate([1, 3])
    ... ]
    >>> best_of(found).number
    1
    """
    return max(complete(records), key=lambda r: (r.value, -r.number), default=None)


def complete(records: Sequence[Record]) -> list[Record]:
    """Those that came to their end with a finite value."""
    return [r for r in records if r.value is not None and math.isfinite(r.value)]
