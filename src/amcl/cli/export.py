"""`amcl export`: a model as files for other tools."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from amcl.checkpoints.export import export
from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.model import Model, ModelOptions
from amcl.cli.options import read_options
from amcl.training.display import log_to_console
from amcl.training.hardware import set_threads

logger = logging.getLogger("amcl")


HELP = Help(
    about="Write a model for other tools: safetensors with timm's keys, a model card, and ONNX.",
    examples=(
        ("Export a run into RUN/export.", "amcl export runs/first"),
        ("Write ONNX too.", "amcl export runs/first --out FOLDER --onnx"),
        (
            "Export an earlier checkpoint.",
            "amcl export runs/first/checkpoints/epoch-0100.pt --out FOLDER",
        ),
    ),
    main=("out", "onnx", "heads", "overwrite", "threads"),
)


@dataclass(frozen=True, kw_only=True)
class Export:
    """Options of `amcl export`."""

    model: Model
    out: Path | None = None
    """A new folder; none: RUN/export."""
    onnx: bool = False
    """Write backbone.onnx too, checked by onnxruntime (extra: onnx)."""
    heads: bool = True
    """Write method.safetensors too, with heads and φ, where the run has a checkpoint."""
    threads: int = 0
    """CPU threads; 0: as torch chooses."""
    overwrite: bool = False
    """Replace files of an earlier export of this run; files that you edited are kept."""
    weights: Annotated[ModelOptions, tyro.conf.OmitArgPrefixes] = field(
        default_factory=ModelOptions
    )


@command("amcl export")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(Export, args, command="amcl export", help=HELP)
    log_to_console()
    set_threads(options.threads)
    model = options.weights.open(options.model)
    paths = export(
        model,
        options.out,
        onnx=options.onnx,
        heads=options.heads,
        overwrite=options.overwrite,
    )
    if options.heads and model.checkpoint is None:
        logger.info("%s: no checkpoint, so no heads to export", model.name)
    for path in paths:
        print(path)
    weights = paths[0].parent / "backbone.safetensors"
    print(f"\nTo load it:\n\n{model.backbone.code(str(weights))}")
