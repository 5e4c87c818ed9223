"""Evidence on real images: sweeps, what is kept of them, and the tables of the docs.

    python benchmarks/evidence.py list             # every study, and the command behind it
    python benchmarks/evidence.py run NAME …       # carry it out with `amcl sweep`, and keep it
    python benchmarks/evidence.py cost [NAME …]    # steps with and without AMCL, timed in turns
    python benchmarks/evidence.py tables           # results.md and tuning.md in docs, from it

Studies are in benchmarks/evidence/studies.toml. A sweep that was stopped goes on with the same
command; what has ended is kept in benchmarks/evidence/NAME.json, from which anyone can make the
tables anew.
"""

import argparse
import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from amcl.results import Difference, Group, Measurement, Record, Table, group_by_seed
from amcl.results.formatting import format_spread
from amcl.results.groups import MEASURED

FOLDER = Path(__file__).parent / "evidence"
DOCS = Path(__file__).parents[1] / "docs"
PAGES = (DOCS / "results.md", DOCS / "tuning.md")
COST = Path(__file__).parent / "results" / "evidence_cost.json"
METHODS = {
    "simclr": "SimCLR",
    "moco": "MoCo",
    "simsiam": "SimSiam",
    "barlow": "Barlow Twins",
}
SECOND_SET = "stl10-"
"""Studies of methods on the second set of images are called by it and the method."""
_WATCHED = ("s", "tau", "tau_std", "at_lower", "at_upper")


@dataclass(frozen=True, kw_only=True)
class Study:
    """A sweep of the protocol, and what its table compares."""

    name: str
    told: str
    options: str
    """What is not of the protocol: the method, and its network."""
    protocol: str
    """The options that all studies of a set of images share."""
    grid: list[str]
    protocols: tuple[str, ...] = ()
    """What judges the runs at their end; none: their last probe."""
    split: str = "validation"
    compared: dict[str, str] = field(default_factory=dict)
    """Each row is compared with the one that has these values, and its own of all other axes."""
    baseline: str = ""
    """Another study, whose row of comparison, or only row, all rows are compared with."""

    @property
    def command(self) -> str:
        """The sweep as it is typed."""
        words = [self.options, self.protocol, "--grid", *map(shlex.quote, self.grid)]
        if self.protocols:
            words += ["--protocols", *self.protocols, "--split", self.split]
        return " ".join(["amcl sweep", *words, f"--out sweeps/{self.name}"])

    @property
    def shown(self) -> dict[str, str]:
        """The metrics of its table, and what they are called."""
        if not self.protocols:
            return {"knn_validation": "kNN"}
        names = {"knn": "kNN", "linear": "linear probe", "logistic": "logistic regression"}
        return {f"{name}_top1_{self.split}": names[name] for name in self.protocols}

    @property
    def kept(self) -> Path:
        return FOLDER / f"{self.name}.json"


def studies() -> dict[str, Study]:
    """Every study by its name."""
    read = tomllib.loads((FOLDER / "studies.toml").read_text(encoding="utf-8"))
    by_name = {}
    for name, entry in read["study"].items():
        network = read["networks"][entry.pop("network")]
        protocol = " ".join(read["images"][entry.pop("images", "cifar10")].split())
        entry |= {"options": f"{entry['options']} {network}", "protocol": protocol}
        by_name[name] = Study(name=name, **entry)
    return by_name


def keep(study: Study, sweep: Path) -> int:
    """Write the records of a sweep's runs that ended well; return their number."""
    from amcl.sweep.folder import SweepFolder

    folder = SweepFolder(sweep)
    runs = []
    if not folder.exists():
        sys.exit(f"there is no sweep in {sweep}: run it first, or go where it was run.")
    for record in folder.records():
        if record.status in MEASURED:
            metrics = {name: round(value, 5) for name, value in record.metrics.items()}
            run = {"values": record.values, "ending": record.status, "metrics": metrics}
            runs.append(run | course(folder.run(record.name)))
    text = json.dumps({"command": study.command, "runs": runs}, indent=1, ensure_ascii=False)
    study.kept.write_text(text + "\n", encoding="utf-8")
    return len(runs)


def course(run: Path) -> dict[str, Any]:
    """Speed of a run, its last temperatures as means over heads, and what it ran on."""
    from amcl.checkpoints import read_metrics

    epochs = [row for row in read_metrics(run) if row["kind"] == "epoch"]
    speed = statistics.median(row["images_per_second"] for row in epochs[1:] or epochs)
    last: dict[str, list[float]] = {}
    for name, value in epochs[-1].items():
        measure, slash, _ = name.partition("/head")
        if slash and measure.rpartition("_")[0] in _WATCHED:
            last.setdefault(measure, []).append(value)
    lines = (run / "environment.jsonl").read_text(encoding="utf-8").splitlines()
    began = json.loads(lines[0])
    return {
        "images_per_second": round(speed, 1),
        "last": {name: round(statistics.fmean(values), 4) for name, values in last.items()},
        "packages": {name: began["packages"][name] for name in ("amcl-torch", "torch", "timm")},
        "threads": began["threads"],
    }


def groups_of(study: Study) -> list[Group]:
    """Return the records that are kept of a study, by what they differ in but for the seed."""
    runs = json.loads(study.kept.read_text(encoding="utf-8"))["runs"]
    return group_by_seed(
        Record(
            name=study.name,
            status=run["ending"],
            seed=int(run["values"].get("seed", "0")),
            values=run["values"],
            metrics=run["metrics"],
        )
        for run in runs
    )


def spread(measurement: Measurement | Difference | None, sign: bool = False) -> str:
    """Return mean ± standard deviation in percent, or in points.

    >>> spread(Measurement.of({0: 0.40, 1: 0.42})), spread(Measurement.of({0: 0.4}))
    ('41.0 ± 1.4', '40.0')
    """
    if measurement is None:
        return ""
    return format_spread(measurement.mean, measurement.std, share=True, sign=sign)


def table(study: Study) -> str:
    """Return the runs of a study by what they differ in, in Markdown."""
    groups = groups_of(study)
    axes = list(dict.fromkeys(name for group in groups for name in group.values))
    compares = bool(study.compared or study.baseline)
    header = [*axes, "seeds"]
    for name in study.shown.values():
        header += [name, "gain"] if compares else [name]
    rows = []
    for group in groups:
        cells = [group.values.get(axis, "–") for axis in axes] + [str(len(group.records))]
        for name in study.shown:
            measurement = group.measurement(name)
            cells.append(spread(measurement))
            if compares:
                reference = reference_of(study, group.values)
                gain = measurement.minus(reference.measurement(name))
                cells.append("" if group == reference else spread(gain, sign=True))
        rows.append(cells)
    return markdown(header, rows)


def summary(by_name: dict[str, Study]) -> str:
    """The methods side by side: tuned baseline, with AMCL, gain, and the time of a step."""
    cost = json.loads(COST.read_text(encoding="utf-8"))
    rows = [
        [*cells, told_slower(cost[name])]
        for name in made(by_name)
        for cells in sides(by_name[name], METHODS[name])
    ]
    return markdown(["", "tuned baseline", "+ AMCL", "gain", "time of a step"], rows)


def summary_of_defaults(by_name: dict[str, Study]) -> str:
    """The same on STL-10, where nothing was tuned."""
    rows = []
    for name in made(by_name, SECOND_SET):
        study = by_name[SECOND_SET + name]
        base = by_name[study.baseline] if study.baseline else study
        tau = f", best constant τ {base.compared['tau']}" if "tau" in base.compared else ""
        rows += sides(study, f"{METHODS[name]}{tau}")
    return markdown(["", "baseline", "+ AMCL", "gain"], rows)


def gains_by_views(by_name: dict[str, Study]) -> dict[str, dict[int, float]]:
    """Gains of kNN in points, by kinds of augmentation and seed."""
    study, name = by_name["views"], "knn_top1_test"
    gains = {}
    for group in groups_of(study):
        reference = reference_of(study, group.values)
        gain = group.measurement(name).minus(reference.measurement(name))
        if group != reference and gain is not None:
            gains[group.values["views"]] = {s: 100 * v for s, v in gain.by_seed.items()}
    return gains


def trend(by_name: dict[str, Study]) -> str:
    """By how much the gain rises with each kind of augmentation that is added."""
    gains = gains_by_views(by_name)
    kinds = [len(views) for views in gains]
    seeds = list(next(iter(gains.values())))
    slopes = [
        statistics.linear_regression(kinds, [of[seed] for of in gains.values()]).slope
        for seed in seeds
    ]
    error = statistics.stdev(slopes) / len(slopes) ** 0.5
    positive = sum(slope > 0 for slope in slopes)
    return (
        f"For each kind that is added the gain changes by {statistics.fmean(slopes):+.2f} points "
        f"(a line fitted to each seed's gains; standard error over {len(seeds)} seeds "
        f"{error:.2f}; it rises in {positive} of them)."
    )


SUMMARIES = {
    "summary": summary,
    "summary-stl10": summary_of_defaults,
    "views-trend": trend,
}


def sides(study: Study, label: str) -> list[list[str]]:
    """For each metric: its name, the baseline, with AMCL, and the gain."""
    theirs, ours = pair_of(study)
    rows = []
    for metric, name in study.shown.items():
        first, second = theirs.measurement(metric), ours.measurement(metric)
        gain = spread(second.minus(first), sign=True)
        rows.append([f"{label}, {name}", spread(first), spread(second), gain])
    return rows


def made(by_name: dict[str, Study], prefix: str = "") -> list[str]:
    """The methods whose runs have been made."""
    return [name for name in METHODS if by_name[prefix + name].kept.exists()]


def reference_of(study: Study, values: dict[str, str]) -> Group:
    """Return the runs that those of a row are compared with."""
    if study.baseline:
        study = studies()[study.baseline]
        if not study.compared:
            (group,) = groups_of(study)
            return group
        values = {}
    wanted = values | study.compared
    return next(group for group in groups_of(study) if group.values == wanted)


def pair_of(study: Study) -> tuple[Group, Group]:
    """Return the runs of the baseline of a study, and those of its one other row."""
    groups = groups_of(study)
    base = reference_of(study, groups[0].values)
    (ours,) = (group for group in groups if group != base)
    return base, ours


def slower(cost: dict[str, Any]) -> tuple[float, float, float]:
    """The time of a step with AMCL over one without, each with the one it took turns with.

    The median of all turns, and the limits between which it lies with 95 % confidence: the order
    of the turns alone decides them, so that a few slow ones do not.

    >>> slower({"seconds": {"baseline": [1.0, 4.0, 1.0], "+ AMCL": [1.1, 4.2, 1.5]}})
    (1.1, 1.05, 1.5)
    """
    turns = zip(cost["seconds"]["+ AMCL"], cost["seconds"]["baseline"], strict=True)
    ratios = sorted(ours / theirs for ours, theirs in turns)
    # Of n turns about n/2 ± 0.98 √n lie below the true median: 1.96 deviations of a fair coin.
    outside = max(0, int(len(ratios) / 2 - 0.98 * len(ratios) ** 0.5))
    return statistics.median(ratios), ratios[outside], ratios[-1 - outside]


def told_slower(cost: dict[str, Any]) -> str:
    """`slower` as a cell of a table."""
    median, least, most = slower(cost)
    return f"× {median:.2f} ({least:.2f}–{most:.2f})"


def measure_cost(names: Sequence[str], by_name: dict[str, Study], steps: int) -> None:
    """Time steps with and without AMCL as studies take them, on a machine that does nothing else.

    What was measured of other studies before is kept.
    """
    costs = json.loads(COST.read_text(encoding="utf-8")) if COST.exists() else {}
    for name in names:
        options = by_name[name].options
        start = "" if "--recipe" in options else f"--recipe cifar10-{name.partition('-')[0]} "
        command = f"amcl cost {start}{options} --batch-size 256 --optimizer adamw"
        command += f" --threads 1 --measure --steps {steps}"
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "cost.json"
            words = [sys.executable, "-m", *shlex.split(command), "--json", str(out)]
            subprocess.run(words, check=True)
            read = json.loads(out.read_text(encoding="utf-8"))
        seconds = {side["name"]: side["measured"]["seconds"] for side in read["columns"]}
        costs[name] = {"command": command, "ratios": read["ratios"], "seconds": seconds}
        text = json.dumps(costs, indent=1, ensure_ascii=False)
        COST.write_text(text + "\n", encoding="utf-8")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table without its last line break."""
    return Table(header, rows, left=len(header)).to_markdown().rstrip()


def block(study: Study) -> str:
    """A table with its command folded away, as it stands in the page."""
    command = f"<details><summary>Command</summary>\n\n```\n{study.command}\n```\n\n</details>"
    return f"{study.told}\n\n{table(study)}\n\n{command}"


def page(text: str) -> str:
    """The page with every block between its marks made anew."""
    by_name = studies()

    def made(mark: re.Match[str]) -> str:
        name = mark["name"]
        shown = SUMMARIES[name](by_name) if name in SUMMARIES else block(by_name[name])
        return f"<!-- {name} -->\n{shown}\n<!-- end -->"

    return re.sub(r"<!-- (?P<name>[\w-]+) -->\n.*?<!-- end -->", made, text, flags=re.DOTALL)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["list", "run", "keep", "cost", "tables"])
    parser.add_argument("names", nargs="*", help="studies; none: all, or with cost one a method")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--steps", type=int, default=40, help="that cost takes of each")
    args = parser.parse_args()
    by_name = studies()
    if unknown := [name for name in args.names if name not in by_name]:
        sys.exit(f"there is no study {', '.join(unknown)}: there are {', '.join(by_name)}.")
    chosen = [by_name[name] for name in args.names or by_name]
    if args.what == "tables":
        for path in PAGES:
            path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
        return
    if args.what == "cost":
        measure_cost(args.names or list(METHODS), by_name, args.steps)
        return
    for study in chosen:
        if args.what == "list":
            print(f"{study.name}: {study.told}\n  {study.command}\n")
            continue
        if args.what == "run":
            words = [sys.executable, "-m", *shlex.split(study.command), "--jobs", str(args.jobs)]
            subprocess.run(words, check=True)
        print(f"{study.name}: {keep(study, Path('sweeps') / study.name)} runs are kept")


if __name__ == "__main__":
    main()
