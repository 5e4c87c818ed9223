"""`amcl compare`: runs side by side, over seeds."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from amcl.cli.options import read_options
from amcl.cli.pretrain import attempt
from amcl.cli.tables import results_console
from amcl.files import write_text
from amcl.results import Comparison, compare

DESCRIPTION = """Show the results of evaluations of runs side by side.

amcl compare runs/simclr-0 runs/simclr-1 runs/amcl-0 runs/amcl-1

amcl compare runs/* --baseline runs/simclr-0 --metrics top1 --json compared.json

Runs that differ in their seeds alone are one group, with mean ± standard deviation. Differences
from the baseline are paired by seed. Results come from `amcl evaluate RUN`; numbers of different
settings, data or images are never in one row."""

CAPTION = (
    "± is the standard deviation over n runs. In brackets behind the accuracy of one run is its "
    "95% binomial interval, by the number of images."
)
DIFFERENCES = (
    "Differences are from {baseline}, paired by seed; in brackets is the 95% interval of "
    "Student's t for their mean. Groups cannot be told apart where it includes 0. ▲ marks the "
    "best of a row where it is told apart from all others."
)


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Options of `amcl compare`."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders with results of `amcl evaluate`."""
    baseline: Path | None = None
    """A run of the group that others are compared with; none: the first run."""
    metrics: tuple[str, ...] = ()
    """Only these, such as top1; none: accuracies; all: these first, then everything else."""
    json: Path | None = None
    """Write all of it to this new file too."""


def main(args: list[str]) -> int:
    """Run the command and return the exit code."""
    return attempt("amcl compare", lambda: _compare(args))


def _compare(args: list[str]) -> None:
    options = read_options(Compare, args, command="amcl compare", description=DESCRIPTION)
    if options.json is not None and options.json.exists():
        raise ValueError(f"{options.json} exists already: choose another file for --json.")
    comparison = compare(options.runs, baseline=options.baseline, metrics=options.metrics)
    show(comparison)
    if options.json is not None:
        text = json.dumps(comparison.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        write_text(options.json, text + "\n")


def show(comparison: Comparison) -> None:
    """Print the table, the runs behind it, and notes."""
    console = results_console()
    console.print(comparison.table().to_terminal(console.width, repeat=2))
    lines = ["", *comparison.describe(), CAPTION]
    if len(comparison.groups) > 1:
        lines.append(DIFFERENCES.format(baseline=comparison.names[0]))
    for line in [*lines, *(f"- {note}" for note in comparison.notes)]:
        console.print(line, markup=False)
