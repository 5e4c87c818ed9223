"""`amcl pretrain`: from images to a trained backbone."""

import logging
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from amcl.cli.cautions import cautions
from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.output import print_line
from amcl.cli.start import (
    Start,
    base_config,
    length_notes,
    read_training_options,
    refuse_unused,
    require_images,
    start_notes,
)
from amcl.config import Config
from amcl.config.fields import differing
from amcl.config.options import values_of
from amcl.files import free_path
from amcl.training import pretrain
from amcl.training.display import log_to_console

logger = logging.getLogger("amcl")

HELP = Help(
    about="Train a backbone on images, labeled or not.",
    examples=(
        ("Train on your own pictures.", "amcl pretrain --data FOLDER --out runs/first"),
        ("Train MoCo on a named data set.", "amcl pretrain --data cifar10 --method moco"),
        (
            "Train it as published, without AMCL.",
            "amcl pretrain --data cifar10 --method moco --plain",
        ),
        (
            "Continue from published weights.",
            "amcl pretrain --data FOLDER --init timm:vit_small_patch14_dinov2",
        ),
        ("Resume a run, and make it longer.", "amcl pretrain --resume runs/first --epochs 400"),
    ),
    details="""A method is trained with three heads and adaptive temperatures (AMCL); with
--plain as published, with one head and a constant temperature.

Without --recipe and --config, settings start from the recipe of the data set and method, and the
defaults below are those: `amcl pretrain --data FOLDER --help-all` shows the defaults for a
folder, `--method METHOD --help-all` the options of a method.

With --init, training continues from trained weights: a run, a checkpoint, a file, timm:NAME,
hf:OWNER/NAME or torchvision:NAME. Network and images are by default those of that run or model,
and settings those of the recipe of continued pre-training.""",
    main=(
        "data",
        "out",
        "method",
        "plain",
        "amcl",
        "backbone",
        "image-size",
        "epochs",
        "batch-size",
        "init",
        "resume",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Options(Start):
    """Options of `amcl pretrain`."""

    resume: Path | None = None
    """Resume the run in this folder. --epochs may make it longer; options of hardware, saving
    and logging may change too, all others may not."""
    accept_changes: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """With --resume: resume though images, settings or amcl have changed since the checkpoint."""
    out: Path | None = None
    """The run folder, new or empty; none: runs/DATA-METHOD, with the temperature unless it is
    constant, and numbered if it exists."""


@command("amcl pretrain", "A run resumes from its last checkpoint with --resume.")
def main(args: list[str]) -> None:
    """Run the command."""
    options = parse(args)
    log_to_console()
    if options.resume is not None:
        pretrain(
            options.settings,
            options.resume,
            resume=True,
            accept_changes=options.accept_changes,
        )
        return
    for caution in cautions(options.settings):
        logger.warning(caution)
    out = options.out or free_folder(options.settings)
    if os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0":
        notes = [*start_notes(args, options.settings), *length_notes(args)]
        for line in (f"run folder: {out}", *notes):
            print_line(line)
    pretrain(options.settings, out)


def parse(args: list[str]) -> Options:
    """Return the options, on top of the recipe, file or run that they start from."""
    base = base_config(args)
    options = read_training_options(Options, args, base, command="amcl pretrain", help=HELP)
    if options.resume is not None:
        _check_resumable(base, options)
    elif options.accept_changes:
        raise ValueError("--accept-changes belongs to --resume RUN: leave it out of a new run.")
    refuse_unused([(base, options.settings)], args)
    require_images(options.settings)
    return options


def free_folder(config: Config) -> Path:
    """Return a new folder in `runs`, named after the data, the method and its temperature."""
    data = re.sub(r"\W+", "-", config.data.name) or "images"
    name = f"{data}-{config.method.name}"
    temperature = values_of(config).get("temperature", "constant")
    if temperature != "constant":
        name += f"-{temperature}"
    return free_path(Path("runs") / name)


def _check_resumable(base: Config, options: Options) -> None:
    """Raise an error if a resumed run would learn something else, but for its length."""
    changed = [
        f"--{name.replace('_', '-')}"
        for name in differing(base, options.settings)
        if name != "epochs"
    ]
    if options.out is not None:
        changed.insert(0, "--out")
    if changed:
        run = shlex.quote(str(options.resume))
        raise ValueError(
            f"a run resumes as it began, and {', '.join(changed)} would change it: leave that out, "
            f"or start a new run from its settings with --config {run}/config.toml, or from its "
            f"backbone with --init {run}."
        )
