"""Studies of the evidence: sweeps, and the records of their runs.

Studies are in benchmarks/evidence/studies.toml, the records of runs that have ended in
benchmarks/evidence/NAME.json. Records of the same command that are not in the folder of its sweep
are kept, so that a study can be carried out in parts, on several machines.
"""

import json
import shlex
import statistics
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amcl.results import Group, Measurement, Record, group_by_seed
from amcl.results.formatting import format_spread
from amcl.results.groups import MEASURED

FOLDER = Path(__file__).parent / "evidence"
METHODS = {
    "simclr": "SimCLR",
    "moco": "MoCo",
    "simsiam": "SimSiam",
    "barlow": "Barlow Twins",
}
_STATISTICS = ("s", "tau", "tau_std", "at_lower", "at_upper")


@dataclass(frozen=True, kw_only=True)
class Study:
    """A sweep, and the comparison of its table.

    Args:
        name: Name of the study.
        about: Sentence above its table.
        options: Options of the method and its network.
        protocol: Options that all studies of a set of images share.
        grid: Axes of the sweep.
        protocols: Protocols that evaluate the runs at their end; none for their last probe.
        split: Split that the protocols evaluate on.
        compared: Values of the row that each row is compared with; other axes are the row's own.
        baseline: Another study, among whose rows that row is; none: this study.
    """

    name: str
    about: str
    options: str
    protocol: str
    grid: list[str]
    protocols: tuple[str, ...] = ()
    split: str = "validation"
    compared: dict[str, str] = field(default_factory=dict)
    baseline: str = ""

    @property
    def command(self) -> str:
        """Command of the sweep."""
        return self.command_of(self.grid)

    def command_of(self, grid: Sequence[str]) -> str:
        """Return the command of a sweep over another grid, in the same folder."""
        words = [self.options, self.protocol, "--grid", *map(shlex.quote, grid)]
        if self.protocols:
            words += ["--protocols", *self.protocols, "--split", self.split]
        return " ".join(["amcl sweep", *words, f"--out sweeps/{self.name}"])

    def part(self, grid: Sequence[str]) -> list[str]:
        """Return the grid with only some values of some axes, which must be values of the study."""
        axes = dict(axis.split("=", 1) for axis in self.grid)
        for axis in grid:
            name, _, values = axis.partition("=")
            if not set(values.split(",")) <= set(axes.get(name, "").split(",")):
                sys.exit(f"--grid {axis}: the grid of {self.name} is {' '.join(self.grid)}.")
            axes[name] = values
        return [f"{name}={values}" for name, values in axes.items()]

    @property
    def metrics(self) -> dict[str, str]:
        """Metrics of its table, with their names there."""
        if not self.protocols:
            return {"knn_validation": "kNN"}
        names = {"knn": "kNN", "linear": "linear probe", "logistic": "logistic regression"}
        return {f"{name}_top1_{self.split}": names[name] for name in self.protocols}

    @property
    def records_file(self) -> Path:
        """File of the records of its runs."""
        return FOLDER / f"{self.name}.json"


def studies() -> dict[str, Study]:
    """Return all studies by their names."""
    tables = tomllib.loads((FOLDER / "studies.toml").read_text(encoding="utf-8"))
    by_name = {}
    for name, entry in tables["study"].items():
        network = tables["networks"][entry.pop("network")]
        protocol = " ".join(tables["images"][entry.pop("images", "cifar10")].split())
        entry |= {"options": f"{entry['options']} {network}", "protocol": protocol}
        by_name[name] = Study(name=name, **entry)
    return by_name


def write_records(study: Study, sweep: Path) -> int:
    """Write the records of the runs of a sweep whose metrics count, and return their number.

    They join those of other runs that the same command made, but for its grid.
    """
    from amcl.sweep.folder import SweepFolder

    folder = SweepFolder(sweep)
    runs: list[dict[str, Any]] = []
    if not folder.exists():
        sys.exit(f"there is no sweep in {sweep}: run it first, or change to the folder of its run.")
    for record in folder.records():
        if record.status in MEASURED:
            metrics = {name: round(value, 5) for name, value in record.metrics.items()}
            run = {"values": record.values, "ending": record.status, "metrics": metrics}
            runs.append(run | training_facts(folder.run(record.name)))
    runs = joined(kept_runs(study), runs)
    text = json.dumps({"command": study.command, "runs": runs}, indent=1, ensure_ascii=False)
    study.records_file.write_text(text + "\n", encoding="utf-8")
    return len(runs)


def kept_runs(study: Study) -> list[dict[str, Any]]:
    """Return the records that a study has, if its command made them but for the grid."""
    if not study.records_file.exists():
        return []
    kept = json.loads(study.records_file.read_text(encoding="utf-8"))
    return kept["runs"] if without_grid(kept["command"]) == without_grid(study.command) else []


def without_grid(command: str) -> list[str]:
    """Return the words of a command without its grid.

    >>> without_grid("amcl sweep --tau 0.1 --grid lr=0.1 seed=0,1 --out sweeps/x")
    ['amcl', 'sweep', '--tau', '0.1', '--out', 'sweeps/x']
    """
    words = shlex.split(command)
    start = words.index("--grid")
    end = next(
        (i for i, word in enumerate(words) if i > start and word.startswith("--")), len(words)
    )
    return words[:start] + words[end:]


def joined(kept: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records of both, the new one where both have the same values.

    >>> joined([{"values": {"seed": "0"}}, {"values": {"seed": "1"}}], [{"values": {"seed": "1"}}])
    [{'values': {'seed': '0'}}, {'values': {'seed': '1'}}]
    """
    made_again = {json.dumps(run["values"]): run for run in new}
    runs = [made_again.pop(json.dumps(run["values"]), run) for run in kept]
    return [*runs, *made_again.values()]


def training_facts(run: Path) -> dict[str, Any]:
    """Return the speed of a run, its last temperatures as means over heads, and its packages."""
    from amcl.checkpoints import read_metrics

    epochs = [row for row in read_metrics(run) if row["kind"] == "epoch"]
    speed = statistics.median(row["images_per_second"] for row in epochs[1:] or epochs)
    by_head: dict[str, list[float]] = {}
    for name, value in epochs[-1].items():
        measure, slash, _ = name.partition("/head")
        if slash and measure.rpartition("_")[0] in _STATISTICS:
            by_head.setdefault(measure, []).append(value)
    last = {name: round(statistics.fmean(values), 4) for name, values in by_head.items()}
    if "head_agreement" in epochs[-1]:
        last["head_agreement"] = round(epochs[-1]["head_agreement"], 4)
    lines = (run / "environment.jsonl").read_text(encoding="utf-8").splitlines()
    environment = json.loads(lines[0])
    return {
        "images_per_second": round(speed, 1),
        "last": last,
        "packages": {n: environment["packages"][n] for n in ("amcl-torch", "torch", "timm")},
        "threads": environment["threads"],
    }


def groups_of(study: Study) -> list[Group]:
    """Return the records of a study in groups that differ in their seeds alone."""
    runs = json.loads(study.records_file.read_text(encoding="utf-8"))["runs"]
    return group_by_seed(
        Record(
            name=study.name,
            status=run["ending"],
            seed=int(run["values"].get("seed", "0")),
            values=run["values"],
            metrics=run["metrics"] | run.get("last", {}),
        )
        for run in runs
    )


def spread(measurement: Measurement | None, sign: bool = False) -> str:
    """Return mean ± standard deviation in percent, or in points.

    >>> spread(Measurement.of({0: 0.40, 1: 0.42})), spread(Measurement.of({0: 0.4}))
    ('41.0 ± 1.4', '40.0')
    """
    if measurement is None:
        return ""
    return format_spread(measurement.mean, measurement.std, share=True, sign=sign)
