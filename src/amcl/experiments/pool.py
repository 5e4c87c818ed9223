"""A folder of runs that several tables share: each run is known by its settings, and made once."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from amcl.analysis import PairSample, PairSettings, sample_of_run
from amcl.evaluation import Protocol, Protocols
from amcl.evaluation.results import read_results
from amcl.experiments.cases import Case, Part
from amcl.experiments.pairs import pair_numbers
from amcl.files import write_text
from amcl.intervals import (
    Interval,
    accuracy_difference,
    accuracy_interval,
    excludes_zero,
    mean_interval,
)
from amcl.results import Record
from amcl.sweep import Point, SweepFolder, sweep
from amcl.sweep.fields import differing, spelled, value_of, with_values
from amcl.sweep.judge import Split, metrics_of, splits_for
from amcl.sweep.workers import Tell
from amcl.training import Config, HardwareSettings, read_metrics
from amcl.training.hardware import find_accelerator

LEVEL = "cannot be told apart"


@dataclass(frozen=True)
class Number:
    """What the runs of one case came to, seed by seed."""

    values: dict[int, float]
    bad: tuple[str, ...] = ()
    """Reasons of runs that came to nothing, or have collapsed."""
    images: int | None = None
    """How many images each value is an accuracy on; None where it is no accuracy."""
    of_images: Interval | None = None
    """Of a difference for one seed: its 95 % interval by the number of images."""

    @property
    def mean(self) -> float | None:
        """Over seeds."""
        return statistics.fmean(self.values.values()) if self.values else None

    @property
    def std(self) -> float | None:
        """Over seeds; None for one."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None

    @property
    def interval(self) -> Interval | None:
        """95 % of one accuracy by its images, or of the mean over seeds by Student's t."""
        if len(self.values) > 1:
            return mean_interval(list(self.values.values()))
        if self.images is None or not self.values:
            return self.of_images
        return accuracy_interval(self.mean or 0.0, self.images)

    def minus(self, other: "Number") -> "Number":
        """The difference, seed by seed."""
        seeds = [seed for seed in self.values if seed in other.values]
        of_images = None
        if len(seeds) == 1 and self.images is not None:
            first, second = self.values[seeds[0]], other.values[seeds[0]]
            of_images = accuracy_difference(first, second, self.images)
        values = {seed: self.values[seed] - other.values[seed] for seed in seeds}
        return Number(values, of_images=of_images)

    def verdict(self) -> str:
        """Of a difference, in words: whether it is more than noise."""
        if not self.values:
            return ""
        if len(self.values) == 1:
            within = self.of_images is not None and not excludes_zero(self.of_images)
            return LEVEL if within else "one seed: no evidence"
        return "" if excludes_zero(self.interval) else LEVEL


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Where runs are, and how they are judged.

    `base_of`: what a run's settings are told apart from; runs are named by what differs.
    """

    path: Path
    base_of: Callable[[Config], Config]
    settings: Protocols | None = None
    split: Split = "auto"
    pairs: PairSettings
    data_root: str | None = None
    """Where named sets lie now, whatever a run began with."""
    hardware: HardwareSettings = field(default_factory=HardwareSettings)
    samples: dict[Path, PairSample] = field(default_factory=dict)
    """What has been seen of pairs: numbers and pictures are made from the same."""

    def point(self, config: Config, seed: int) -> Point:
        """The run of a configuration and a seed."""
        base = self.base_of(config)
        values = {"data": config.data.name, "method": config.method.name}
        values |= {
            name: spelled(value_of(config, name))
            for name in differing(base, config)
            if name not in (*values, "seed")
        }
        values["seed"] = str(seed)
        return Point(values=values, config=with_values(config, {"seed": seed}))

    def points(self, parts: Sequence[Part], seeds: Sequence[int]) -> list[Point]:
        """All runs that tables need, each once."""
        found: dict[str, Point] = {}
        for point in (self.point(c.config, s) for s in seeds for p in parts for c in p.cases):
            if found.setdefault(point.name, point).config != point.config:
                raise ValueError(
                    f"two different runs would be called {point.name!r}: rename one of the folders "
                    "of images."
                )
        return list(found.values())

    def carry_out(
        self,
        parts: Sequence[Part],
        seeds: Sequence[int],
        *,
        jobs: int = 1,
        again: bool = False,
        tell: Tell = print,
    ) -> dict[str, Record]:
        """Carry out the runs that have not been, and judge them; what each came to, by name."""
        asked = [c.metric.protocol for part in parts for c in part.cases]
        protocols: list[Protocol] = [p for p in dict.fromkeys(asked) if p is not None]
        findings = sweep(
            self.points(parts, seeds),
            self.path,
            jobs=jobs,
            protocols=protocols,
            split=self.split,
            settings=self._protocols(parts),
            wanted={"few-labels": _few_label_keys(parts)},
            again=again,
            others=False,
            tell=tell,
        )
        return {finding.name: finding for finding in findings}

    def _protocols(self, parts: Sequence[Part]) -> Protocols | None:
        """The settings of the protocols, with the numbers of labels that tables ask for."""
        counts = tuple(int(key.removeprefix("n=")) for key in _few_label_keys(parts))
        if not counts:
            return self.settings
        settings = self.settings or Protocols()
        return replace(settings, few_labels=replace(settings.few_labels, per_class=counts))

    def run(self, config: Config, seed: int) -> Path:
        """The folder of a run."""
        return SweepFolder(self.path).run(self.point(config, seed).name)

    def number(self, case: Case, seeds: Sequence[int], findings: dict[str, Record]) -> Number:
        """What fills a case."""
        values, bad = {}, []
        images: int | None = None
        for seed in seeds:
            found = findings.get(self.point(case.config, seed).name)
            if found is None:
                bad.append(f"seed {seed}: another process is at it")
                continue
            if found.status != "complete":
                bad.append(f"seed {seed} {found.status}: {found.reason}")
            if found.status in ("complete", "collapsed"):
                value = self._value(case, found)
                if value is None:
                    bad.append(f"seed {seed}: too few labeled images")
                else:
                    values[seed] = value
                    images = images or self._images(case, found)
        return Number(values, tuple(bad), images)

    def _run(self, found: Record) -> Path:
        return SweepFolder(self.path).run(found.name)

    def _value(self, case: Case, found: Record) -> float | None:
        """The number of a run; None where a set has too few labels for it."""
        metric = case.metric
        if metric.source == "pairs":
            return self._pairs(found)[metric.key]
        if metric.source == "course":
            rows = read_metrics(self._run(found))
            losses: list[float] = [row["loss"] for row in rows if row["kind"] == "epoch"]
            return losses[0 if metric.key == "first_loss" else -1]
        for split in splits_for(metric.source, self.split):
            if metrics := metrics_of(found.metrics, metric.source, split):
                return metrics.get(metric.key)
        return None

    def _images(self, case: Case, found: Record) -> int | None:
        """How many images a run's accuracy is of; None where the metric is no accuracy."""
        metric = case.metric
        if not metric.share:
            return None
        splits = splits_for(metric.source, self.split)  # type: ignore[arg-type]
        for result in read_results(self._run(found)):
            if result.protocol == metric.source and result.split in splits:
                count = result.images.get(result.split)
                return count if isinstance(count, int) else None
        return None

    def _pairs(self, found: Record) -> dict[str, float]:
        """A run's pairs of views in numbers, kept in its folder."""
        run = self._run(found)
        place = run / "analysis" / f"pairs-{self.pairs.images}-{self.pairs.seed}.json"
        if not place.is_file():
            write_text(place, json.dumps(pair_numbers(self.sample(run)), indent=1) + "\n")
        numbers: dict[str, float] = json.loads(place.read_text(encoding="utf-8"))
        return numbers

    def sample(self, run: Path) -> PairSample:
        """What the method of a run sees of pairs of views, here and now."""
        if run not in self.samples:
            device = find_accelerator(self.hardware.accelerator)
            where = {"data_root": self.data_root, "device": device}
            self.samples[run] = sample_of_run(run, self.pairs, **where)
        return self.samples[run]


def _few_label_keys(parts: Sequence[Part]) -> list[str]:
    """The metrics of few labels that tables ask for."""
    metrics = [case.metric for part in parts for case in part.cases]
    return list(dict.fromkeys(m.key for m in metrics if m.source == "few-labels"))
