"""`amcl analyze`: the effect of a setting on what is learned."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from amcl.cli import analyze_run
from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.output import print_line, results_console, show_page
from amcl.cli.start import (
    Start,
    base_config,
    read_training_options,
    refuse_unused,
    require_images,
)
from amcl.config.toml import unknown
from amcl.experiments import ANALYSES, analyze
from amcl.redaction import redact_command
from amcl.sweep.evaluate import Split
from amcl.training.display import log_to_console

_LISTED = "\n\n".join(f"{a.name}: {a.question}" for a in ANALYSES.values())
HELP = Help(
    about="Measure the effect of a setting, with and without AMCL: runs, a table and a page.",
    examples=(
        ("How many heads?", "amcl analyze heads --data builtin --epochs 10 --out analyses/first"),
        (
            "How far may crops lie apart?",
            "amcl analyze overlap --data FOLDER --values 0.3 0.6 0.9 --out analyses/crops",
        ),
        (
            "Use three seeds, two runs at once.",
            "amcl analyze heads --data cifar10 --seeds 0 1 2 --jobs 2 --out analyses/heads",
        ),
    ),
    details=f"""`amcl analyze overlap RUN` looks at a trained run instead.

The analyses:

{_LISTED}

The same command resumes where it was stopped; other analyses with the same settings and --out
share its runs. Costs need no runs: `amcl cost`. Other options are those of `amcl pretrain`.""",
    main=("out", "values", "metric", "seeds", "split", "jobs", "data", "method", "epochs", "again"),
)


@dataclass(frozen=True, kw_only=True)
class Options(Start):
    """Options of `amcl analyze`."""

    name: Annotated[str, tyro.conf.Positional]
    """Which analysis."""
    out: Path
    """Where runs go, and the page with its table and pictures, in a folder of the analysis."""
    values: tuple[str, ...] = ()
    """Values to try; none: those of the analysis. κ: numbers or shares, as 10%; backbones:
    own, or names with a width, as resnet18*0.5."""
    metric: Literal["knn", "linear", "auroc"] = "knn"
    """What is compared: accuracy by kNN or a linear probe; without labels, how often a positive
    pair is more alike than a negative one."""
    seeds: tuple[int, ...] = (0,)
    """The seeds of the runs."""
    split: Split = "validation"
    """The split that runs are judged on. Choose settings by validation, and report on test."""
    jobs: int = 1
    """Runs at once, each with its share of the cores, and a GPU of its own where there are some."""
    again: bool = False
    """Repeat runs that diverged or failed."""


def parse(args: list[str]) -> Options | analyze_run.Options:
    """Return the options: of an analysis of a run, or on top of what its runs start from."""
    if _names_run(args):
        return analyze_run.parse(args[1:])
    if args and not args[0].startswith("-"):
        _check_name(args[0])  # before anything else that may be wrong
    base = base_config(args)
    options = read_training_options(
        Options,
        args,
        base,
        command="amcl analyze",
        help=HELP,
        name=tyro.MISSING,
        out=tyro.MISSING,
    )
    _check_name(options.name)
    # Its runs are with and without AMCL, and differ in the setting that is analyzed.
    varied = ("heads", "temperature", "form", "views")
    refuse_unused([(base, options.settings)], args, varied)
    require_images(options.settings)
    return options


def _check_name(name: str) -> None:
    if name not in ANALYSES:
        raise ValueError(unknown(f"the analysis {name!r} is asked for", name, ANALYSES))


def _names_run(args: list[str]) -> bool:
    """Return whether the analysis is one of a run, which is named behind it."""
    if len(args) < 2 or args[0].startswith("-") or args[1].startswith("-"):
        return False
    _check_name(args[0])
    if args[0] != "overlap":
        raise ValueError(
            f"{args[0]} trains runs of its own: leave out {args[1]}. Only overlap looks at a run."
        )
    return True


@command("amcl analyze", "The same command resumes.")
def main(args: list[str]) -> None:
    """Run the command."""
    options = parse(args)
    if isinstance(options, analyze_run.Options):
        analyze_run.run(options)
        return
    log_to_console(logging.ERROR)
    page = analyze(
        options.name,
        options.settings,
        options.out,
        values=options.values,
        metric=options.metric,
        seeds=options.seeds,
        split=options.split,
        jobs=options.jobs,
        again=options.again,
        command=redact_command(["amcl", "analyze", *args]),
        tell=print_line,
    )
    show_page(page, results_console())
