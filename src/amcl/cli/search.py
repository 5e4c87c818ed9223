"""`amcl search`: settings found by trials, judged on validation images."""

import logging
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.output import print_line, results_console
from amcl.cli.start import (
    Start,
    base_config,
    peek,
    read_training_options,
    refuse_unused,
    require_images,
)
from amcl.config import Config
from amcl.search.folder import TRIALS, Pruner, SearchFolder
from amcl.search.objective import Objective
from amcl.training.display import log_to_console

HELP = Help(
    about="Find the settings that serve best on held-out images: the paper's 25 trials.",
    examples=(
        (
            "Search the paper's space.",
            "amcl search --recipe cifar10-simclr-amcl --trials 25 --out studies/first",
        ),
        (
            "Search your own space.",
            "amcl search --data FOLDER --space tau=0.05:0.5:log lr=1e-3:1e-1:log --out studies/tau",
        ),
        (
            "Run two short trials at once.",
            "amcl search --recipe builtin-simclr-amcl --epochs 10 --probe-every 2 --jobs 2 "
            "--out studies/toy",
        ),
        ("Resume a study with more trials.", "amcl search --out studies/first --trials 50"),
    ),
    details="""Trials start from the settings that the other options give, which are those of
`amcl pretrain`, and differ in the fields of the space. They are judged at their last epoch on
images held out of the training images, never on the test split. A study in --out is resumed.

At its end: best.toml, for `amcl pretrain --config`, trials.csv, summary.md and pictures. Trials
that cannot be told apart from the best are named; of those within one standard error, the one
that changes the least is chosen.""",
    main=(
        "out",
        "data",
        "recipe",
        "method",
        "trials",
        "space",
        "epochs",
        "objective",
        "pruner",
        "jobs",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Options(Start):
    """Options of `amcl search`."""

    out: Path
    """Folder of the study; one that exists is resumed."""
    trials: int = TRIALS
    """Number of trials that the study is to have in all; a resumed study remembers it."""
    space: tuple[str, ...] = ()
    """Fields and where to look, as in lr=1e-3:1:log heads=2:6 form=softmax,top_k; the word paper,
    or nothing, is the paper's space of η, ι, β, C and κ."""
    objective: Literal["auto", Objective] = "auto"
    """What trials are judged by; auto: kNN, or where there are no labels the effective rank."""
    pruner: Literal["auto", Pruner] = "auto"
    """Which trials are cut short, by their probes: those below the median of others (also auto),
    by successive halving, or with off no trial."""
    storage: str = ""
    """Database of the study, as Optuna takes it, or a journal on a shared folder (a path that
    ends in .journal), for several machines; none: a file in --out."""
    study: str | None = None
    """Name of the study in the database; none: that of the folder."""
    jobs: int = 1
    """Trials at once, each with its share of the cores, or a GPU of its own if there are some."""
    keep_checkpoints: bool = False
    """Keep the checkpoints of trials that have ended; their backbones are kept in any case. A trial
    that was interrupted keeps its checkpoint until it has ended."""


def parse(args: list[str]) -> Options:
    """Return the options, on top of the recipe, file or study that they start from."""
    folder = SearchFolder(Path(peek(args).out or ""))
    stored = Config.from_file(folder.base) if folder.exists() else None
    base = base_config(args, stored)
    options = read_training_options(
        Options,
        args,
        base,
        command="amcl search",
        help=HELP,
        out=tyro.MISSING,
        trials=folder.trials(),
    )
    varied = [entry.partition("=")[0].replace("-", "_") for entry in options.space]
    refuse_unused([(base, options.settings)], args, varied)
    require_images(options.settings)
    return options


@command("amcl search", "The same command resumes.")
def main(args: list[str]) -> None:
    """Run the command."""
    options = parse(args)
    from amcl.search.study import search
    from amcl.search.summary import table

    log_to_console(logging.ERROR)
    result = search(
        options.settings,
        options.out,
        trials=options.trials,
        space=options.space or None,
        objective=None if options.objective == "auto" else options.objective,
        pruner=None if options.pruner == "auto" else options.pruner,
        storage=options.storage,
        study=options.study,
        jobs=options.jobs,
        keep_checkpoints=options.keep_checkpoints,
        tell=print_line,
    )
    results = results_console()
    trials = table(result.records, result.definition.objective)
    results.print(trials.to_terminal(results.width))
    folder = SearchFolder(options.out)
    files = f"everything is in {folder.path}: trials.csv, summary.md, pictures"
    if result.verdict is None:
        print_line(f"{files}; no trial was complete, and so there is none to train with", results)
    else:
        print_line(" ".join(result.verdict.sentences()), results)
        print_line(files, results)
        number = int(result.verdict.chosen.name)
        config = shlex.quote(str(folder.best))
        print_line(
            f"train with the settings of trial {number}: amcl pretrain --config {config}", results
        )
    if (running := options.trials - len(result.records)) > 0:
        print_line(f"{running} of {options.trials} trials are running in other processes", results)
