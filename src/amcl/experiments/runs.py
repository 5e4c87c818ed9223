"""A folder of runs that several tables share: each run is known by its settings, and made once."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from amcl.analysis import PairSample, PairSettings, sample_of_run, separations, temperatures
from amcl.checkpoints.evaluations import read_results
from amcl.checkpoints.run_folder import read_metrics
from amcl.config import Config, HardwareSettings
from amcl.config.fields import differing, spelled, value_of, with_values
from amcl.data import has_test_split
from amcl.errors import Interrupted, RunError
from amcl.evaluation import FewLabelsSettings, find_protocol
from amcl.experiments.cases import Case, Metric, Part
from amcl.experiments.filled import Filled
from amcl.files import write_text
from amcl.metrics.unlabeled import BINS
from amcl.results import Measurement, Record
from amcl.results.seeds import MEASURED
from amcl.sweep import Point, SweepFolder, sweep
from amcl.sweep.judge import Split, metrics_of, splits_for
from amcl.sweep.workers import Tell
from amcl.training.hardware import find_accelerator
from amcl.training.pretrain import load_data

_SPLITS = {"train": "training"}


@dataclass(frozen=True, kw_only=True)
class RunPool:
    """Runs of tables, and how they are judged.

    Args:
        path: Folder of the runs.
        base_of: Settings that those of a run are named against: a name has what differs.
        settings: Settings of protocols by name; None for those of `amcl evaluate`.
        split: The split that the protocols judge on.
        pairs: The pairs of views to look at.
        data_root: Folder of named data sets now, whatever a run began with.
        hardware: Where to run.
        samples: Pairs of views that were looked at, by folder.
    """

    path: Path
    base_of: Callable[[Config], Config]
    settings: Mapping[str, Any] | None = None
    split: Split = "auto"
    pairs: PairSettings
    data_root: str | None = None
    hardware: HardwareSettings = field(default_factory=HardwareSettings)
    samples: dict[Path, PairSample] = field(default_factory=dict)

    def point(self, config: Config, seed: int) -> Point:
        """Return the run of a configuration and a seed."""
        base = self.base_of(config)
        values = {"data": config.data.name, "method": config.method.name}
        values |= {
            name: spelled(value_of(config, name))
            for name in differing(base, config)
            if name not in (*values, "seed")
        }
        values["seed"] = str(seed)
        data = replace(config.data, data_root=self.data_root)
        config = replace(config, data=data, hardware=self.hardware)
        return Point(values=values, config=with_values(config, {"seed": seed}))

    def points(self, parts: Sequence[Part], seeds: Sequence[int]) -> list[Point]:
        """Return all runs that tables need, each once."""
        points: dict[str, Point] = {}
        for point in (self.point(c.config, s) for s in seeds for p in parts for c in p.cases):
            if points.setdefault(point.name, point).config != point.config:
                raise ValueError(
                    f"two different runs would be called {point.name!r}: rename one of the folders "
                    "of images."
                )
        return list(points.values())

    def fill(
        self,
        parts: Sequence[Part],
        seeds: Sequence[int],
        *,
        jobs: int = 1,
        again: bool = False,
        resume: str = "",
        tell: Tell = print,
    ) -> tuple[list[Filled], str]:
        """Carry out the runs that are missing, and fill the tables with their numbers.

        Args:
            parts: The tables.
            seeds: Seeds of the runs.
            jobs: Number of runs at once.
            again: Whether to repeat runs that diverged or failed.
            resume: The command that resumes after an interruption.
            tell: Takes a line for each run that ended.

        Returns:
            The tables, and the images that the protocols judged on.
        """
        if not seeds or len(set(seeds)) < len(seeds):
            raise ValueError(
                f"--seeds must name one or more, each once, as in 0 1 2; got {[*seeds]}."
            )
        metrics = [case.metric for part in parts for case in part.cases]
        protocols = list(dict.fromkeys(m.protocol for m in metrics if m.protocol is not None))
        labels = list(dict.fromkeys(m.key for m in metrics if m.source == "few-labels"))
        try:
            records = sweep(
                self.points(parts, seeds),
                self.path,
                jobs=jobs,
                protocols=protocols,
                split=self.split,
                settings=self._protocols(labels),
                wanted={"few-labels": labels},
                again=again,
                others=False,
                tell=tell,
            )
        except Interrupted as stopped:
            raise Interrupted(
                f"stopped, everything is saved. Resume with: {resume}", stopped.exit_code - 128
            ) from stopped
        by_name = {record.name: record for record in records}
        filled = [self._filled(part, seeds, by_name) for part in parts]
        if not any(each.pairs() for each in filled):
            raise RunError(
                f"there is not one number to show: {filled[0].problems[0]}. --again repeats runs "
                "that failed."
            )
        return filled, self._judged(protocols, records)

    def run(self, config: Config, seed: int) -> Path:
        """Return the folder of a run."""
        return SweepFolder(self.path).run(self.point(config, seed).name)

    def sample(self, run: Path) -> PairSample:
        """Return the pairs of views that the method of a run sees, here and now."""
        if run not in self.samples:
            device = find_accelerator(self.hardware.accelerator)
            self.samples[run] = sample_of_run(
                run, self.pairs, data_root=self.data_root, device=device
            )
        return self.samples[run]

    def _protocols(self, labels: Sequence[str]) -> Mapping[str, Any] | None:
        """Return the settings of the protocols, with the numbers of labels of the tables."""
        if not labels:
            return self.settings
        settings = {"few-labels": FewLabelsSettings(), **(self.settings or {})}
        counts = tuple(int(key.removeprefix("n=")) for key in labels)
        return settings | {"few-labels": replace(settings["few-labels"], per_class=counts)}

    def _judged(self, protocols: Sequence[str], records: Sequence[Record]) -> str:
        """Return the images that numbers are of, such as "validation images"."""
        splits = dict.fromkeys(
            split
            for protocol in protocols
            for split in splits_for(protocol, self.split)
            if any(metrics_of(r.metrics, protocol, split) for r in records)
        )
        return " and ".join(f"{_SPLITS.get(split, split)} images" for split in splits)

    def _filled(self, part: Part, seeds: Sequence[int], records: Mapping[str, Record]) -> Filled:
        measurements, problems = [], []
        for case in part.cases:
            measurement, reasons = self.measure(case, seeds, records)
            measurements.append(measurement)
            problems += [f"{', '.join(case.labels.values())}, {reason}" for reason in reasons]
        return Filled(part, tuple(measurements), tuple(problems))

    def measure(
        self, case: Case, seeds: Sequence[int], records: Mapping[str, Record]
    ) -> tuple[Measurement, list[str]]:
        """Return the numbers that fill a case, and the problems of its runs."""
        values, problems = {}, []
        images: int | None = None
        for seed in seeds:
            record = records.get(self.point(case.config, seed).name)
            if record is None:
                problems.append(f"seed {seed}: it is with another process")
                continue
            if record.status != "complete":
                problems.append(f"seed {seed} {record.status}: {record.reason}")
            if record.status in MEASURED:
                value = self._value(case.metric, record)
                if value is None:
                    problems.append(f"seed {seed}: too few labeled images")
                else:
                    values[seed] = value
                    images = images or self._images(case.metric, record)
        return Measurement.of(values, images), problems

    def _value(self, metric: Metric, record: Record) -> float | None:
        """Return the number of a run; None where a set has too few labels for it."""
        run = SweepFolder(self.path).run(record.name)
        if metric.source == "pairs":
            return self._pairs(run)[metric.key]
        if metric.source == "course":
            losses: list[float] = [r["loss"] for r in read_metrics(run) if r["kind"] == "epoch"]
            return losses[0 if metric.key == "first_loss" else -1]
        for split in splits_for(metric.source, self.split):
            if numbers := metrics_of(record.metrics, metric.source, split):
                return numbers.get(metric.key)
        raise RuntimeError(f"{record.name} was not judged by {metric.source}")

    def _images(self, metric: Metric, record: Record) -> int | None:
        """Return the number of images of an accuracy; None where the metric is no accuracy."""
        if not metric.share or metric.protocol is None:
            return None
        splits = splits_for(metric.protocol, self.split)
        results = read_results(SweepFolder(self.path).run(record.name))
        judged = [
            r.num_test_images for r in results if r.protocol == metric.source and r.split in splits
        ]
        return judged[0] if judged else None

    def _pairs(self, run: Path) -> dict[str, float]:
        """Return the pairs of views of a run in numbers, which are kept in its folder."""
        name = f"pairs-{self.pairs.images}-{self.pairs.seed}-{BINS}bins.json"
        path = run / "analysis" / name
        if not path.is_file():
            write_text(path, json.dumps(pair_metrics(self.sample(run)), indent=1) + "\n")
        numbers: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
        return numbers


def pair_metrics(sample: PairSample) -> dict[str, float]:
    """Return overlap and AUROC after heads and backbone, and temperatures of positive pairs."""
    metrics: dict[str, float] = {}
    for name, separation in separations(sample).items():
        metrics |= {f"overlap_{name}": separation.overlap, f"auroc_{name}": separation.auroc}
    if sample.tau is not None or sample.channel_tau is not None:
        tau = temperatures(sample)
        heads = tau.of("positive")
        metrics["tau_positive"] = sum(head.mean for head in heads) / len(heads)
        metrics["tau_positive_variance"] = sum(head.std**2 for head in heads) / len(heads)
        metrics["between_heads_positive"] = tau.between_positive
    return metrics


def check_labels(config: Config, parts: Sequence[Part], split: Split, advice: str = "") -> None:
    """Raise an error, before anything is trained, where tables need labels and there are none."""
    protocols = {case.metric.protocol for part in parts for case in part.cases}
    needs_labels = any(find_protocol(name).needs_labels for name in protocols if name)
    if not needs_labels or (split != "validation" and has_test_split(config.data.source)):
        return
    settings = replace(config.data, memory=0.0, probe="validation")  # nothing is decoded for this
    if load_data(replace(config, data=settings)).probe is None:
        raise ValueError(
            f"{config.data.source} has no labels in use, and accuracies need them: sort the images "
            f"into a folder for each class{advice}."
        )
