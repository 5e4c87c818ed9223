"""The verdict of a study: trials that are level with the best, and settings to train with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amcl.config import Config
from amcl.config.fields import value_of
from amcl.results import Record
from amcl.results.intervals import (
    accuracy_difference,
    accuracy_interval,
    excludes_zero,
    standard_error,
)
from amcl.search.folder import Definition
from amcl.search.objective import LABELS, Objective, format_score, score
from amcl.search.space import Choice, Range, Space


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The trials that count, and the one whose settings are written to `best.toml`."""

    objective: Objective
    images: int | None
    """Number of validation images that the objective is an accuracy on; None: it is no accuracy."""
    best: Record
    """The trial of the highest value."""
    tied: tuple[Record, ...]
    """The trials that cannot be told apart from it, itself among them, from the highest down."""
    chosen: Record
    """Of the trials within one standard error of the best, the one that changes the least."""

    def sentences(self) -> list[str]:
        """Return sentences to read before training with the chosen settings."""
        if self.images is None:
            return [self._highest(), *self._choice()]
        low, high = accuracy_interval(self._best_score, self.images)
        return [
            f"{self._highest()} on {self.images:,} validation images, with a 95 % binomial "
            f"interval of {100 * low:.1f} to {100 * high:.1f} %; one image is "
            f"{100 / self.images:.2g} points.",
            *self._ties(),
            *self._choice(),
        ]

    @property
    def _best_score(self) -> float:
        return score(self.objective, self.best) or 0.0

    def _highest(self) -> str:
        value = format_score(self.objective, self._best_score)
        stop = "." if self.images is None else ""
        return (
            f"Trial {int(self.best.name)} has the highest {LABELS[self.objective]}, {value}{stop}"
        )

    def _ties(self) -> list[str]:
        others = [str(int(r.name)) for r in self.tied if r is not self.best]
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
            f"Trial {int(self.chosen.name)} is chosen: it {within}, and of such trials its "
            "settings are the nearest to those that the study started from."
        ]


def complete(objective: Objective, records: Sequence[Record]) -> list[Record]:
    """Return the records of complete trials with a finite value."""
    return [record for record in records if score(objective, record) is not None]


def best_of(objective: Objective, records: Sequence[Record]) -> Record | None:
    """Return the complete trial of the greatest value; the first of equals.

    >>> records = [Record(name=f"{i}", metrics={"effective_rank": v}) for i, v in enumerate([1, 3])]
    >>> best_of("effective-rank", records).name
    '1'
    """
    return next(iter(_ranked(objective, records)), None)


def verdict_of(
    definition: Definition, records: Sequence[Record], images: int | None
) -> Verdict | None:
    """Return the verdict of the complete trials; None where there is none.

    Chosen is, as by the one-standard-error rule, the trial that changes the least among those
    within one standard error of the best, or within one image where that is more. For what is no
    accuracy, only equal values are a tie.

    Args:
        definition: Definition of the study.
        records: Trials that have ended.
        images: Number of images that the objective is an accuracy on; None if it is no accuracy.
    """
    objective = definition.objective
    ranked = _ranked(objective, records)
    if not ranked:
        return None
    values = [score(objective, record) or 0.0 for record in ranked]
    highest = values[0]
    if images is None:
        near = tied = [r for r, v in zip(ranked, values, strict=True) if v == highest]
    else:
        noise = max(standard_error(highest, images), 1 / images) * (1 + 1e-9)
        near = [r for r, v in zip(ranked, values, strict=True) if highest - v <= noise]
        tied = [
            r
            for r, v in zip(ranked, values, strict=True)
            if not excludes_zero(accuracy_difference(highest, v, images))
        ]
    return Verdict(
        objective=objective,
        images=images,
        best=ranked[0],
        tied=tuple(tied),
        chosen=min(near, key=lambda r: distance(definition.config, definition.space, r.values)),
    )


def _ranked(objective: Objective, records: Sequence[Record]) -> list[Record]:
    """Return the complete trials from the greatest value down."""
    return sorted(
        complete(objective, records), key=lambda r: (-(score(objective, r) or 0.0), int(r.name))
    )


def distance(config: Config, space: Space, point: dict[str, Any]) -> float:
    """Return the distance of a point from the settings of the configuration: a mean over fields.

    A range is 1 wide, on its own scale; another choice is 1 away.
    """
    parts = [_apart(space[name], value_of(config, name), value) for name, value in point.items()]
    return sum(parts) / len(parts) if parts else 0.0


def _apart(axis: Range | Choice, start: Any, value: Any) -> float:
    if isinstance(axis, Choice):
        return float(axis.plain.index(value) not in _positions(axis, start))
    if not isinstance(start, int | float) or (axis.log and start <= 0):
        return 1.0
    low, high, start, value = (
        math.log(number) if axis.log else number for number in (axis.low, axis.high, start, value)
    )
    return float(min(1.0, abs(value - start) / (high - low)))


def _positions(axis: Choice, start: Any) -> list[int]:
    return [i for i, value in enumerate(axis.values) if value == start]
