"""What a study says: which trials are level with the best, and which settings to train with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amcl.results.intervals import (
    accuracy_difference,
    accuracy_interval,
    excludes_zero,
    standard_error,
)
from amcl.search.objective import LABELS, Objective, spelled_value
from amcl.search.records import Record, best_of, complete
from amcl.search.space import Choice, Range, Space
from amcl.search.study import Definition
from amcl.sweep.fields import value_of
from amcl.training import Config


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The trials that count, and the one whose settings are written to `best.toml`."""

    objective: Objective
    images: int | None
    """How many validation images the objective is an accuracy on; None: it is no accuracy."""
    best: Record
    """The trial of the highest value."""
    tied: tuple[Record, ...]
    """The trials that cannot be told apart from it, itself among them, from the highest down."""
    chosen: Record
    """Of the trials within one standard error of the best, the one that changes the least."""

    def sentences(self) -> list[str]:
        """What to know before training with the chosen settings."""
        if self.images is None:
            return [self._highest(), *self._choice()]
        low, high = accuracy_interval(self.best.value or 0.0, self.images)
        return [
            f"{self._highest()} on {self.images:,} validation images, with a 95 % binomial "
            f"interval of {100 * low:.1f} to {100 * high:.1f} %; one image is "
            f"{100 / self.images:.2g} points.",
            *self._ties(),
            *self._choice(),
        ]

    def _highest(self) -> str:
        value = spelled_value(self.objective, self.best.value or 0.0)
        stop = "." if self.images is None else ""
        return f"Trial {self.best.number} has the highest {LABELS[self.objective]}, {value}{stop}"

    def _ties(self) -> list[str]:
        others = [str(r.number) for r in self.tied if r is not self.best]
        if not others:
            return ["All other complete trials can be told apart from it."]
        which = f"trial{'s' * (len(others) > 1)} {', '.join(others)}"
        return [
            f"It cannot be told apart from {len(others)} other{'s' * (len(others) > 1)}: {which} "
            "(the 95 % interval of the difference includes 0)."
        ]

    def _choice(self) -> list[str]:
        if self.chosen is self.best:
            return []
        within = "equals it" if self.images is None else "lies within one standard error of it"
        return [
            f"Trial {self.chosen.number} is chosen: it {within}, and of such trials its settings "
            "are the nearest to those that the study started from."
        ]


def verdict_of(
    definition: Definition, records: Sequence[Record], images: int | None
) -> Verdict | None:
    """What the complete trials say; None where there is none.

    `images`: how many the objective is an accuracy on. Chosen is, as by the one-standard-error
    rule, the trial that changes the least among those within one standard error of the best, or
    within one image where that is more. For what is no accuracy, only equal values are a tie.
    """
    best = best_of(records)
    if best is None or best.value is None:
        return None
    ranked = sorted(complete(records), key=lambda r: (-(r.value or 0.0), r.number))
    if images is None:
        near = tied = [r for r in ranked if r.value == best.value]
    else:
        noise = max(standard_error(best.value, images), 1 / images)
        near = [r for r in ranked if best.value - (r.value or 0.0) <= noise * (1 + 1e-9)]
        tied = [
            r
            for r in ranked
            if not excludes_zero(accuracy_difference(best.value, r.value or 0.0, images))
        ]
    chosen = min(near, key=lambda r: distance(definition.config, definition.space, r.point))
    return Verdict(
        objective=definition.objective,
        images=images,
        best=best,
        tied=tuple(tied),
        chosen=chosen,
    )


def distance(config: Config, space: Space, point: dict[str, Any]) -> float:
    """How far a point is from the settings of the configuration, as the mean over its fields.

    A range is 1 wide, on its own scale; another choice is 1 away.
    """
    parts = [_apart(space[name], value_of(config, name), value) for name, value in point.items()]
    return sum(parts) / len(parts) if parts else 0.0


def _apart(axis: Range | Choice, start: Any, value: Any) -> float:
    if isinstance(axis, Choice):
        return float(axis.plain.index(value) not in _places(axis, start))
    if not isinstance(start, int | float) or (axis.log and start <= 0):
        return 1.0
    low, high, start, value = (
        math.log(number) if axis.log else number for number in (axis.low, axis.high, start, value)
    )
    return float(min(1.0, abs(value - start) / (high - low)))


def _places(axis: Choice, start: Any) -> list[int]:
    return [i for i, value in enumerate(axis.values) if value == start]
