"""`amcl detect`: a detector, trained from a backbone and measured."""

import logging
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from amcl.checkpoints.evaluations import Result, describe
from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.model import Model, NetworkOptions
from amcl.cli.options import read_options
from amcl.cli.output import print_line, results_console
from amcl.config import HardwareSettings
from amcl.data import default_workers
from amcl.evaluation import DetectionSettings, Evaluation
from amcl.evaluation.build import results_folder
from amcl.metrics.features import Transform
from amcl.results.precision import precision_table
from amcl.settings import non_negative_int
from amcl.training.display import log_to_console
from amcl.training.hardware import make_fabric
from amcl.training.ranks import shared_errors

logger = logging.getLogger("amcl")

HELP = Help(
    about="Train a detector from a backbone on annotated images, and measure it.",
    examples=(
        ("Train a detector from a run.", "amcl detect runs/first --data FOLDER"),
        (
            "Train one in minutes, on built-in pictures of shapes.",
            "amcl detect runs/first --data builtin --epochs 6",
        ),
        (
            "Start from random weights, to compare.",
            "amcl detect resnet18 --scratch --data FOLDER --out detections/scratch",
        ),
    ),
    details="""The detector is Mask R-CNN, or Faster R-CNN where the annotations have no masks.
All its weights are trained; --scratch starts from random ones, for comparison. The folder of
--data has images and annotations in COCO's layout.

The result is that of the last epoch, on the test images: a table on screen, a JSON file in
RUN/evaluation, and beside it a folder with the detector, its detections and pictures of them. The
same command resumes a training that was stopped, and does nothing where the result is there.""",
    main=(
        "data",
        "out",
        "scratch",
        "epochs",
        "batch-size",
        "image-size",
        "lr",
        "subset",
        "seed",
        "accelerator",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """What it runs on; none of this is part of the result."""

    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: a GPU where there is one."""
    devices: int = 0
    """Processes a machine, one a GPU; 0: every GPU, or one process on a CPU."""
    nodes: int = 1
    """Machines, under torchrun or SLURM."""
    precision: Literal["auto", "32", "16", "bf16"] = "auto"
    """auto: bf16 where a GPU has it, else 32. On a CPU always 32."""
    threads: int = 0
    """CPU threads a process; 0: as torch chooses."""
    workers: int | None = None
    """Processes that read images; none: one a core, at most 8."""

    def __post_init__(self) -> None:
        self.settings()  # so that its errors name options
        if self.workers is not None:
            non_negative_int("workers", self.workers, "0 reads in the main process")

    def settings(self) -> HardwareSettings:
        """Return them as every training takes them."""
        return HardwareSettings(
            accelerator=self.accelerator,
            devices=self.devices,
            nodes=self.nodes,
            precision=self.precision,
            threads=self.threads,
        )


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `amcl detect`."""

    model: Model
    out: Path | None = None
    """Folder of results; none: the run folder, and detections/MODEL for other models."""
    seed: int = 0
    """Order, jitter and new weights follow from it."""
    detection: Annotated[DetectionSettings, tyro.conf.OmitArgPrefixes] = field(
        default_factory=DetectionSettings
    )
    hardware: Annotated[Hardware, tyro.conf.OmitArgPrefixes] = field(default_factory=Hardware)
    weights: Annotated[NetworkOptions, tyro.conf.OmitArgPrefixes] = field(
        default_factory=NetworkOptions
    )


@command("amcl detect", "The same command resumes.")
def main(args: list[str]) -> None:
    """Run the command."""
    options = read_options(Options, args, command="amcl detect", help=HELP)
    options.detection.check()
    hardware = options.hardware
    fabric = make_fabric(hardware.settings())
    fabric.launch()
    log_to_console(logging.INFO if fabric.is_global_zero else logging.WARNING)
    with shared_errors():
        model = options.weights.open(options.model, options.seed)
        if model.untrained and not options.detection.scratch:
            raise ValueError(
                f"{options.model} is a timm model with random weights: --scratch trains a detector "
                "from them, --pretrained fetches timm's own."
            )
        folder = results_folder(model, options.out)
        if folder is None:
            folder = Path("detections") / Path(options.model).stem
            logger.info("%s is no run: results go to %s (--out)", model.name, folder)
        size = model.backbone.image_size
        evaluation = Evaluation(
            model.backbone,
            None,
            Transform(image_size=size, mean=model.mean, std=model.std),
            name=model.name,
            notes=model.notes,
            settings={"detect": options.detection},
            device=fabric.device,
            workers=default_workers() if hardware.workers is None else hardware.workers,
            seed=options.seed,
            folder=folder,
            fabric=fabric,
        )
        result = evaluation.run("detect")
    if fabric.is_global_zero:
        show(result, model.name, folder)


def show(result: Result, name: str, folder: Path) -> None:
    """Print the precisions, and the files that were written."""
    console = results_console()
    console.print()
    print_line(f"{name} on {result.data}, {result.split}, in %", console)
    console.print(precision_table(result).to_terminal(console.width))
    print_line(describe(result), console)
    path = result.path(folder)
    print_line(f"\nkept in {path}\ndetector, detections, pictures: {path.with_suffix('')}", console)
    if (folder / "config.toml").is_file():
        print_line(f"to see pictures: amcl report {shlex.quote(str(folder))}", console)
