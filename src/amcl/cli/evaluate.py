"""`amcl evaluate`: how good a backbone is."""

import difflib
import logging
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal, cast

import tyro

from amcl.checkpoints.evaluations import table
from amcl.cli.model import Model, ModelOptions
from amcl.cli.options import read_options
from amcl.cli.pretrain import attempt
from amcl.cli.tables import results_console
from amcl.errors import NonFiniteError, RunError
from amcl.evaluation import PROTOCOLS, Evaluation, Protocol, Protocols, Result
from amcl.evaluation.model import JudgedOn, evaluation_of, settings_of
from amcl.training.display import log_to_console
from amcl.training.hardware import set_threads

logger = logging.getLogger("amcl")

DESCRIPTION = """Judge a backbone: a run, a file of weights, or any timm model.

amcl evaluate runs/first

amcl evaluate runs/first --data cifar10 --protocols knn linear few-labels

amcl evaluate runs/first/checkpoints/last.pt --protocols knn --knn.k 20

amcl evaluate weights.pth --backbone resnet50 --data FOLDER

amcl evaluate resnet18 --pretrained --data FOLDER

A run is judged on the data it was trained on unless --data names others. The table comes on screen;
each result is kept as JSON in RUN/evaluation, features in RUN/features. What a protocol chooses is
chosen on a hold-out of the training images, never on those it is judged on. A protocol that cannot
run is named with the reason, and the others are run: exit code 4 if it was asked for."""

USUAL: tuple[Protocol, ...] = ("knn", "linear", "unlabeled")
SMALL = 2000  # training images below which logistic regression is run too


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `amcl evaluate` takes."""

    model: Model
    protocols: Annotated[tuple[str, ...], tyro.conf.arg(metavar=" ".join(PROTOCOLS))] = ()
    """Which to run; none: knn, linear and unlabeled, with logistic where there are fewer than
    2,000 training images, and unlabeled alone where there are no labels."""
    out: Path | None = None
    """Where results and features are kept; none: the run folder, and nowhere for other models."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: a GPU where there is one."""
    precision: Literal["32", "bf16"] = "32"
    """bf16: fine-tune in bfloat16, on a GPU."""
    threads: int = 0
    """CPU threads; 0: as torch chooses."""
    seed: int = 0
    """Order, draws and views follow from it; it is stored with each result."""
    images: Annotated[JudgedOn, tyro.conf.OmitArgPrefixes] = field(default_factory=JudgedOn)
    weights: Annotated[ModelOptions, tyro.conf.OmitArgPrefixes] = field(
        default_factory=ModelOptions
    )
    settings: Annotated[Protocols, tyro.conf.arg(name="")] = field(default_factory=Protocols)


def main(args: list[str]) -> int:
    """Run the command; returns the exit code."""
    goes_on = "The same command resumes: features are kept, and fine-tuning has a checkpoint."
    return attempt("amcl evaluate", lambda: _evaluate(args), goes_on)


class SomeFailed(RunError):
    """Some protocols could not run; the results of the others were shown."""

    exit_code = 4


def parse(args: list[str], settings: Protocols | None = None) -> Options:
    """The options of a command line, on top of settings of protocols."""
    default = Options(model=tyro.MISSING, settings=settings or Protocols())
    return read_options(
        Options, args, command="amcl evaluate", description=DESCRIPTION, default=default
    )


def _evaluate(args: list[str]) -> None:
    options = parse(args)
    protocols = known_protocols(options.protocols)
    refuse_idle(options.settings, protocols or (*USUAL, "logistic"))
    log_to_console()
    set_threads(options.threads)
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
    results, failed = run_all(evaluation, protocols)
    show(evaluation, results)
    told = [f"{name} could not run: {why}" for name, why in failed.items()]
    if told and protocols:
        raise SomeFailed("\n".join(told))
    for line in told:
        logger.warning(line)


def known_protocols(names: tuple[str, ...]) -> tuple[Protocol, ...]:
    """The protocols of these names; an unknown name is an error that tells the nearest one."""
    for name in names:
        if name not in PROTOCOLS:
            near = difflib.get_close_matches(name, PROTOCOLS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PROTOCOLS)}."
            raise ValueError(f"--protocols: there is no {name!r}: {hint}")
    return cast(tuple[Protocol, ...], names)


def refuse_idle(settings: Protocols, protocols: Sequence[str]) -> None:
    """Raise an error where options set something of a protocol that is not run."""
    for section in fields(Protocols):
        protocol = section.name.replace("_", "-")
        given, default = getattr(settings, section.name), getattr(Protocols(), section.name)
        changed = [
            f.name for f in fields(given) if getattr(given, f.name) != getattr(default, f.name)
        ]
        if changed and protocol not in protocols:
            option = f"--{protocol}.{changed[0].replace('_', '-')}"
            raise ValueError(
                f"{option} belongs to the protocol {protocol}, which is not run: add {protocol} to "
                "--protocols, or leave the option out."
            )


def run_all(
    evaluation: Evaluation, protocols: tuple[Protocol, ...]
) -> tuple[list[Result], dict[str, str]]:
    """The results of protocols, the usual ones if none is named, and why others could not run.

    An error if none of them could.
    """
    results: list[Result] = []
    failed: dict[str, Exception] = {}
    chosen = protocols or _usual(evaluation)
    for protocol in PROTOCOLS:
        if protocol in chosen:
            logger.info("%s …", protocol)
            try:
                results.append(evaluation.run(protocol))
            except (ValueError, NonFiniteError) as error:
                failed[protocol] = error
    if failed and not results:
        raise next(iter(failed.values()))
    return results, {name: str(error) for name, error in failed.items()}


def _usual(evaluation: Evaluation) -> tuple[Protocol, ...]:
    """What is run if nothing is named."""
    probe = evaluation.data.probe
    if probe is None:
        logger.info("no labels in use: %s", "; ".join(evaluation.data.notes) or "labels are off")
        return ("unlabeled",)
    return (*USUAL, "logistic") if len(probe.bank.labels) < SMALL else USUAL


def show(evaluation: Evaluation, results: list[Result]) -> None:
    """The table, and where everything lies."""
    console = results_console()
    console.print()
    console.print(table(results, evaluation.name))
    if evaluation.folder is None:
        return
    lines = [f"\nkept in {evaluation.folder / 'evaluation'}"]
    for result in results:
        if result.protocol == "finetune" and (path := result.classifier(evaluation.folder)):
            use = f"amcl predict {shlex.quote(str(path))} --data FOLDER --out predictions.csv"
            lines += [f"classifier: {path}", f"to use it: {use}"]
    console.print("\n".join(lines), soft_wrap=True, markup=False)
