"""Every table and figure of the paper at one scale: runs, their records, and docs/reproduction.md.

    python benchmarks/reproduction.py list              # entries, and their runs with records
    python benchmarks/reproduction.py run [ENTRY …]     # carry out runs without a record
    python benchmarks/reproduction.py keep              # keep records of runs of `amcl reproduce`
    python benchmarks/reproduction_page.py              # write the page and its pictures

Runs are in reproduce/night/runs, as those of `amcl reproduce ENTRY --scale night`, and share that
folder with them. What has been measured of a run is in benchmarks/evidence/reproduction/night.json.
A run with a record is not carried out again, on whatever machine it was made: the work can be
divided over several sittings and machines. The same command resumes.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from amcl.config import Config, HardwareSettings
from amcl.config.fields import differing
from amcl.drawing import DPI
from amcl.errors import Interrupted
from amcl.experiments import ENTRIES, SCALES
from amcl.experiments.filled_table import FilledTable
from amcl.experiments.reproduce import entry_of, sets_of, shared_runs
from amcl.experiments.runs import SharedRuns
from amcl.experiments.specs import CellSpec, Metric, TableSpec
from amcl.results import Cell, Measurement, Record
from amcl.results.groups import MEASURED
from amcl.sweep import SweepFolder
from amcl.sweep.evaluate import metrics_of, splits_for
from amcl.text_files import to_json

sys.path.insert(0, str(Path(__file__).parent))  # also where a test loads this file by its path

from evidence_studies import FOLDER as EVIDENCE
from evidence_studies import training_facts

SCALE = SCALES["night"]
RUNS = Path("reproduce") / SCALE.name / "runs"
FOLDER = EVIDENCE / "reproduction"
DOCS = Path(__file__).parents[1] / "docs"
RECORDS = FOLDER / f"{SCALE.name}.json"
COUNTS = FOLDER / "counts.json"
BATCH = 24
"""Number of runs between two times that records are written."""


@dataclass(frozen=True)
class Run:
    """A run of some entries.

    Args:
        name: Its name among the runs of the scale.
        config: Its settings, but for the seed.
        seed: Its seed.
        metrics: All numbers that the entries take from it.
    """

    name: str
    config: Config
    seed: int
    metrics: dict[str, Metric] = field(default_factory=dict)

    @property
    def protocols(self) -> frozenset[str]:
        """Protocols that evaluate it."""
        return frozenset(m.protocol for m in self.metrics.values() if m.protocol and not m.scratch)

    @property
    def has_scratch(self) -> bool:
        """True if something is trained from random weights for one of its numbers."""
        return any(metric.scratch for metric in self.metrics.values())


def key_of(metric: Metric) -> str:
    """Return the name of a metric in records.

    >>> key_of(Metric(name="kNN accuracy", source="knn", key="top1"))
    'knn top1'
    """
    return f"{metric.source} {metric.key}{' from scratch' * metric.scratch}"


@cache
def specs_of(name: str) -> tuple[TableSpec, ...]:
    """Return the tables of an entry at the scale; none for an entry that only counts."""
    entry = ENTRIES[name]
    return tuple(entry.make(SCALE, sets_of(entry, SCALE))) if entry.make is not None else ()


@cache
def name_of(config: Config, seed: int) -> str:
    """Return the name of a run among those of the scale."""
    return _shared().point(config, seed).name


@cache
def _shared() -> SharedRuns:
    return shared_runs(SCALE, RUNS)


def runs_of(names: Iterable[str]) -> dict[str, Run]:
    """Return the runs of entries by name, each once, with the numbers that these take from it.

    Args:
        names: Names of the entries.
    """
    runs: dict[str, Run] = {}
    for entry in names:
        for seed in range(SCALE.seeds):
            for cell in (cell for spec in specs_of(entry) for cell in spec.cells):
                name = name_of(cell.config, seed)
                run = runs.setdefault(name, Run(name, cell.config, seed))
                run.metrics.setdefault(key_of(cell.metric), cell.metric)
    return runs


class Records:
    """What has been measured of runs, as a file has it.

    Args:
        path: The file, which need not exist yet; None for that of the scale.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = RECORDS if path is None else path
        self.runs: dict[str, dict[str, Any]] = {}
        if self.path.exists():
            content = json.loads(self.path.read_text(encoding="utf-8"))
            self._check(content)
            self.runs = {run["name"]: run for run in content["runs"]}

    def lacks(self, run: Run, again: bool = False) -> bool:
        """Return True if a run has no record, or a record without one of its numbers.

        Args:
            run: The run.
            again: Whether a record of a run that diverged or failed counts as none.
        """
        record = self.runs.get(run.name)
        if record is None:
            return True
        if record["status"] not in MEASURED:
            return again
        return not run.metrics.keys() <= record["metrics"].keys()

    def write(self, order: Iterable[str]) -> None:
        """Write the file.

        Args:
            order: Names of all runs, in their order.
        """
        runs = [json.dumps(self.runs[n], ensure_ascii=False) for n in order if n in self.runs]
        head = to_json(_settings(self.runs.values()))
        lines = ",\n  ".join(runs)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = f'{head.rstrip().removesuffix("}").rstrip()},\n "runs": [\n  {lines}\n ]\n}}\n'
        self.path.write_text(text, encoding="utf-8")

    def measurement(self, cell: CellSpec) -> tuple[Measurement, list[str]]:
        """Return the numbers of a cell by seed, and the problems of its runs."""
        values = {}
        problems = []
        images = None
        for seed in range(SCALE.seeds):
            record = self.runs.get(name_of(cell.config, seed))
            if record is None:
                continue
            if record["status"] != "complete":
                problems.append(f"seed {seed} {record['status']}: {record['reason']}")
            key = key_of(cell.metric)
            if key in record["metrics"]:
                values[seed] = record["metrics"][key]
                images = record["images"].get(key)
        return Measurement.of(values, images), problems

    def fill(self, spec: TableSpec) -> FilledTable:
        """Return a table with the numbers that there are."""
        filled = [self.measurement(cell) for cell in spec.cells]
        problems = [
            f"{', '.join(cell.labels.values())}, {problem}"
            for cell, (_, reasons) in zip(spec.cells, filled, strict=True)
            for problem in reasons
        ]
        return FilledTable(spec, tuple(m for m, _ in filled), tuple(problems))

    def _check(self, content: Mapping[str, Any]) -> None:
        """End the program if the records are of other settings than those of the scale now."""
        for method, text in content["settings"].items():
            stored = Config.from_toml(text)
            now = SCALE.config(SCALE.data, method)
            if changed := differing(stored, now):
                sys.exit(
                    f"{self.path} has runs of {method} with another {', '.join(changed)} than "
                    f"scale {SCALE.name} has now: move it away, and carry the runs out again."
                )
        for name, stored in content["protocols"].items():
            now = json.loads(json.dumps(asdict(SCALE.protocols[name])))
            if {key: now.get(key) for key in stored} != stored:
                sys.exit(
                    f"{self.path} has numbers by {name} with other settings than scale "
                    f"{SCALE.name} has now: move it away, and carry the runs out again."
                )


def _settings(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the names of runs leave out: settings of methods and of protocols."""
    methods = dict.fromkeys(record["values"]["method"] for record in records)
    return {
        "command": f"amcl reproduce all --scale {SCALE.name}",
        "settings": {name: SCALE.config(SCALE.data, name).to_toml() for name in methods},
        "protocols": {name: asdict(settings) for name, settings in SCALE.protocols.items()},
    }


def keep(runs: Sequence[Run], shared: SharedRuns, records: Records) -> int:
    """Add records of those of the runs that have ended, and return their number."""
    points = {run.name: shared.point(run.config, run.seed) for run in runs}
    if not SweepFolder(shared.path).exists():
        return 0
    ended = {r.name: r for r in SweepFolder(shared.path).records(list(points.values()))}
    count = 0
    for run in runs:
        record = ended.get(run.name)
        if record is not None and (record.status not in MEASURED or _is_evaluated(run, record)):
            records.runs[run.name] = _entry(run, record, shared)
            count += 1
    return count


def _is_evaluated(run: Run, record: Record) -> bool:
    return all(
        any(metrics_of(record.metrics, protocol, split) for split in splits_for(protocol, "auto"))
        for protocol in run.protocols
    )


def _entry(run: Run, record: Record, shared: SharedRuns) -> dict[str, Any]:
    """Return the record of a run as the file has it."""
    metrics: dict[str, float] = {}
    images: dict[str, int] = {}
    entry: dict[str, Any] = {
        "name": run.name,
        "values": shared.point(run.config, run.seed).values,
        "status": record.status,
        "reason": record.reason,
        "metrics": metrics,
        "images": images,
    }
    if record.status not in MEASURED:
        return entry
    for key, metric in run.metrics.items():
        value = shared.value(metric, record, run.config, run.seed)
        if value is not None:
            metrics[key] = float(f"{value:.6g}")
        if (count := shared.images(metric, record)) is not None:
            images[key] = count
    return entry | training_facts(SweepFolder(shared.path).run(run.name))


def batches(runs: Iterable[Run]) -> Iterator[list[Run]]:
    """Return runs in groups of the same protocols."""
    groups: dict[frozenset[str], list[Run]] = {}
    for run in runs:
        groups.setdefault(run.protocols, []).append(run)
    for group in groups.values():
        for start in range(0, len(group), BATCH):
            yield group[start : start + BATCH]


def carry_out(names: Sequence[str], jobs: int, again: bool = False) -> None:
    """Carry out the runs of entries that have no record, and keep their records.

    Args:
        names: Names of the entries.
        jobs: Number of runs at once.
        again: Whether to repeat runs that diverged or failed.
    """
    shared = shared_runs(SCALE, RUNS, hardware=HardwareSettings(threads=1))
    every = runs_of(ENTRIES)
    for name in names:
        if ENTRIES[name].count is not None:
            count(name)
            continue
        records = Records()
        of_entry = [every[run] for run in runs_of([name])]
        missing = [run for run in of_entry if records.lacks(run, again)]
        print(f"{name}: {len(of_entry)} runs, {len(missing)} of them without a record", flush=True)
        for batch in batches(missing):
            points = [shared.point(run.config, run.seed) for run in batch]
            metrics = [metric for run in batch for metric in run.metrics.values()]
            try:
                shared.carry_out(points, metrics, jobs=jobs, again=again, tell=_tell)
                keep(batch, shared, records)
            except Interrupted as interrupted:
                keep([run for run in batch if not run.has_scratch], shared, records)
                raise interrupted.with_message("stopped; the same command resumes.") from None
            finally:
                records.write(every)


def _tell(line: str) -> None:
    print(line, flush=True)


def count(name: str) -> None:
    """Count the cost of an entry that trains nothing, and keep its numbers and pictures."""
    entry = ENTRIES[name]
    if entry.count is None:
        raise RuntimeError(f"{name} counts nothing")
    networks, topic, numbers = entry.count(SCALE)
    if topic.table is None:
        raise RuntimeError(f"{name} has no table")
    counts = json.loads(COUNTS.read_text(encoding="utf-8")) if COUNTS.exists() else {}
    counts[name] = {
        "networks": networks,
        "how_to_read": topic.how_to_read,
        "header": topic.table.header,
        "left": topic.table.left,
        "rows": [[_plain(cell) for cell in row] for row in topic.table.rows],
        "notes": list(topic.notes),
        "numbers": {"header": numbers.header, "rows": numbers.rows},
        "pictures": [f"reproduction-{picture}" for picture in topic.pictures],
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    COUNTS.write_text(to_json(counts) + "\n", encoding="utf-8")
    for picture, figure in topic.pictures.items():
        path = DOCS / "images" / f"reproduction-{picture}.png"
        figure.savefig(path, dpi=DPI, metadata={"Source": f"amcl reproduce {name}"})


def _plain(cell: str | Cell) -> list[str]:
    return [cell.text, cell.small] if isinstance(cell, Cell) else [cell, ""]


def status(names: Sequence[str]) -> str:
    """Return a line for each entry: its runs, and how many of them have a record."""
    records = Records()
    every = runs_of(ENTRIES)
    lines = []
    for name in names:
        runs = [every[run] for run in runs_of([name])]
        have = sum(not records.lacks(run) for run in runs)
        lines.append(f"{name}: {len(runs)} runs, {have} with a record")
    have = sum(not records.lacks(run) for run in every.values())
    return "\n".join([*lines, f"all together: {len(every)} runs, {have} with a record"])


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["list", "run", "keep"])
    parser.add_argument("entries", nargs="*", help="tables and figures; none: all")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--again", action="store_true", help="repeat runs that failed")
    args = parser.parse_args()
    try:
        names = [entry_of(name).name for name in args.entries] or list(ENTRIES)
    except ValueError as error:
        sys.exit(str(error))
    if args.action == "run":
        try:
            carry_out(names, args.jobs, args.again)
        except Interrupted as interrupted:
            print(interrupted, file=sys.stderr)
            sys.exit(interrupted.exit_code)
    elif args.action == "keep":
        records = Records()
        every = runs_of(ENTRIES)
        runs = [r for r in every.values() if records.lacks(r) and not r.has_scratch]
        new = keep(runs, shared_runs(SCALE, RUNS), records)
        records.write(every)
        print(f"{new} more runs have a record")
    print(status(names))


if __name__ == "__main__":
    main()
