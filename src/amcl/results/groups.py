"""Groups of runs that differ in their seeds alone: mean, spread, and differences paired by seed."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, stdev
from typing import Any

from amcl.results.formatting import format_number, format_spread
from amcl.results.intervals import (
    Interval,
    accuracy_difference,
    accuracy_interval,
    excludes_zero,
    mean_interval,
)
from amcl.results.record import Record, Status

SEED = "seed"
MEASURED: tuple[Status, ...] = ("complete", "collapsed")
"""Statuses of runs whose metrics count; those of other runs are of a run that was cut off."""
LEVEL = "cannot be told apart"
ONE_SEED = "one seed: no evidence"


@dataclass(frozen=True)
class Measurement:
    """One metric of the runs of a group.

    Args:
        values: A number for each run, None where a run has none.
        seeds: The seeds of these runs.
        images: Number of images that each value is an accuracy on; None if it is no accuracy.

    Example:
        >>> base = Measurement.of({0: 0.5, 1: 0.52})
        >>> base.mean, round(base.std, 3)
        (0.51, 0.014)
        >>> round(Measurement.of({0: 0.6, 2: 0.4}).minus(base).mean, 3)
        0.1
    """

    values: tuple[float | None, ...]
    seeds: tuple[int | None, ...]
    images: int | None = None

    @staticmethod
    def of(by_seed: Mapping[int, float], images: int | None = None) -> "Measurement":
        """Return the measurement of one run for each seed."""
        return Measurement(tuple(by_seed.values()), tuple(by_seed), images)

    @property
    def numbers(self) -> list[float]:
        """Values without those that are missing."""
        return [value for value in self.values if value is not None]

    @property
    def mean(self) -> float | None:
        """Mean over runs; None without any."""
        return fmean(self.numbers) if self.numbers else None

    @property
    def std(self) -> float | None:
        """Standard deviation over runs; None for fewer than two."""
        return stdev(self.numbers) if len(self.numbers) > 1 else None

    @property
    def interval(self) -> Interval | None:
        """95% interval: of one accuracy by its images, of several runs by Student's t."""
        if len(self.numbers) == 1 and self.images is not None:
            return accuracy_interval(self.numbers[0], self.images)
        return mean_interval(self.numbers)

    @property
    def by_seed(self) -> dict[int, float]:
        """Values of the seeds that only one run has, so that they can be paired."""
        counts = Counter(self.seeds)
        pairs = zip(self.seeds, self.values, strict=True)
        return {s: v for s, v in pairs if s is not None and v is not None and counts[s] == 1}

    def format(self, share: bool, unit: str = "") -> str:
        """Return mean ± standard deviation; for one run, its number and its interval.

        Args:
            share: Whether the numbers are shares from 0 to 1, which are shown in percent.
            unit: Unit behind the numbers.

        Example:
            >>> Measurement.of({0: 0.5, 1: 0.52}).format(share=True)
            '51.0 ± 1.4'
            >>> Measurement.of({0: 0.5}, images=100).format(share=True, unit="%")
            '50.0% [40.4, 59.6]'
        """
        text = format_spread(self.mean, self.std, share)
        if self.mean is None:
            return text
        if self.std is not None or self.interval is None:
            return text + unit
        low, high = (format_number(end, share) for end in self.interval)
        return f"{text}{unit} [{low}, {high}]"

    def minus(self, other: "Measurement") -> "Difference | None":
        """Return the difference, seed by seed; None where no seed has both numbers."""
        ours = self.by_seed
        theirs = other.by_seed
        seeds = sorted(ours.keys() & theirs.keys())
        if not seeds:
            return None
        of_images = None
        if len(seeds) == 1 and self.images is not None:
            of_images = accuracy_difference(ours[seeds[0]], theirs[seeds[0]], self.images)
        differences = tuple(ours[seed] - theirs[seed] for seed in seeds)
        return Difference(differences, tuple(seeds), of_images=of_images)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "values": list(self.values),
            "mean": self.mean,
            "std": self.std,
            "n": len(self.numbers),
            "interval": self.interval and list(self.interval),
        }


@dataclass(frozen=True)
class Difference(Measurement):
    """Difference between two groups of runs, seed by seed.

    Args:
        values: The difference of the runs of each seed.
        seeds: The seeds.
        of_images: For one seed, the 95% interval of the difference of two accuracies by the number
            of their images.

    Example:
        >>> difference = Difference((0.01, 0.03), (0, 1))
        >>> round(difference.mean, 4), [round(end, 4) for end in difference.interval]
        (0.02, [-0.1071, 0.1471])
        >>> difference.verdict
        'cannot be told apart'
    """

    of_images: Interval | None = None

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return fmean(self.numbers)

    @property
    def distinguishable(self) -> bool:
        """True if the groups differ by more than noise over seeds; never true for one seed."""
        return excludes_zero(self.interval)

    @property
    def verdict(self) -> str:
        """Reason why the difference is no evidence; empty for distinguishable groups."""
        if len(self.seeds) > 1:
            return "" if self.distinguishable else LEVEL
        within_noise = self.of_images is not None and not excludes_zero(self.of_images)
        return LEVEL if within_noise else ONE_SEED

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        statistics = super().to_dict()
        del statistics["values"]
        by_seed = {str(seed): value for seed, value in self.by_seed.items()}
        return {"by_seed": by_seed, **statistics, "verdict": self.verdict or "told apart"}


@dataclass(frozen=True)
class Group:
    """Records that differ in their seeds alone.

    Args:
        records: The runs.

    Example:
        >>> group = Group((Record(name="a", seed=0, metrics={"top1": 0.5}), Record(name="b")))
        >>> group.measurement("top1").mean, group.count
        (0.5, '2')
    """

    records: tuple[Record, ...]

    @property
    def values(self) -> dict[str, Any]:
        """Settings that the records have in common, by the names of options."""
        return {name: v for name, v in self.records[0].values.items() if name != SEED}

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """Seed of each record."""
        return tuple(record.seed for record in self.records)

    @property
    def count(self) -> str:
        """Number of runs, and of those that are not complete."""
        counts = Counter(r.status for r in self.records if r.status != "complete")
        return ", ".join([str(len(self.records)), *(f"{n} {s}" for s, n in counts.items())])

    def measurement(self, metric: str) -> Measurement:
        """Return a metric of the runs whose metrics count."""
        runs = [r for r in self.records if r.status in MEASURED]
        return Measurement(tuple(r.metrics.get(metric) for r in runs), tuple(r.seed for r in runs))


def group_by_seed(
    records: Iterable[Record], key: Callable[[Record], Mapping[str, Any]] | None = None
) -> list[Group]:
    """Return groups of records that differ in their seeds alone, in the order of the records.

    Args:
        records: The runs.
        key: Function that returns the settings that distinguish groups; the default is all of
            `Record.values` but the seed.

    Returns:
        The groups.

    Example:
        >>> runs = [
        ...     Record(name=f"{t},{s}", values={"tau": t, "seed": s}) for t in "12" for s in "01"
        ... ]
        >>> [(group.values, len(group.records)) for group in group_by_seed(runs)]
        [({'tau': '1'}, 2), ({'tau': '2'}, 2)]
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        common = Group((record,)).values if key is None else key(record)
        groups.setdefault(json.dumps(common, sort_keys=True, default=str), []).append(record)
    return [Group(tuple(members)) for members in groups.values()]


def indistinguishable(measurements: Sequence[Measurement]) -> bool:
    """Return True if no two of the measurements are distinguishable."""
    differences = [first.minus(second) for first, second in combinations(measurements, 2)]
    return all(difference.verdict for difference in differences if difference is not None)
