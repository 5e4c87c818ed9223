"""Evidence on real images: sweeps, their records, and the tables of the docs.

    python benchmarks/evidence.py list             # every study, and the command behind it
    python benchmarks/evidence.py run NAME …       # carry it out with `amcl sweep`, keep records
    python benchmarks/evidence.py run NAME --grid seed=2  # a part of its grid, whose records join
    python benchmarks/evidence.py cost [NAME …]    # steps with and without AMCL, timed in turns
    python benchmarks/evidence.py tables           # the pages of results in docs, from these

Studies are in benchmarks/evidence/studies.toml. The same command resumes an interrupted sweep. The
records of runs that have ended are in benchmarks/evidence/NAME.json, from which anyone can make the
tables again. Records of the same command that are not in the folder of the sweep are kept, so that
a study can be carried out in parts, on several machines.
"""

import argparse
import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from amcl.results import Group, Table

sys.path.insert(0, str(Path(__file__).parent))  # also where a test loads this file by its path

import evidence_lengths
from evidence_studies import METHODS, Study, groups_of, spread, studies, write_records

DOCS = Path(__file__).parents[1] / "docs"
PAGES = (DOCS / "results.md", DOCS / "short-runs.md", DOCS / "tuning.md")
RESULTS = Path(__file__).parent / "results"
COST = RESULTS / "evidence_cost.json"
SECOND_SET = "stl10-"
"""Prefix of the names of studies on the second set of images."""


def table(study: Study) -> str:
    """Return the table of a study in Markdown, a row for each group of seeds."""
    groups = groups_of(study)
    axes = list(dict.fromkeys(name for group in groups for name in group.values))
    compares = bool(study.compared or study.baseline)
    header = [*axes, "seeds"]
    for name in study.metrics.values():
        header += [name, "gain"] if compares else [name]
    rows = []
    for group in groups:
        cells = [group.values.get(axis, "–") for axis in axes] + [str(len(group.records))]
        for name in study.metrics:
            measurement = group.measurement(name)
            cells.append(spread(measurement))
            if compares:
                reference = reference_of(study, group.values)
                gain = measurement.minus(reference.measurement(name))
                cells.append("" if group == reference else spread(gain, sign=True))
        rows.append(cells)
    return markdown(header, rows)


def summary(by_name: dict[str, Study]) -> str:
    """Return the methods side by side: tuned baseline, with AMCL, gain, and time of a step."""
    cost = json.loads(COST.read_text(encoding="utf-8"))
    rows = [
        [*cells, format_slowdown(cost[name])]
        for name in methods_with_records(by_name)
        for cells in sides(by_name[name], METHODS[name])
    ]
    return markdown(["", "tuned baseline", "+ AMCL", "gain", "time of a step"], rows)


def summary_of_defaults(by_name: dict[str, Study]) -> str:
    """Return the methods side by side on STL-10, where nothing was tuned."""
    rows = []
    for name in methods_with_records(by_name, SECOND_SET):
        study = by_name[SECOND_SET + name]
        base = by_name[study.baseline] if study.baseline else study
        tau = f", best constant τ {base.compared['tau']}" if "tau" in base.compared else ""
        rows += sides(study, f"{METHODS[name]}{tau}")
    return markdown(["", "baseline", "+ AMCL", "gain"], rows)


def gains_by_views(by_name: dict[str, Study]) -> dict[str, dict[int, float]]:
    """Return the gains of kNN in points, by kinds of augmentation and seed."""
    study = by_name["views"]
    name = "knn_top1_test"
    gains = {}
    for group in groups_of(study):
        reference = reference_of(study, group.values)
        gain = group.measurement(name).minus(reference.measurement(name))
        if group != reference and gain is not None:
            gains[group.values["views"]] = {s: 100 * v for s, v in gain.by_seed.items()}
    return gains


def trend(by_name: dict[str, Study]) -> str:
    """Return a sentence on the change of the gain with each kind of augmentation."""
    gains = gains_by_views(by_name)
    kinds = [len(views) for views in gains]
    seeds = list(next(iter(gains.values())))
    slopes = [
        statistics.linear_regression(kinds, [by_seed[seed] for by_seed in gains.values()]).slope
        for seed in seeds
    ]
    error = statistics.stdev(slopes) / len(slopes) ** 0.5
    positive = sum(slope > 0 for slope in slopes)
    return (
        f"For each kind that is added the gain changes by {statistics.fmean(slopes):+.2f} points "
        f"(a line fitted to each seed's gains; standard error over {len(seeds)} seeds "
        f"{error:.2f}; it rises in {positive} of them)."
    )


def heads_that_differ(by_name: dict[str, Study]) -> str:
    """Return the tables of `benchmarks/heads_that_differ.py`, a section for each set of images."""
    text = (RESULTS / "heads_that_differ.md").read_text(encoding="utf-8")
    return text[text.index("## ") :].replace("## ", "### ").strip()


SUMMARIES = {
    "heads-that-differ": heads_that_differ,
    "lengths": evidence_lengths.gains,
    "lengths-why": evidence_lengths.reasons,
    "summary": summary,
    "summary-stl10": summary_of_defaults,
    "views-trend": trend,
}


def sides(study: Study, label: str) -> list[list[str]]:
    """Return a row for each metric: its name, the baseline, with AMCL, and the gain."""
    baseline, ours = pair_of(study)
    rows = []
    for metric, name in study.metrics.items():
        first = baseline.measurement(metric)
        second = ours.measurement(metric)
        gain = spread(second.minus(first), sign=True)
        rows.append([f"{label}, {name}", spread(first), spread(second), gain])
    return rows


def methods_with_records(by_name: dict[str, Study], prefix: str = "") -> list[str]:
    """Return the methods whose studies have records."""
    return [name for name in METHODS if by_name[prefix + name].records_file.exists()]


def reference_of(study: Study, values: dict[str, str]) -> Group:
    """Return the runs that those of a row are compared with.

    They share the row's values on the axes that a baseline has too, but for those of `compared`.
    """
    base = studies()[study.baseline] if study.baseline else study
    groups = groups_of(base)
    if study.baseline and len(groups) == 1:
        return groups[0]
    values = {name: value for name, value in values.items() if name in groups[0].values}
    values |= base.compared | study.compared
    return next(group for group in groups if group.values == values)


def pair_of(study: Study) -> tuple[Group, Group]:
    """Return the runs of the baseline of a study, and those of its one other row."""
    groups = groups_of(study)
    base = reference_of(study, groups[0].values)
    (ours,) = (group for group in groups if group != base)
    return base, ours


def slowdown(cost: dict[str, Any]) -> tuple[float, float, float]:
    """Return the ratio of the times of a step with and without AMCL, measured in turns.

    It is the median of all turns, with its 95 % confidence limits. These depend on the order of the
    ratios alone, so that a few slow turns do not change them.

    >>> slowdown({"seconds": {"baseline": [1.0, 4.0, 1.0], "+ AMCL": [1.1, 4.2, 1.5]}})
    (1.1, 1.05, 1.5)
    """
    turns = zip(cost["seconds"]["+ AMCL"], cost["seconds"]["baseline"], strict=True)
    ratios = sorted(amcl / baseline for amcl, baseline in turns)
    # Of n turns about n/2 ± 0.98 √n lie below the true median: 1.96 deviations of a fair coin.
    outside = max(0, int(len(ratios) / 2 - 0.98 * len(ratios) ** 0.5))
    return statistics.median(ratios), ratios[outside], ratios[-1 - outside]


def format_slowdown(cost: dict[str, Any]) -> str:
    """Return `slowdown` as a cell of a table."""
    median, low, high = slowdown(cost)
    return f"× {median:.2f} ({low:.2f}–{high:.2f})"


def measure_cost(names: Sequence[str], by_name: dict[str, Study], steps: int) -> None:
    """Measure the time of steps with and without AMCL, on a machine that does nothing else.

    The file keeps the measurements of other studies.
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
            report = json.loads(out.read_text(encoding="utf-8"))
        seconds = {side["name"]: side["measured"]["seconds"] for side in report["columns"]}
        costs[name] = {"command": command, "ratios": report["ratios"], "seconds": seconds}
        text = json.dumps(costs, indent=1, ensure_ascii=False)
        COST.write_text(text + "\n", encoding="utf-8")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, without its last line break."""
    return Table(header, rows, left=len(header)).to_markdown().rstrip()


def block(study: Study) -> str:
    """Return a table with its command folded away, as the page has it."""
    command = f"<details><summary>Command</summary>\n\n```\n{study.command}\n```\n\n</details>"
    return f"{study.about}\n\n{table(study)}\n\n{command}"


def page(text: str) -> str:
    """Return the page with every block between its marks made again."""
    by_name = studies()

    def replacement(mark: re.Match[str]) -> str:
        name = mark["name"]
        content = SUMMARIES[name](by_name) if name in SUMMARIES else block(by_name[name])
        return f"<!-- {name} -->\n{content}\n<!-- end -->"

    return re.sub(r"<!-- (?P<name>[\w-]+) -->\n.*?<!-- end -->", replacement, text, flags=re.DOTALL)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["list", "run", "keep", "cost", "tables"])
    parser.add_argument("names", nargs="*", help="studies; none: all, or with cost one a method")
    parser.add_argument("--jobs", type=int, default=2, help="runs at once")
    parser.add_argument("--grid", nargs="+", default=[], help="with run: a part of the grid")
    parser.add_argument("--steps", type=int, default=40, help="steps that cost measures")
    args = parser.parse_intermixed_args()
    by_name = studies()
    if unknown := [name for name in args.names if name not in by_name]:
        sys.exit(f"there is no study {', '.join(unknown)}: there are {', '.join(by_name)}.")
    if args.action == "tables":
        for path in PAGES:
            path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
        return
    if args.action == "cost":
        measure_cost(args.names or list(METHODS), by_name, args.steps)
        return
    for study in (by_name[name] for name in args.names or by_name):
        if args.action == "list":
            print(f"{study.name}: {study.about}\n  {study.command}\n")
            continue
        if args.action == "run":
            command = study.command_of(study.part(args.grid))
            words = [sys.executable, "-m", *shlex.split(command), "--jobs", str(args.jobs)]
            subprocess.run(words, check=True)
        count = write_records(study, Path("sweeps") / study.name)
        print(f"{study.name}: {count} runs are kept")


if __name__ == "__main__":
    main()
