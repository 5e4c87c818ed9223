"""`amcl embed`: the features of images, with their file names, in one file."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.model import Model, ModelOptions
from amcl.cli.options import read_options
from amcl.cli.output import print_line
from amcl.evaluation.embed import embed
from amcl.training.display import log_to_console
from amcl.training.hardware import set_threads

logger = logging.getLogger("amcl")


HELP = Help(
    about="Write the features of images, their file names, and their labels where they have any.",
    examples=(
        ("Write arrays for NumPy.", "amcl embed runs/first --data FOLDER --out features.npz"),
        ("Write a table.", "amcl embed runs/first --data FOLDER --out features.csv"),
        ("Take published weights.", "amcl embed timm:resnet50 --data FOLDER --out features.npz"),
    ),
    main=("data", "out", "image-size", "canvas", "crop", "workers", "accelerator", "threads"),
)


@dataclass(frozen=True, kw_only=True)
class Embed:
    """Options of `amcl embed`."""

    model: Model
    data: Annotated[str, tyro.conf.arg(metavar="FOLDER|NAME")]
    """A folder of images in any nesting, shards, tables, or builtin, cifar10, cifar100, stl10."""
    out: Path
    """The file to write, new: .csv (file, label, f0, f1, …), .npz or .parquet; labels where images
    lie in a folder for each class."""
    data_root: Path | None = None
    """Where named sets lie; none: $AMCL_DATA, or ~/.cache/amcl."""
    canvas: int | None = None
    """Pixels a side that pictures are decoded to; none: 1.5 times the input."""
    crop: float | None = None
    """A central square of this share of the shorter side, 0: all of the picture; none: 0.875 where
    pictures are decoded larger than inputs of more than 64 pixels, else all."""
    workers: int | None = None
    """Processes that decode pictures; none: one a core, at most 8."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: a GPU where there is one."""
    threads: int = 0
    """CPU threads; 0: as torch chooses."""
    weights: Annotated[ModelOptions, tyro.conf.OmitArgPrefixes] = field(
        default_factory=ModelOptions
    )


@command("amcl embed")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(Embed, args, command="amcl embed", help=HELP)
    log_to_console()
    set_threads(options.threads)
    features = embed(
        options.weights.open(options.model),
        options.data,
        options.out,
        data_root=options.data_root,
        canvas=options.canvas,
        crop=options.crop,
        workers=options.workers,
        accelerator=options.accelerator,
    )
    for path, reason in features.unreadable:
        logger.warning("left out %s: %s", path, reason)
    n, dim = features.values.shape
    print_line(f"features of {n:,} images, {dim} numbers each: {options.out}")
