"""A folder of runs that several tables share: the runs of the same settings are made once."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from amcl.analysis import PairSample, PairSettings, sample_of_run, separations, temperatures
from amcl.checkpoints.evaluations import read_results
from amcl.checkpoints.run_folder import read_metrics
from amcl.config import Config, HardwareSettings
from amcl.config.fields import changes, spelled, with_values
from amcl.data import has_test_split
from amcl.errors import Interrupted, RunError
from amcl.evaluation import PROTOCOLS, FewLabelsSettings
from amcl.experiments.filled_table import FilledTable
from amcl.experiments.specs import CellSpec, Metric, TableSpec
from amcl.files import write_text
from amcl.metrics.unlabeled import BINS
from amcl.results import Measurement, Record
from amcl.results.formatting import is_accuracy
from amcl.results.groups import MEASURED
from amcl.sweep import Point, SweepFolder, sweep
from amcl.sweep.evaluate import Split, evaluate_run, metrics_of, splits_for
from amcl.sweep.workers import Tell
from amcl.text_files import read_json, require
from amcl.training.hardware import find_accelerator
from amcl.training.pretrain import load_data

_SPLITS = {"train": "training"}


@dataclass(frozen=True, kw_only=True)
class SharedRuns:
    """Runs of tables, and the way they are evaluated.

    Args:
        path: Folder of the runs.
        base_of: Function that returns the settings a run is named against: its name has those that
            differ.
        settings: Settings of protocols by name; None for those of `amcl evaluate`.
        split: The split that the protocols evaluate on.
        pairs: Settings of the pairs of views.
        data_root: Present folder of named data sets, whatever a run started with.
        hardware: Hardware to run on.
        samples: Cache of pairs of views, by folder.
        scratch: Cache of metrics that start from random weights, by folder and protocol.
    """

    path: Path
    base_of: Callable[[Config], Config]
    settings: Mapping[str, Any] | None = None
    split: Split = "auto"
    pairs: PairSettings
    data_root: str | None = None
    hardware: HardwareSettings = field(default_factory=HardwareSettings)
    samples: dict[Path, PairSample] = field(default_factory=dict)
    scratch: dict[tuple[Path, str], dict[str, float]] = field(default_factory=dict)

    def point(self, config: Config, seed: int) -> Point:
        """Return the run of a configuration and a seed."""
        values = {"data": config.data.name, "method": config.method.name}
        values |= {
            name: spelled(value)
            for name, value in changes(self.base_of(config), config).items()
            if name not in (*values, "seed")
        }
        values["seed"] = str(seed)
        data = replace(config.data, data_root=self.data_root)
        config = replace(config, data=data, hardware=self.hardware)
        return Point(values=values, config=with_values(config, {"seed": seed}))

    def points(self, specs: Sequence[TableSpec], seeds: Sequence[int]) -> list[Point]:
        """Return all runs that tables need, each once."""
        points: dict[str, Point] = {}
        for point in (self.point(c.config, s) for s in seeds for p in specs for c in p.cells):
            if points.setdefault(point.name, point).config != point.config:
                raise ValueError(
                    f"two different runs would be called {point.name!r}: rename one of the folders "
                    "of images."
                )
        return list(points.values())

    def fill(
        self,
        specs: Sequence[TableSpec],
        seeds: Sequence[int],
        *,
        jobs: int = 1,
        again: bool = False,
        resume: str = "",
        tell: Tell = print,
    ) -> tuple[list[FilledTable], str]:
        """Carry out the runs that are missing, and fill the tables with their numbers.

        Args:
            specs: The tables.
            seeds: Seeds of the runs.
            jobs: Number of runs at once.
            again: Whether to repeat runs that diverged or failed.
            resume: The command that resumes after an interruption.
            tell: Function that prints a line for each run that ended.

        Returns:
            The tables, and a name of the images that the protocols evaluated on.
        """
        if not seeds or len(set(seeds)) < len(seeds):
            raise ValueError(
                f"--seeds must name one or more, each once, as in 0 1 2; got {[*seeds]}."
            )
        metrics = [cell.metric for spec in specs for cell in spec.cells]
        try:
            points = self.points(specs, seeds)
            records = self.carry_out(points, metrics, jobs=jobs, again=again, tell=tell)
            by_name = {record.name: record for record in records}
            tables = [self._fill_table(spec, seeds, by_name) for spec in specs]
        except Interrupted as interrupted:
            raise interrupted.with_message(
                f"stopped, everything is saved. Resume with: {resume}"
            ) from interrupted
        if not any(table.pairs() for table in tables):
            raise RunError(
                f"there is not one number to show: {tables[0].problems[0]}. --again repeats runs "
                "that failed."
            )
        return tables, self._images_name(_protocols_of(metrics), records)

    def carry_out(
        self,
        points: Sequence[Point],
        metrics: Sequence[Metric],
        *,
        jobs: int = 1,
        again: bool = False,
        tell: Tell = print,
    ) -> list[Record]:
        """Carry out those of the runs that are missing, and return the records of all of them.

        Args:
            points: The runs, each once.
            metrics: What is measured of each of them by a protocol.
            jobs: Number of runs at once.
            again: Whether to repeat runs that diverged or failed.
            tell: Function that prints a line for each run that ended.
        """
        labels = list(dict.fromkeys(m.key for m in metrics if m.source == "few-labels"))
        return sweep(
            points,
            self.path,
            jobs=jobs,
            protocols=_protocols_of(metrics),
            split=self.split,
            settings=self._protocols(labels),
            required_metrics={"few-labels": labels},
            again=again,
            others=False,
            tell=tell,
        )

    def run(self, config: Config, seed: int) -> Path:
        """Return the folder of a run."""
        return SweepFolder(self.path).run(self.point(config, seed).name)

    def sample(self, run: Path) -> PairSample:
        """Return the pairs of views that the method of a run sees."""
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

    def _images_name(self, protocols: Sequence[str], records: Sequence[Record]) -> str:
        """Return a name of the images that numbers are of, such as "validation images"."""
        splits = dict.fromkeys(
            split
            for protocol in protocols
            for split in splits_for(protocol, self.split)
            if any(metrics_of(r.metrics, protocol, split) for r in records)
        )
        return " and ".join(f"{_SPLITS.get(split, split)} images" for split in splits)

    def _fill_table(
        self, spec: TableSpec, seeds: Sequence[int], records: Mapping[str, Record]
    ) -> FilledTable:
        measurements = []
        problems = []
        for cell in spec.cells:
            measurement, reasons = self.measure(cell, seeds, records)
            measurements.append(measurement)
            problems += [f"{', '.join(cell.labels.values())}, {reason}" for reason in reasons]
        return FilledTable(spec, tuple(measurements), tuple(problems))

    def measure(
        self, cell: CellSpec, seeds: Sequence[int], records: Mapping[str, Record]
    ) -> tuple[Measurement, list[str]]:
        """Return the numbers that fill a cell, and the problems of its runs."""
        values = {}
        problems = []
        images: int | None = None
        for seed in seeds:
            record = records.get(self.point(cell.config, seed).name)
            if record is None:
                problems.append(f"seed {seed}: it is with another process")
                continue
            if record.status != "complete":
                problems.append(f"seed {seed} {record.status}: {record.reason}")
            if record.status in MEASURED:
                value = self.value(cell.metric, record, cell.config, seed)
                if value is None:
                    problems.append(f"seed {seed}: too few labeled images")
                else:
                    values[seed] = value
                    images = images or self.images(cell.metric, record)
        return Measurement.of(values, images), problems

    def value(self, metric: Metric, record: Record, config: Config, seed: int) -> float | None:
        """Return the number of a run; None where a set has too few labels for it."""
        run = SweepFolder(self.path).run(record.name)
        if metric.scratch:
            return self._from_scratch(metric.source, config, seed)[metric.key]
        if metric.source == "pairs":
            return self._pairs(run)[metric.key]
        if metric.source == "course":
            losses: list[float] = [r["loss"] for r in read_metrics(run) if r["kind"] == "epoch"]
            return losses[0 if metric.key == "first_loss" else -1]
        for split in splits_for(metric.source, self.split):
            if numbers := metrics_of(record.metrics, metric.source, split):
                return numbers.get(metric.key)
        raise RuntimeError(f"{record.name} was not evaluated by {metric.source}")

    def images(self, metric: Metric, record: Record) -> int | None:
        """Return the number of images of an accuracy; None where the metric is no accuracy."""
        if metric.protocol is None or not is_accuracy(metric.key):
            return None
        splits = splits_for(metric.protocol, self.split)
        results = read_results(SweepFolder(self.path).run(record.name))
        counts = (
            r.num_test_images for r in results if r.protocol == metric.source and r.split in splits
        )
        return next(counts, None)

    def _from_scratch(self, protocol: str, config: Config, seed: int) -> dict[str, float]:
        """Return the metrics of a protocol that starts from random weights of the same network.

        They are kept in the folder of the run, as all results are.
        """
        run = self.run(config, seed)
        if (run, protocol) not in self.scratch:
            settings = {**(self.settings or {})}
            settings[protocol] = replace(
                settings.get(protocol) or PROTOCOLS[protocol].settings(), scratch=True
            )
            point = self.point(config, seed)
            metrics = evaluate_run(point.config, run, [protocol], self.split, settings)
            self.scratch[run, protocol] = {
                name: value
                for split in reversed(splits_for(protocol, self.split))
                for name, value in metrics_of(metrics, protocol, split).items()
            }
        return self.scratch[run, protocol]

    def _pairs(self, run: Path) -> dict[str, float]:
        """Return the metrics of the pairs of views of a run; a file in its folder caches them."""
        name = f"pairs-{self.pairs.images}-{self.pairs.seed}-{BINS}bins.json"
        path = run / "analysis" / name
        if not path.is_file():
            write_text(path, json.dumps(pair_metrics(self.sample(run)), indent=1) + "\n")
        numbers: dict[str, float] = read_json(path)
        require(numbers, dict[str, float], path)
        return numbers


def _protocols_of(metrics: Sequence[Metric]) -> list[str]:
    """Return the protocols of metrics, but for those that start from random weights."""
    return list(dict.fromkeys(m.protocol for m in metrics if m.protocol and not m.scratch))


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


def check_labels(
    config: Config, specs: Sequence[TableSpec], split: Split, advice: str = ""
) -> None:
    """Raise an error, before anything is trained, where tables need labels and there are none."""
    protocols = {cell.metric.protocol for spec in specs for cell in spec.cells}
    needs_labels = any(PROTOCOLS[name].needs_labels for name in protocols if name)
    if not needs_labels or (split != "validation" and has_test_split(config.data.source)):
        return
    settings = replace(config.data, memory=0.0, probe="validation")  # nothing is decoded for this
    if load_data(replace(config, data=settings)).probe is None:
        raise ValueError(
            f"{config.data.source} has no labels in use, and accuracies need them: sort the images "
            f"into a folder for each class{advice}."
        )
