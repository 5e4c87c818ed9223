"""`amcl evaluate`: how good a backbone is."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from amcl.cli.model import Model, ModelOptions
from amcl.cli.options import read_options
from amcl.cli.pretrain import attempt
from amcl.cli.tables import results_console
from amcl.evaluation import PROTOCOLS, Evaluation, Protocol, Protocols, Result
from amcl.evaluation.results import table
from amcl.models.evaluate import JudgedOn, evaluation_of, settings_of
from amcl.training.display import log_to_console

logger = logging.getLogger("amcl")

DESCRIPTION = """Judge a backbone: a run, a file of weights, or any timm model.

amcl evaluate runs/first

amcl evaluate runs/first --data cifar10 --protocols knn linear few-labels

amcl evaluate runs/first/checkpoints/last.pt --protocols knn --knn.k 20

amcl evaluate weights.pth --backbone resnet50 --data FOLDER

amcl evaluate resnet18 --pretrained --data FOLDER

A run is judged on the data it was trained on unless --data names others. The table comes on screen;
each result is kept as JSON in RUN/evaluation, features in RUN/features. What a protocol chooses is
chosen on a hold-out of the training images, never on those it is judged on."""

USUAL: tuple[Protocol, ...] = ("knn", "linear", "unlabelled")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `amcl evaluate` takes."""

    model: Model
    protocols: tuple[Protocol, ...] = ()
    """Which to run; none: knn, linear and unlabelled, the last alone where there are no labels."""
    out: Path | None = None
    """Where results and features are kept; none: the run folder, and nowhere for other models."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: a GPU where there is one."""
    precision: Literal["32", "bf16"] = "32"
    """bf16: fine-tune in bfloat16, on a GPU."""
    seed: int = 0
    """Order, draws and views follow from it; it is stored with each result."""
    images: Annotated[JudgedOn, tyro.conf.OmitArgPrefixes] = field(default_factory=JudgedOn)
    weights: Annotated[ModelOptions, tyro.conf.OmitArgPrefixes] = field(
        default_factory=ModelOptions
    )
    settings: Annotated[Protocols, tyro.conf.arg(name="")] = field(default_factory=Protocols)


def main(args: list[str]) -> int:
    """Run the command; returns the exit code."""
    goes_on = "The same command goes on: features are kept, fine-tuning from its last checkpoint."
    return attempt("amcl evaluate", lambda: _evaluate(args), goes_on)


def parse(args: list[str], settings: Protocols | None = None) -> Options:
    """The options of a command line, on top of settings of protocols."""
    default = Options(model=tyro.MISSING, settings=settings or Protocols())
    return read_options(
        Options, args, command="amcl evaluate", description=DESCRIPTION, default=default
    )


def _evaluate(args: list[str]) -> None:
    options = parse(args)
    log_to_console()
    subject = options.weights.open(options.model, options.seed)
    options = parse(args, settings_of(subject))  # what a run says comes before our defaults
    evaluation = evaluation_of(
        subject,
        options.images,
        settings=options.settings,
        accelerator=options.accelerator,
        precision=options.precision,
        seed=options.seed,
        folder=options.out,
    )
    show(evaluation, run_all(evaluation, options.protocols))


def run_all(evaluation: Evaluation, protocols: tuple[Protocol, ...]) -> list[Result]:
    """The results of protocols; of the usual ones, those that the data allow, if none is named."""
    chosen = protocols or USUAL
    if not protocols and evaluation.data.probe is None:
        chosen = ("unlabelled",)
        logger.info("no labels in use: %s", "; ".join(evaluation.data.notes) or "labels are off")
    results = []
    for protocol in PROTOCOLS:
        if protocol in chosen:
            logger.info("%s …", protocol)
            results.append(evaluation.run(protocol))
    return results


def show(evaluation: Evaluation, results: list[Result]) -> None:
    """The table, and where everything lies."""
    console = results_console()
    console.print()
    console.print(table(results, evaluation.name))
    if evaluation.folder is not None:
        console.print(f"\nkept in {evaluation.folder / 'evaluation'}", soft_wrap=True, markup=False)
