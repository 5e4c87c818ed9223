"""`amcl compare`: runs side by side, over seeds."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from amcl.cli.options import read_options
from amcl.cli.pretrain import attempt
from amcl.cli.tables import results_console
from amcl.evaluation.compare import Comparison, compare
from amcl.files import write_text

DESCRIPTION = """Show what evaluations of runs found, side by side.

amcl compare runs/simclr-0 runs/simclr-1 runs/amcl-0 runs/amcl-1

amcl compare runs/* --baseline runs/simclr-0 --metrics top1 --json compared.json

Runs that differ in their seeds alone are one group, with mean ± standard deviation. Differences
from the baseline are paired by seed. Results come from `amcl evaluate RUN`; numbers of different
settings, data or images are never in one row."""

CAPTION = (
    "± is the standard deviation over n runs. In brackets behind the accuracy of one run is its "
    "95 % binomial interval, by the number of images."
)
DIFFERENCES = (
    "Differences are from {baseline}, paired by seed; in brackets is the 95 % interval of "
    "Student's t for their mean. Groups cannot be told apart where it includes 0. ▲ marks the "
    "best of a row where it is told apart from all others."
)


@dataclass(frozen=True, kw_only=True)
class Compare:
    """What `amcl compare` takes."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders with results of `amcl evaluate`."""
    baseline: Path | None = None
    """A run of the group that others are compared with; none: the first run."""
    metrics: tuple[str, ...] = ()
    """Only these, such as top1; none: accuracies; all: these first, then everything else."""
    json: Path | None = None
    """Write all of it to this new file too."""


def main(args: list[str]) -> int:
    """Run the command; returns the exit code."""
    return attempt("amcl compare", lambda: _compare(args))


def _compare(args: list[str]) -> None:
    options = read_options(Compare, args, command="amcl compare", description=DESCRIPTION)
    if options.json is not None and options.json.exists():
        raise ValueError(f"{options.json} exists already: choose another file for --json.")
    found = compare(options.runs, baseline=options.baseline, metrics=options.metrics)
    show(found)
    if options.json is not None:
        text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        write_text(options.json, text + "\n")


def show(found: Comparison) -> None:
    """Tables, which runs they are of, and notes."""
    console = results_console()
    for table in found.tables(console.width):
        console.print(table)
        console.print()
    for group in found.groups:
        console.print(group.describe(), markup=False)
    console.print(CAPTION, markup=False)
    if len(found.groups) > 1:
        console.print(DIFFERENCES.format(baseline=found.groups[0].name), markup=False)
    for note in found.notes:
        console.print(f"- {note}", markup=False)
