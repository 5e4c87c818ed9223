"""`amcl evaluate`: a backbone, judged by protocols."""

import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from amcl.checkpoints.evaluations import FOLDER, results_table
from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.model import Model, ModelOptions
from amcl.cli.options import read_options
from amcl.cli.output import print_line, results_console
from amcl.errors import NonFiniteError, RunError
from amcl.evaluation import PROTOCOLS, Evaluation, Result
from amcl.evaluation.build import EvaluationData, make_evaluation, run_settings
from amcl.training.display import log_to_console
from amcl.training.hardware import set_threads

logger = logging.getLogger("amcl")

HELP = Help(
    about="Judge a backbone: a run, a file of weights, or any timm model.",
    examples=(
        ("Judge a run on the data that it was trained on.", "amcl evaluate runs/first"),
        (
            "Name the data and the protocols.",
            "amcl evaluate runs/first --data cifar10 --protocols knn linear few-labels",
        ),
        (
            "Judge a file of weights on a folder of classes.",
            "amcl evaluate weights.pth --backbone resnet50 --data FOLDER",
        ),
        (
            "Fine-tune a classifier.",
            "amcl evaluate runs/first --protocols finetune --finetune.epochs 20",
        ),
    ),
    details="""The table comes on screen; each result is kept as JSON in RUN/evaluation, features
in RUN/features. What a protocol chooses is chosen on a hold-out of the training images, never on
those it is judged on. A protocol that cannot run is named with the reason, and the others are
run: exit code 4 if it was asked for.""",
    main=(
        "data",
        "protocols",
        "out",
        "data-root",
        "backbone",
        "image-size",
        "pretrained",
        "accelerator",
        "threads",
        "seed",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of `amcl evaluate`, without those of protocols."""

    model: Model
    protocols: Annotated[tuple[str, ...], tyro.conf.arg(metavar=" ".join(PROTOCOLS.names()))] = ()
    """Protocols to run; none: knn, linear and unlabeled, with logistic where there are fewer than
    2,000 training images, and unlabeled alone where there are no labels."""
    out: Path | None = None
    """Folder of results and features; none: the run folder, and nowhere for other models."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """auto: a GPU where there is one."""
    precision: Literal["32", "bf16"] = "32"
    """bf16: fine-tune in bfloat16, on a GPU."""
    threads: int = 0
    """CPU threads; 0: as torch chooses."""
    seed: int = 0
    """Order, draws and views follow from it; it is stored with each result."""
    images: Annotated[EvaluationData, tyro.conf.OmitArgPrefixes] = field(
        default_factory=EvaluationData
    )
    weights: Annotated[ModelOptions, tyro.conf.OmitArgPrefixes] = field(
        default_factory=ModelOptions
    )


class SomeFailed(RunError):
    """Some protocols could not run; the results of the others were shown."""

    exit_code = 4


def parse(
    args: list[str], settings: Mapping[str, Any] | None = None
) -> tuple[Options, dict[str, Any]]:
    """Return the options of a command line, and the settings of all protocols by name.

    Args:
        args: Words of the command line.
        settings: Defaults of the settings of protocols, where they differ from those of the class.
    """
    names = PROTOCOLS.names()
    defaults = {name: PROTOCOLS[name].settings() for name in names} | dict(settings or {})
    section = make_dataclass(
        "Protocols", [(name.replace("-", "_"), type(defaults[name])) for name in names]
    )
    both = make_dataclass(
        "OptionsWithProtocols",
        [("settings", Annotated[section, tyro.conf.arg(name="")])],
        bases=(Options,),
        frozen=True,
        kw_only=True,
    )
    default = both(model=tyro.MISSING, settings=section(*defaults.values()))
    options = read_options(both, args, command="amcl evaluate", help=HELP, default=default)
    return options, {name: getattr(options.settings, name.replace("-", "_")) for name in names}


@command(
    "amcl evaluate",
    "The same command resumes: features are kept, and fine-tuning has a checkpoint.",
)
def main(args: list[str]) -> None:
    """Run the command."""
    options, settings = parse(args)
    for name in options.protocols:
        PROTOCOLS[name]
    refuse_unused(settings, options.protocols)
    log_to_console()
    set_threads(options.threads)
    model = options.weights.open(options.model, options.seed)
    _, settings = parse(args, run_settings(model))  # settings of the run come before our defaults
    evaluation = make_evaluation(
        model,
        options.images,
        settings=settings,
        accelerator=options.accelerator,
        precision=options.precision,
        seed=options.seed,
        folder=options.out,
    )
    results, failed = run_all(evaluation, options.protocols)
    show(evaluation, results)
    messages = [f"{name} could not run: {reason}" for name, reason in failed.items()]
    if messages and options.protocols:
        raise SomeFailed("\n".join(messages))
    for message in messages:
        logger.warning(message)


def refuse_unused(settings: Mapping[str, Any], protocols: Sequence[str]) -> None:
    """Raise an error where options set something of a protocol that is not run.

    Args:
        settings: Settings of all protocols by name.
        protocols: Names of the protocols to run; empty for the default ones.
    """
    for name, values in settings.items():
        protocol = PROTOCOLS[name]
        default = protocol.settings()
        changed = [
            f.name for f in fields(values) if getattr(values, f.name) != getattr(default, f.name)
        ]
        may_run = name in protocols if protocols else protocol.is_default is not None
        if changed and not may_run:
            raise ValueError(
                f"--{name}.{changed[0].replace('_', '-')} belongs to the protocol {name}, which is "
                f"not run: add {name} to --protocols, or leave the option out."
            )


def run_all(
    evaluation: Evaluation, protocols: Sequence[str]
) -> tuple[list[Result], dict[str, str]]:
    """Run protocols; those that cannot run do not keep the others from running.

    Args:
        evaluation: The model and the data.
        protocols: Names of the protocols; empty for the default ones.

    Returns:
        The results, and by name the reason why a protocol could not run.

    Raises:
        ValueError: If no protocol could run.
    """
    results: list[Result] = []
    failed: dict[str, Exception] = {}
    for name in dict.fromkeys(protocols or _default_protocols(evaluation)):
        logger.info("%s …", name)
        try:
            results.append(evaluation.run(name))
        except (ValueError, NonFiniteError) as error:
            failed[name] = error
    if failed and not results:
        raise next(iter(failed.values()))
    return results, {name: str(error) for name, error in failed.items()}


def _default_protocols(evaluation: Evaluation) -> list[str]:
    """Return the protocols that are run if the user names none."""
    data = evaluation.data
    if data.probe is None:
        logger.info("no labels in use: %s", "; ".join(data.notes) or "labels are off")
    protocols = [PROTOCOLS[name] for name in PROTOCOLS]
    return [p.name for p in protocols if p.is_default is not None and p.is_default(data)]


def show(evaluation: Evaluation, results: list[Result]) -> None:
    """Print the table, and the files that were written."""
    console = results_console()
    console.print()
    console.print(results_table(results, evaluation.name))
    if evaluation.folder is None:
        return
    lines = [f"\nkept in {evaluation.folder / FOLDER}"]
    for result in results:
        if path := result.classifier(evaluation.folder):
            use = f"amcl predict {shlex.quote(str(path))} --data FOLDER --out predictions.csv"
            lines += [f"classifier: {path}", f"to use it: {use}"]
    print_line("\n".join(lines), console)
