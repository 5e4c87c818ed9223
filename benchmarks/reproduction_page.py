"""docs/reproduction.md and its pictures, from the records of benchmarks/reproduction.py alone.

python benchmarks/reproduction_page.py
"""

import csv
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from PIL import Image

from amcl.drawing import BLUE, FAINT, VERMILION, bare, figure_of, legend_below, plain
from amcl.experiments import ENTRIES
from amcl.experiments.charts import chart
from amcl.experiments.conclusions import conclusion_of
from amcl.experiments.filled_table import FilledTable, numbers_table
from amcl.experiments.paper import Entry
from amcl.results import Cell, Measurement, Table
from amcl.results.formatting import plural

sys.path.insert(0, str(Path(__file__).parent))  # also where a test loads this file by its path

import reproduction
from reproduction_claims import (
    RULE,
    VERDICTS,
    Claim,
    CostFinding,
    Finding,
    Tables,
    claims,
    cost_findings,
    find,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = reproduction.DOCS / "reproduction.md"
PICTURES = reproduction.DOCS / "images"
TABLE_7 = Path(__file__).parent / "results" / "table_7.csv"

INTRODUCTION = """# Reproduction of the paper

Every table and figure of the paper, carried out by [`amcl reproduce`](reports.md) at a scale that
two cores finish in a few hours, claim by claim: the paper's number, ours, and whether the claim
holds here. [Results](results.md) asks fewer questions and answers them with longer training.
"""

SETTINGS = """## What was run

Everything but tables 7 and 8 and figure 2 is of scale `night`:

- **Images**: the same 5,120 of CIFAR-10's training images for all, whatever set the paper has; test
  accuracies are on its 10,000 test images. Labels are those of the 5,120 images. Settings were
  chosen on 5,000 other training images ([how](tuning.md)), and none for AMCL but its defaults.
- **Networks**: ResNet-10 of a quarter of the width; vision transformers are timm's smallest, with
  16 patches. Both sides of a comparison have the same network, rate and schedule.
- **Length**: 240 steps of 256 images, where the paper has 100 to 1,600 epochs of whole sets.
  Fine-tuning has 10 epochs; all other protocols have their defaults.
- **Seeds**: {seeds}, paired: the same seed has the same weights at the start, views and order.

At this scale gains may be compared with the paper's; accuracies may not. A claim that does not hold
here may hold for long training on large sets."""

REPEAT = """## To repeat it

```
amcl reproduce --list --scale night             # entries, runs, time
amcl reproduce all --scale night --jobs 2       # runs and pages of all; the same command resumes
python benchmarks/reproduction.py run --jobs 2  # the same runs, without those that have records
python benchmarks/reproduction_page.py          # this page and its pictures, from records
```

Records of runs are in [`benchmarks/evidence/reproduction`](../benchmarks/evidence/reproduction): of
each its settings, seed and numbers. A run that has a record is not carried out again by the third
command, on whatever machine the record was made."""


def page(records: reproduction.Records) -> str:
    """Return the text of the page.

    Args:
        records: What has been measured.
    """
    filled = tables_of(records)
    findings = findings_of(filled)
    every = reproduction.runs_of(ENTRIES)
    made = [records.runs[name] for name, run in every.items() if not records.lacks(run)]
    parts = [INTRODUCTION.rstrip(), _short(findings, len(made), len(every))]
    if any(_in_picture(finding) for finding in findings):
        alt = "Gain of each claim that has a number in the paper, here and in the paper"
        parts.append(f"![{alt}; the table has the numbers.](images/reproduction-claims.png)")
    parts += ["## Claims", _claims_table(findings), "## How a verdict is made", RULE]
    parts.append(SETTINGS.format(seeds=reproduction.SCALE.seeds))
    if made:
        parts.append(_machine(made))
    for entry in ENTRIES.values():
        runs = [every[name] for name in reproduction.runs_of([entry.name])]
        missing = sum(records.lacks(run) for run in runs)
        parts += _section(entry, filled[entry.name], len(runs), missing)
    return "\n\n".join([*parts, REPEAT]) + "\n"


def tables_of(records: reproduction.Records) -> dict[str, list[FilledTable]]:
    """Return the tables of all entries with the numbers that there are."""
    filled = {
        entry.name: [records.fill(spec) for spec in reproduction.specs_of(entry.name)]
        for entry in ENTRIES.values()
    }
    if not any(table.pairs() for table in filled["table-7"]):
        filled["table-7"] = [_table_7(table) for table in filled["table-7"]]
    return filled


def findings_of(filled: Mapping[str, Sequence[FilledTable]]) -> list[Finding]:
    """Return all claims with what was measured."""
    tables = Tables(filled)
    kept = counts().get("table-8")
    costs = cost_findings(kept["numbers"]["rows"] if kept else [])
    return [*(find(claim, tables) for claim in claims(tables)), *costs]


def _table_7(table: FilledTable) -> FilledTable:
    """Return table 7 with the numbers that were recorded at scale cpu, with one seed."""
    with TABLE_7.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["what"] == "value"]
    measurements = []
    for cell in table.spec.cells:
        [row] = [r for r in rows if all(r[name] == v for name, v in cell.labels.items())]
        measurements.append(Measurement.of({0: float(row["mean"]) / 100}))
    return replace(table, measurements=tuple(measurements))


def _short(findings: Sequence[Finding], made: int, total: int) -> str:
    """Return the answer in a paragraph."""
    counts = Counter(finding.verdict for finding in findings)
    parts = [f"{counts[verdict]} {_verb(verdict, counts[verdict])}" for verdict in VERDICTS]
    lines = [f"**In short: of {len(findings)} claims, {', '.join(parts)}.**"]
    if made < total:
        lines.append(
            f"{made} of {total} runs have been carried out so far; what is missing is marked."
        )
    else:
        lines.append(f"They rest on {total} runs.")
    for verdict in VERDICTS[:2]:
        names = [_lower(f.claim.text) for f in findings if f.verdict == verdict]
        if names:
            lines.append(f"\n- **{verdict.capitalize()}**: {'; '.join(names)}.")
    return "\n".join(lines)


def _verb(verdict: str, count: int) -> str:
    if count == 1:
        return {"not carried out yet": "has not been carried out yet"}.get(verdict, verdict)
    return {
        "holds": "hold",
        "does not hold": "do not hold",
        "not carried out yet": "have not been carried out yet",
    }.get(verdict, verdict)


def _lower(text: str) -> str:
    """Return a sentence as a part of another one."""
    return text if text.startswith(("AMCL", "η")) else text[0].lower() + text[1:]


def _claims_table(findings: Sequence[Finding]) -> str:
    rows: list[list[str | Cell]] = []
    for finding in findings:
        claim = finding.claim
        where = f"[{_heading(claim.entry)}](#{claim.entry})"
        paper = _number(claim.paper, claim) + (f" ({claim.note})" if claim.note else "")
        seeds = str(len(finding.by_seed)) if finding.by_seed else ""
        rows.append([claim.text, where, paper, _here(finding), seeds, Cell(finding.verdict)])
    header = ["the paper's claim", "where", "gain in the paper", "here [95%]", "seeds", "verdict"]
    return Table(header, rows, left=len(header)).to_markdown().rstrip()


def _number(value: float | None, claim: Claim) -> str:
    if value is None:
        return claim.paper_words
    return f"{value:+.1f}"


def _here(finding: Finding) -> str:
    """Return mean ± standard deviation of the difference, and its interval."""
    if isinstance(finding, CostFinding) and finding.increases:
        increases = finding.increases.values()
        return f"{min(increases):+.1f} to {max(increases):+.1f}%"
    if not finding.by_seed:
        return ""
    decimals = 1 if finding.claim.scale == 100 else 3
    difference = finding.difference
    text = f"{difference.mean:+.{decimals}f}"
    if difference.std is not None:
        text += f" ± {difference.std:.{decimals}f}"
    if finding.interval is not None:
        low, high = finding.interval
        text += f" [{low:+.{decimals}f}, {high:+.{decimals}f}]"
    return text


def _heading(entry: str) -> str:
    """Return the heading of an entry.

    >>> _heading("table-3")
    'Table 3'
    """
    return entry.replace("-", " ").capitalize()


def _machine(made: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence on the machine and the versions."""
    speed = median(run["images_per_second"] for run in made if "images_per_second" in run)
    packages = made[-1]["packages"]
    versions = ", ".join(f"{name} {version}" for name, version in packages.items())
    return (
        f"One thread a run, float32; {versions}. A run had a median of {speed:,.0f} images a "
        "second, beside other work on the same machine."
    )


def _section(entry: Entry, tables: Sequence[FilledTable], runs: int, missing: int) -> list[str]:
    """Return the section of an entry.

    Args:
        entry: The entry.
        tables: Its tables, with the numbers that there are.
        runs: Number of its runs.
        missing: Number of those without a record.
    """
    scale = reproduction.SCALE.name
    parts = [f"## {_heading(entry.name)}", f"**{entry.title[0].upper()}{entry.title[1:]}.**"]
    if entry.count is not None:
        return [*parts, *_counted(entry.name), _command(f"amcl reproduce {entry.name}")]
    if missing:
        parts.append(
            f"**Not carried out yet** at scale `{scale}`: {missing} of {plural(runs, 'run')}."
        )
    if entry.detection:
        parts.append(
            "Detectors are trained and measured on drawn pictures of circles, squares and "
            "triangles, which say nothing of photographs."
        )
    if entry.name == "table-7" and missing == runs:
        parts.append(
            "These numbers were recorded at scale `cpu`, with one seed, by `amcl reproduce table-7 "
            "--scale cpu --seeds 1` ([in full](../benchmarks/results/table_7.csv); [what they "
            "say](detection.md))."
        )
    for table in tables:
        if table.pairs():
            parts += _table(entry.name, table, complete=not missing)
    return [*parts, _command(f"amcl reproduce {entry.name} --scale {scale} --jobs 2")]


def _table(entry: str, table: FilledTable, complete: bool) -> list[str]:
    """Return a table with its picture, and with the highest number if it is complete."""
    spec = table.spec
    parts = [f"### {spec.title}", spec.how_to_read]
    parts.append(f"![{spec.title}; the table has the numbers.](images/{picture_of(entry, table)})")
    parts += [conclusion_of(table)] if complete else []
    parts += [table.table().to_markdown().rstrip(), table.table().caption]
    parts += [f"Note: {note}" for note in (*spec.notes, *table.problems)]
    return [part for part in parts if part]


def _command(command: str) -> str:
    return f"```\n{command}\n```"


def counts() -> dict[str, Any]:
    """Return what has been counted of entries without runs."""
    if not reproduction.COUNTS.exists():
        return {}
    kept: dict[str, Any] = json.loads(reproduction.COUNTS.read_text(encoding="utf-8"))
    return kept


def _counted(name: str) -> list[str]:
    """Return the section of an entry that trains nothing."""
    kept = counts().get(name)
    if kept is None:
        return ["**Not carried out yet.**"]
    rows = [[Cell(text, note) for text, note in row] for row in kept["rows"]]
    table = Table(kept["header"], rows, left=kept["left"]).to_markdown().rstrip()
    parts = [f"Counted on the networks of {kept['networks']}: nothing is trained."]
    parts += [kept["how_to_read"]]
    parts += [
        f"![{ENTRIES[name].title}; the table has the numbers.](images/{picture}.png)"
        for picture in kept["pictures"]
    ]
    return [*parts, table, *(f"Note: {note}" for note in kept["notes"])]


def picture_of(entry: str, table: FilledTable) -> str:
    """Return the name of the picture of a table."""
    return f"reproduction-{entry}-{table.spec.name}.png"


def _in_picture(finding: Finding) -> bool:
    claim = finding.claim
    return claim.paper is not None and claim.scale == 100 and finding.interval is not None


def claims_chart(findings: Sequence[Finding]) -> "Figure":
    """Return a chart of the gains that the paper has numbers for, here and there."""
    shown = [finding for finding in findings if _in_picture(finding)]
    figure = figure_of(9.0, 1.0 + 0.3 * len(shown))
    ax = figure.subplots()
    ax.axvline(0, color=FAINT, lw=1)
    for row, finding in enumerate(shown):
        low, high = finding.interval or (0.0, 0.0)
        ax.plot([low, high], [row, row], color=BLUE, lw=2, label="here, 95%" if not row else None)
        ax.plot(finding.difference.mean, row, "o", color=BLUE, ms=5)
        label = "paper" if not row else None
        ax.plot(finding.claim.paper, row, "D", mfc="none", color=VERMILION, ms=6, label=label)
    ax.set_yticks(range(len(shown)), [plain(f.claim.text, 100) for f in shown])
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_xlabel("gain in points", fontsize=9)
    bare(ax)
    legend_below(figure)
    return figure


def pictures(filled: Mapping[str, Sequence[FilledTable]]) -> dict[str, tuple[str, Any]]:
    """Return the pictures by the names of their files: a digest of their numbers, and a function.

    Args:
        filled: The tables of all entries.
    """
    drawn: dict[str, tuple[str, Any]] = {}
    for entry, tables in filled.items():
        for table in tables:
            if table.pairs():
                source = _digest(numbers_table([table]).to_csv())
                drawn[picture_of(entry, table)] = (source, lambda t=table: chart(t))
    findings = findings_of(filled)
    if any(_in_picture(finding) for finding in findings):
        texts = [f"{f.claim.text} {f.claim.paper} {f.by_seed}" for f in findings]
        drawn["reproduction-claims.png"] = (
            _digest("\n".join(texts)),
            lambda: claims_chart(findings),
        )
    return drawn


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write() -> None:
    """Write the page, and the pictures whose numbers have changed."""
    records = reproduction.Records()
    PAGE.write_text(page(records), encoding="utf-8")
    for name, (source, draw) in pictures(tables_of(records)).items():
        path = PICTURES / name
        if not path.exists() or source_of(path) != source:
            draw().savefig(path, dpi=100, metadata={"Source": source})


def source_of(path: Path) -> str:
    """Return the digest of the numbers that a picture was drawn from."""
    with Image.open(path) as picture:
        return str(picture.info.get("Source", ""))


if __name__ == "__main__":
    write()
