"""`amcl predict`: a fine-tuned classifier on new pictures."""

import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.options import read_options
from amcl.cli.output import print_line
from amcl.evaluation.predict import find_classifier, predict
from amcl.training.display import log_to_console
from amcl.training.hardware import set_threads

logger = logging.getLogger("amcl")


HELP = Help(
    about="Name the classes of new pictures, by a classifier that `amcl evaluate` has fine-tuned.",
    examples=(
        ("Fine-tune a classifier first.", "amcl evaluate runs/first --protocols finetune"),
        (
            "Name the likeliest class of each picture.",
            "amcl predict runs/first --data FOLDER --out predictions.csv",
        ),
        (
            "Name the three likeliest.",
            "amcl predict runs/first --data FOLDER --out predictions.csv --top 3",
        ),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Predict:
    """Options of `amcl predict`."""

    model: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="MODEL",
            help="The .safetensors file of a classifier, or a run folder: its newest classifier.",
        ),
    ]
    data: Annotated[str, tyro.conf.arg(metavar="FOLDER|NAME")]
    """A folder of images in any nesting, shards, tables, or builtin, cifar10, cifar100, stl10."""
    out: Path
    """The .csv file to write, new: file, class, probability."""
    top: int = 1
    """How many classes are given for each picture, the likeliest first."""
    data_root: Path | None = None
    """Where named sets lie; none: $AMCL_DATA, or ~/.cache/amcl."""
    canvas: int | None = None
    """Pixels a side that pictures are decoded to; none: 1.5 times the input."""
    workers: int | None = None
    """Processes that decode pictures; none: one a core, at most 8."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: a GPU where there is one."""
    threads: int = 0
    """CPU threads; 0: as torch chooses."""


@command("amcl predict")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(Predict, args, command="amcl predict", help=HELP)
    log_to_console()
    set_threads(options.threads)
    path = find_classifier(options.model)
    logger.info("classifier: %s", path)
    predictions = predict(
        path,
        options.data,
        options.out,
        top=options.top,
        data_root=options.data_root,
        canvas=options.canvas,
        workers=options.workers,
        accelerator=options.accelerator,
    )
    for file, reason in predictions.unreadable:
        logger.warning("left out %s: %s", file, reason)
    counts = Counter(predictions.classes[i] for i in predictions.likeliest[:, 0].tolist())
    largest = ", ".join(f"{name} {count:,}" for name, count in counts.most_common(10))
    print_line(f"classes of {len(predictions.files):,} images ({largest}): {options.out}")
