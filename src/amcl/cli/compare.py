"""`amcl compare`: runs side by side, over seeds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.options import read_options
from amcl.cli.output import check_new_json, results_console, write_json
from amcl.results import Comparison, compare

HELP = Help(
    about="Show the results of evaluations of runs side by side.",
    examples=(
        (
            "Compare two methods over two seeds.",
            "amcl compare runs/simclr-0 runs/simclr-1 runs/amcl-0 runs/amcl-1",
        ),
        (
            "Show one number, as differences from a run.",
            "amcl compare runs/* --baseline runs/simclr-0 --metrics top1",
        ),
        (
            "Write everything to a file too.",
            "amcl compare runs/simclr-0 runs/amcl-0 --json compared.json",
        ),
    ),
    details="""Runs that differ in their seeds alone are one group, with mean ± standard
deviation. Differences from the baseline are paired by seed. Results come from `amcl evaluate
RUN`; numbers of different settings, data or images are never in one row.""",
)

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


@command("amcl compare")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(Compare, args, command="amcl compare", help=HELP)
    check_new_json(options.json)
    comparison = compare(options.runs, baseline=options.baseline, metrics=options.metrics)
    show(comparison)
    write_json(options.json, comparison.to_dict())


def show(comparison: Comparison) -> None:
    """Print the table, the runs behind it, and notes."""
    console = results_console()
    console.print(comparison.table().to_terminal(console.width, repeat=2))
    lines = ["", *comparison.describe(), CAPTION]
    if len(comparison.groups) > 1:
        lines.append(DIFFERENCES.format(baseline=comparison.names[0]))
    for line in [*lines, *(f"- {note}" for note in comparison.notes)]:
        console.print(line, markup=False)
