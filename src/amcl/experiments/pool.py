"""A folder of runs that several tables share: each run is known by its settings, and made once."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from amcl.analysis import PairSettings
from amcl.evaluation import Protocol, Protocols
from amcl.experiments.cases import Case, Part
from amcl.experiments.pairs import pair_numbers_of_run
from amcl.sweep import Finding, Point, SweepFolder, sweep
from amcl.sweep.fields import differing, spelled, value_of, with_values
from amcl.sweep.judge import Split
from amcl.sweep.workers import Tell
from amcl.training import Config, read_metrics


@dataclass(frozen=True)
class Number:
    """What the runs of one case came to, seed by seed."""

    values: dict[int, float]
    bad: tuple[str, ...] = ()
    """Reasons of runs that came to nothing, or have collapsed."""

    @property
    def mean(self) -> float | None:
        """Over seeds."""
        return statistics.fmean(self.values.values()) if self.values else None

    @property
    def std(self) -> float | None:
        """Over seeds; None for one."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None

    def minus(self, other: "Number") -> "Number":
        """The difference, seed by seed."""
        seeds = [seed for seed in self.values if seed in other.values]
        return Number({seed: self.values[seed] - other.values[seed] for seed in seeds})


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

    def point(self, config: Config, seed: int) -> Point:
        """The run of a configuration and a seed."""
        base = self.base_of(config)
        values = {"data": config.data.data, "method": config.method.name}
        values |= {
            name: spelled(value_of(config, name))
            for name in differing(base, config)
            if name not in (*values, "seed")
        }
        values["seed"] = str(seed)
        return Point(values=values, config=with_values(config, {"seed": seed}))

    def points(self, parts: Sequence[Part], seeds: Sequence[int]) -> list[Point]:
        """All runs that tables need, each once."""
        found = [self.point(c.config, seed) for seed in seeds for p in parts for c in p.cases]
        return list({point.name: point for point in found}.values())

    def carry_out(
        self,
        parts: Sequence[Part],
        seeds: Sequence[int],
        *,
        jobs: int = 1,
        again: bool = False,
        tell: Tell = print,
    ) -> dict[str, Finding]:
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
            again=again,
            others=False,
            tell=tell,
        )
        return {finding.name: finding for finding in findings}

    def _protocols(self, parts: Sequence[Part]) -> Protocols | None:
        """The settings of the protocols, with the numbers of labels that tables ask for."""
        keys = dict.fromkeys(
            case.metric.key for p in parts for case in p.cases if case.metric.source == "few-labels"
        )
        if not keys:
            return self.settings
        counts = tuple(int(key.removeprefix("n=")) for key in keys)
        settings = self.settings or Protocols()
        return replace(settings, few_labels=replace(settings.few_labels, per_class=counts))

    def run(self, config: Config, seed: int) -> Path:
        """The folder of a run."""
        return SweepFolder(self.path).run(self.point(config, seed).name)

    def number(self, case: Case, seeds: Sequence[int], findings: dict[str, Finding]) -> Number:
        """What fills a case."""
        values, bad = {}, []
        for seed in seeds:
            found = findings.get(self.point(case.config, seed).name)
            if found is None:
                bad.append(f"seed {seed}: another process is at it")
                continue
            if found.ending != "complete":
                bad.append(f"seed {seed} {found.ending}: {found.reason}")
            if found.ending in ("complete", "collapsed"):
                values[seed] = self._value(case, found)
        return Number(values, tuple(bad))

    def _run(self, found: Finding) -> Path:
        return SweepFolder(self.path).run(found.name)

    def _value(self, case: Case, found: Finding) -> float:
        metric = case.metric
        if metric.source == "pairs":
            return pair_numbers_of_run(self._run(found), self.pairs)[metric.key]
        if metric.source == "course":
            rows = read_metrics(self._run(found))
            losses: list[float] = [row["loss"] for row in rows if row["kind"] == "epoch"]
            return losses[0 if metric.key == "first_loss" else -1]
        for judged, numbers in found.results.items():
            if judged.split()[0] == metric.source and metric.key in numbers:
                return numbers[metric.key]
        had = ", ".join(n for numbers in found.results.values() for n in numbers)
        raise ValueError(
            f"{found.name} was not judged by {metric.source} with {metric.key}, but found {had}: "
            "the set has too few labelled images for it; ask for other values."
        )
