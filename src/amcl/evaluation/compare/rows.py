"""Rows of numbers: means over the runs of a group, and differences paired by seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from amcl.evaluation.compare.groups import Group
from amcl.evaluation.compare.parts import Part
from amcl.evaluation.results import SHARES

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Cell:
    """One number of a group: a value for each of its runs, None where a run has none."""

    values: tuple[float | None, ...]

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

    def to_dict(self) -> dict[str, Any]:
        values, n = list(self.values), len(self.found)
        return {"values": values, "mean": self.mean, "std": self.std, "n": n}


@dataclass(frozen=True)
class Difference:
    """What a group has more than the baseline, seed by seed.

    >>> difference = Difference({0: 0.01, 1: 0.03})
    >>> round(difference.mean, 4), [round(end, 4) for end in difference.interval]
    (0.02, [-0.1071, 0.1471])
    """

    by_seed: dict[int, float]

    @property
    def mean(self) -> float:
        return fmean(self.by_seed.values())

    @property
    def std(self) -> float | None:
        """Of the differences; None for one seed."""
        return stdev(self.by_seed.values()) if len(self.by_seed) > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of Student's t for the mean; None for one seed."""
        from scipy.special import stdtrit  # here: pre-training needs none of it

        if self.std is None:
            return None
        n = len(self.by_seed)
        reach = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * self.std / math.sqrt(n)
        return self.mean - reach, self.mean + reach

    def to_dict(self) -> dict[str, Any]:
        return {
            "by_seed": {str(seed): value for seed, value in self.by_seed.items()},
            "mean": self.mean,
            "std": self.std,
            "interval": self.interval and list(self.interval),
            "n": len(self.by_seed),
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

    @property
    def share(self) -> bool:
        """Whether the numbers are shares from 0 to 1, shown in per cent."""
        return self.metric.startswith(SHARES)

    def to_dict(self) -> dict[str, Any]:
        about = ("label", "protocol", "data", "split", "metric", "model", "settings", "images")
        return {name: getattr(self, name) for name in (*about, "share")} | {
            "cells": [cell.to_dict() for cell in self.cells],
            "differences": [d and d.to_dict() for d in self.differences],
        }


def make_row(groups: Sequence[Group], part: Part, metric: str) -> Row:
    """One metric of a part, a cell for each group; the baseline is the first of these."""
    cells = tuple(Cell(tuple(_value(part, run, metric) for run in g.runs)) for g in groups)
    baseline, *others = map(_pairable, groups, cells)
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
        differences=(None, *(_difference(other, baseline) for other in others)),
    )


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


def _difference(one: dict[int, float], other: dict[int, float]) -> Difference | None:
    common = sorted(one.keys() & other.keys())
    return Difference({seed: one[seed] - other[seed] for seed in common}) if common else None
