"""Rows of numbers: means over the runs of a group, and differences paired by seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from amcl.evaluation.compare.groups import Group
from amcl.evaluation.compare.parts import Part
from amcl.evaluation.results import SHARES
from amcl.intervals import (
    Interval,
    accuracy_difference,
    accuracy_interval,
    excludes_zero,
    mean_interval,
)


@dataclass(frozen=True)
class Cell:
    """One number of a group: a value for each of its runs, None where a run has none."""

    values: tuple[float | None, ...]
    images: int | None = None
    """How many images each value is an accuracy on; None where it is no accuracy."""

    @property
    def found(self) -> list[float]:
        return [value for value in self.values if value is not None]

    @property
    def mean(self) -> float | None:
        return fmean(self.found) if self.found else None

    @property
    def std(self) -> float | None:
        """The sample's standard deviation; None for fewer than two runs."""
        return stdev(self.found) if len(self.found) > 1 else None

    @property
    def interval(self) -> Interval | None:
        """The 95 % binomial interval of the accuracy of one run; None for several runs."""
        if self.images is None or len(self.found) != 1:
            return None
        return accuracy_interval(self.found[0], self.images)

    def to_dict(self) -> dict[str, Any]:
        values, n = list(self.values), len(self.found)
        shown = {"values": values, "mean": self.mean, "std": self.std, "n": n}
        return shown | {"interval": self.interval and list(self.interval)}


@dataclass(frozen=True)
class Difference:
    """What a group has more than the baseline, seed by seed.

    >>> difference = Difference({0: 0.01, 1: 0.03})
    >>> round(difference.mean, 4), [round(end, 4) for end in difference.interval]
    (0.02, [-0.1071, 0.1471])
    """

    by_seed: dict[int, float]
    of_images: Interval | None = None
    """The 95 % interval of the difference of two accuracies on their images, for one seed."""

    @property
    def told_apart(self) -> bool:
        """Whether the groups differ by more than noise: over seeds, never by one of them."""
        return excludes_zero(self.interval)

    @property
    def verdict(self) -> str:
        """In words: what the difference says."""
        if len(self.by_seed) > 1:
            return "" if self.told_apart else "cannot be told apart"
        within = self.of_images is not None and not excludes_zero(self.of_images)
        return "cannot be told apart" if within else "one seed: no evidence"

    @property
    def mean(self) -> float:
        return fmean(self.by_seed.values())

    @property
    def std(self) -> float | None:
        """Of the differences; None for one seed."""
        return stdev(self.by_seed.values()) if len(self.by_seed) > 1 else None

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of Student's t for the mean; None for one seed."""
        return mean_interval(list(self.by_seed.values()))

    def to_dict(self) -> dict[str, Any]:
        return {
            "by_seed": {str(seed): value for seed, value in self.by_seed.items()},
            "mean": self.mean,
            "std": self.std,
            "interval": self.interval and list(self.interval),
            "n": len(self.by_seed),
            "verdict": self.verdict or "told apart",
        }


@dataclass(frozen=True, kw_only=True)
class Row:
    """One metric of one protocol, under the same settings on the same images."""

    label: str
    protocol: str
    data: str
    split: str
    metric: str
    model: str | None
    """The checkpoint that was judged; None for the model of the run."""
    settings: dict[str, Any]
    images: dict[str, Any]
    """Counts and SHA-256; of held-out images one for each seed."""
    cells: tuple[Cell, ...]
    differences: tuple[Difference | None, ...]
    """From the first group; None for that, and where no seed has both numbers."""
    best: int | None = None
    """The group of the highest accuracy, if it is told apart from all others; else None."""

    @property
    def share(self) -> bool:
        """Whether the numbers are shares from 0 to 1, shown in per cent."""
        return self.metric.startswith(SHARES)

    def to_dict(self) -> dict[str, Any]:
        about = ("label", "protocol", "data", "split", "metric", "model", "settings", "images")
        return {name: getattr(self, name) for name in (*about, "share")} | {
            "cells": [cell.to_dict() for cell in self.cells],
            "differences": [d and d.to_dict() for d in self.differences],
            "best": self.best,
        }


def make_row(groups: Sequence[Group], part: Part, metric: str) -> Row:
    """One metric of a part, a cell for each group; the baseline is the first of these."""
    images = images_of(part, metric)
    cells = tuple(Cell(tuple(_value(part, r, metric) for r in g.runs), images) for g in groups)
    numbers = [_pairable(group, cell) for group, cell in zip(groups, cells, strict=True)]
    first = part.entries[0].result
    drawn = {"sha256": {str(entry.seed): entry.sha256 for entry in part.entries}}
    return Row(
        label=f"{part.label} {metric}",
        protocol=first.protocol,
        data=first.data,
        split=first.split,
        metric=metric,
        model=first.checkpoint or None,
        settings=first.settings,
        images=first.images if part.same_images else first.images | drawn,
        cells=cells,
        differences=(None, *(_difference(other, numbers[0], images) for other in numbers[1:])),
        best=_best(cells, numbers) if is_accuracy(metric) else None,
    )


def is_accuracy(metric: str) -> bool:
    """Whether a metric is an accuracy on images that were not trained on: the higher, the better.

    >>> is_accuracy("top1"), is_accuracy("train_top1"), is_accuracy("overlap")
    (True, False, False)
    """
    return metric.startswith(SHARES) and not metric.startswith("train")


def images_of(part: Part, metric: str) -> int | None:
    """How many images an accuracy of the part was measured on; None for what is no accuracy."""
    first = part.entries[0].result
    count = first.images.get(first.split)
    known = is_accuracy(metric) and isinstance(count, int) and count > 0
    return count if known else None


def _best(cells: Sequence[Cell], numbers: Sequence[dict[int, float]]) -> int | None:
    """The group whose mean is the highest and told apart from that of every other group."""
    means = {i: cell.mean for i, cell in enumerate(cells) if cell.mean is not None}
    if len(means) < 2:
        return None
    best = max(means, key=lambda i: means[i])
    others = [_difference(numbers[best], numbers[i], None) for i in means if i != best]
    return best if all(d is not None and d.told_apart for d in others) else None


def notes_of_rows(rows: Sequence[Row]) -> list[str]:
    """A warning where a difference is of one seed."""
    differences = [d for row in rows for d in row.differences if d is not None]
    if any(len(difference.by_seed) == 1 for difference in differences):
        return ["A difference of one seed (n=1) is no evidence that settings differ."]
    return []


def _value(part: Part, run: Path, metric: str) -> float | None:
    """A run's number: the mean over seeds of the protocol, the newest of each."""
    results = [entry.result for entry in part.entries if entry.run == run]
    by_seed = {r.seed: r.metrics[metric] for r in results if metric in r.metrics}
    return fmean(by_seed.values()) if by_seed else None


def _pairable(group: Group, cell: Cell) -> dict[int, float]:
    """The numbers of seeds that no other run of the group has."""
    values = zip(group.seeds, cell.values, strict=True)
    return {s: value for s, value in values if value is not None and s in group.pairable}


def _difference(
    one: dict[int, float], other: dict[int, float], images: int | None
) -> Difference | None:
    common = sorted(one.keys() & other.keys())
    if not common:
        return None
    of_images = None
    if len(common) == 1 and images is not None:
        of_images = accuracy_difference(one[common[0]], other[common[0]], images)
    return Difference({seed: one[seed] - other[seed] for seed in common}, of_images)
