"""The verdict of a study: trials as good as the best, and the settings to train with."""

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
from amcl.search.objective import LABELS, Objective, format_score, ranked, score
from amcl.search.space import Choice, Range, Space


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The best trials, and the one whose settings are written to `best.toml`.

    Args:
        objective: Objective of the study.
        images: Number of images that the objective is an accuracy on; None if it is no accuracy.
        best: The trial of the highest value.
        tied: The trials that are indistinguishable from it, itself included, in descending order.
        chosen: Of the trials within one standard error of the best, the one that changes the least.
    """

    objective: Objective
    images: int | None
    best: Record
    tied: tuple[Record, ...]
    chosen: Record

    def sentences(self) -> list[str]:
        """Return sentences to read before training with the chosen settings."""
        best_score = score(self.objective, self.best) or 0.0
        value = format_score(self.objective, best_score)
        highest = f"Trial {int(self.best.name)} has the highest {LABELS[self.objective]}, {value}"
        if self.images is None:
            return [f"{highest}.", *self._choice()]
        low, high = accuracy_interval(best_score, self.images)
        return [
            f"{highest} on {self.images:,} validation images, with a 95 % binomial interval of "
            f"{100 * low:.1f} to {100 * high:.1f} %; one image is {100 / self.images:.2g} points.",
            self._ties(),
            *self._choice(),
        ]

    def _ties(self) -> str:
        others = [str(int(r.name)) for r in self.tied if r is not self.best]
        if not others:
            return "All other complete trials can be told apart from it."
        s = "s" * (len(others) > 1)
        return (
            f"It cannot be told apart from {len(others)} other{s}: trial{s} {', '.join(others)} "
            "(the 95 % interval of the difference includes 0)."
        )

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
    """Return the complete trial of the highest value; the first of equals.

    >>> records = [Record(name=f"{i}", metrics={"effective_rank": v}) for i, v in enumerate([1, 3])]
    >>> best_of("effective-rank", records).name
    '1'
    """
    return next(iter(ranked(objective, complete(objective, records))), None)


def verdict_of(
    definition: Definition, records: Sequence[Record], images: int | None
) -> Verdict | None:
    """Return the verdict of the complete trials; None where there is none.

    By the one-standard-error rule, the chosen trial is the one that changes the least among those
    within one standard error of the best, or within one image where that is more. For objectives
    that are no accuracies, only equal values are a tie.

    Args:
        definition: Definition of the study.
        records: Trials that have ended.
        images: Number of images that the objective is an accuracy on; None if it is no accuracy.
    """
    objective = definition.objective
    trials = ranked(objective, complete(objective, records))
    if not trials:
        return None
    scored = [(record, score(objective, record) or 0.0) for record in trials]
    highest = scored[0][1]
    if images is None:
        near = tied = [r for r, value in scored if value == highest]
    else:
        noise = max(standard_error(highest, images), 1 / images) * (1 + 1e-9)
        near = [r for r, value in scored if highest - value <= noise]
        differences = [(r, accuracy_difference(highest, value, images)) for r, value in scored]
        tied = [r for r, difference in differences if not excludes_zero(difference)]
    return Verdict(
        objective=objective,
        images=images,
        best=trials[0],
        tied=tuple(tied),
        chosen=min(near, key=lambda r: distance(definition.config, definition.space, r.values)),
    )


def distance(config: Config, space: Space, point: dict[str, Any]) -> float:
    """Return the distance of a point from the settings of the configuration: a mean over fields.

    The ends of a range are 1 apart, on its own scale, and so are two choices.
    """
    distances = [
        _distance(space[name], value_of(config, name), value) for name, value in point.items()
    ]
    return sum(distances) / len(distances) if distances else 0.0


def _distance(axis: Range | Choice, start: Any, value: Any) -> float:
    if isinstance(axis, Choice):
        return float(axis.values[axis.plain.index(value)] != start)
    if not isinstance(start, int | float) or (axis.log and start <= 0):
        return 1.0
    low, high, start, value = (
        math.log(number) if axis.log else number for number in (axis.low, axis.high, start, value)
    )
    return float(min(1.0, abs(value - start) / (high - low)))
