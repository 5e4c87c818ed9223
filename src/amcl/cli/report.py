"""`amcl report`: one page of pictures on what runs have learned."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.options import read_options
from amcl.cli.output import print_line, results_console
from amcl.report import ReportSettings, report
from amcl.training.display import log_to_console
from amcl.training.hardware import set_threads

HELP = Help(
    about="Show what a run has learned, on one page of pictures.",
    examples=(
        ("Show a run.", "amcl report runs/first"),
        ("Show two runs side by side.", "amcl report runs/simclr runs/amcl --out compared.html"),
        (
            "Take more images, and another map of them.",
            "amcl report runs/first --images 1000 --map umap",
        ),
    ),
    details="""The page is one HTML file that needs nothing else: curves, similarities of pairs,
temperatures, what heads see, pairs and neighbors to look at, a map of the images, cost, settings.
What needs labels is left out where there are none; an unfinished run is shown as far as it is.""",
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `amcl report`."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Run folders."""
    out: Path | None = None
    """The page; none: report.html in the run folder, for several runs in the working folder."""
    threads: int = 0
    """CPU threads; 0: as torch chooses."""
    settings: Annotated[ReportSettings, tyro.conf.OmitArgPrefixes] = field(
        default_factory=ReportSettings
    )


@command("amcl report")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(Options, args, command="amcl report", help=HELP)
    log_to_console(logging.WARNING)
    set_threads(options.threads)
    path = report(options.runs, options.out, options.settings)
    size = path.stat().st_size / 2**20
    print_line(f"{path} ({size:.1f} MiB): open it in a browser", results_console())
