"""`amcl cost`: the cost of a configuration, with and without AMCL."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from amcl import recipes
from amcl.analysis.cost import (
    STEPS,
    Assumptions,
    Cost,
    Estimate,
    StepCost,
    channels_of,
    cost_of,
    cost_table,
    estimate_table,
    estimates,
    gpu_of,
    image_size_of,
    images_of,
    measure_in_turns,
    rows,
)
from amcl.backbones import stored_input
from amcl.checkpoints.run_folder import RunFolder
from amcl.cli.command import command
from amcl.cli.help import Help
from amcl.cli.output import check_new_json, results_console, write_json
from amcl.cli.start import (
    Start,
    base_config,
    peek,
    read_training_options,
    refuse_unused,
    require_images,
)
from amcl.config import Config
from amcl.environment import environment
from amcl.files import expand_home
from amcl.printable import counted
from amcl.settings import positive_number, whole_number
from amcl.training.display import console
from amcl.training.start import first_stage

HELP = Help(
    about="Count parameters and FLOPs in training and at inference, with and without AMCL.",
    examples=(
        ("Count for the paper's recipe on ImageNet.", "amcl cost --recipe imagenet-simclr"),
        ("Count for a run, with another batch size.", "amcl cost runs/first --batch-size 512"),
        (
            "Take steps on this machine and time them.",
            "amcl cost --data builtin --measure --json cost.json",
        ),
        (
            "Estimate steps of a ViT-L on 1, 8 and 64 GPUs.",
            "amcl cost --recipe imagenet-mocov3 --backbone vit_large_patch16_224 --devices 1 8 64",
        ),
    ),
    details="""A method as published is compared with its AMCL form: three heads, adaptive
temperatures. One with several heads or another temperature is compared with one head and a
constant temperature.

No image is needed, but for the size of the views where the data are a folder. --measure takes
real steps on random images. --devices estimates memory and time of a step on these numbers of
GPUs, with each --strategy and with and without --activation-checkpointing; there it takes several
numbers. Other options are those of `amcl pretrain`.""",
    main=(
        "measure",
        "steps",
        "gpu",
        "utilization",
        "bandwidth",
        "json",
        "recipe",
        "data",
        "method",
        "backbone",
        "image-size",
        "batch-size",
        "heads",
    ),
)

COUNTED = (
    "FLOPs are two for each multiply-add of products, convolutions and attention. An image counts "
    "with all its views, and with its share of the pairs of a batch."
)


@dataclass(frozen=True, kw_only=True)
class Options(Start):
    """Options of `amcl cost`."""

    folder: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None
    """A run folder, whose settings are taken."""
    measure: bool = False
    """Take training steps on this machine too: seconds a step, images a second, peak memory."""
    steps: int = STEPS
    """Steps that --measure takes of each, after a warm-up."""
    device_counts: Annotated[tuple[int, ...], tyro.conf.Fixed, tyro.conf.Suppress] = ()
    """Numbers of GPUs to estimate for: the values of --devices."""
    gpu: Literal["a100", "h100"] = "a100"
    """The GPU that --devices estimates for."""
    utilization: float = 0.4
    """Share of the GPU's published rate that --devices assumes to be reached."""
    bandwidth: float | None = None
    """GB a second between GPUs, one way, that --devices assumes; none: those of the GPU's usual
    links and network."""
    json: Path | None = None
    """Write all of it to this new file too."""

    def __post_init__(self) -> None:
        whole_number("steps", self.steps)
        if positive_number("utilization", self.utilization) > 1:
            raise ValueError(f"utilization must be at most 1, got {self.utilization:g}.")
        if self.bandwidth is not None:
            positive_number("bandwidth", self.bandwidth)

    def assumptions(self) -> Assumptions:
        """Return what an estimate for several devices takes for granted."""
        bandwidth = None if self.bandwidth is None else 1e9 * self.bandwidth
        return Assumptions(gpu=gpu_of(self.gpu), utilization=self.utilization, bandwidth=bandwidth)


@dataclass(frozen=True)
class Side:
    """A column of the table."""

    name: str
    config: Config


def parse(args: list[str]) -> Options:
    """Return the options, on top of the recipe, file or run that they start from."""
    args, devices = split_devices(args)
    base = base_config(args, _run_config(args))
    options = read_training_options(
        Options, args, base, command="amcl cost", help=HELP, device_counts=devices
    )
    if options.folder is not None and str(options.folder) != args[0]:
        raise ValueError(f"name the run first: amcl cost {options.folder} …")
    check_new_json(options.json)
    # It compares runs with and without AMCL.
    refuse_unused([(base, options.settings)], args, ("heads", "temperature", "form"))
    if options.settings.data.image_size is None:
        require_images(options.settings)
    return options


def split_devices(args: Sequence[str]) -> tuple[list[str], tuple[int, ...]]:
    """Separate the values of --devices, of which this command takes several.

    Args:
        args: Words of the command line.

    Returns:
        All other words, and the numbers of devices.

    Example:
        >>> split_devices(["--data", "builtin", "--devices", "1", "8", "--seed", "3"])
        (['--data', 'builtin', '--seed', '3'], (1, 8))
    """
    words: list[str] = []
    texts: list[str] = []
    inside = False
    given = False
    for word in args:
        name, _, text = word.partition("=")
        if word.startswith("--"):
            inside = name == "--devices"
            given = given or inside
            if inside:
                texts += [text] if text else []
                continue
        elif inside:
            texts.append(word)
            continue
        words.append(word)
    if (given and not texts) or any(not text.isdigit() or int(text) < 1 for text in texts):
        raise ValueError(
            f"--devices takes numbers of GPUs, such as 1 8 64, got {' '.join(texts) or 'none'}."
        )
    return words, tuple(int(text) for text in texts)


def sides(config: Config) -> list[Side]:
    """Return the columns of the table: the method as published, and the form it is compared with.

    Args:
        config: Settings of a run, in either form.

    Returns:
        Two columns; one for a method without heads, which has no AMCL form.

    Example:
        >>> [side.name for side in sides(Config())]
        ['baseline', '+ AMCL']
    """
    method = config.method
    if not method.has_heads:
        return [Side(method.name, config)]
    plain = recipes.as_published(config)
    if config == plain:
        return [Side("baseline", config), Side("+ AMCL", recipes.with_amcl(config))]
    name = method.describe().partition(", ")[2]
    if config == recipes.with_amcl(config):
        name = "+ AMCL"
    return [Side("baseline", plain), Side(name, config)]


def _run_config(args: Sequence[str]) -> Config | None:
    """Return the settings of the run that is named before all options, if one is."""
    if not args or args[0].startswith("-"):
        return None
    name = args[0]
    start = peek(args)
    for option in ("recipe", "config"):
        if getattr(start, option):
            raise ValueError(f"{name} and --{option} both say where to start: give one of them.")
    run = RunFolder(expand_home(name))
    if name in recipes.names() and not run.path.exists():
        raise ValueError(f"there is no run {name}: for the recipe, write --recipe {name}.")
    config = run.read_config()
    if start.method not in (None, config.method.name):
        raise ValueError(
            f"--method {start.method} does not go with {name}, which is of {config.method.name}: "
            "leave one out."
        )
    if config.data.image_size is None and run.backbone.is_file():
        # It has the size of the views, though the images may have been moved since.
        stored = stored_input(run.backbone)
        if stored is not None:
            config = replace(config, data=replace(config.data, image_size=stored[1]))
    return config


@command("amcl cost")
def main(args: list[str]) -> None:
    """Run the command."""
    options = parse(args)
    devices = options.device_counts
    compared = sides(options.settings)
    for count in devices:
        images_of(options.settings, count)  # an error before anything is shown
    size = image_size_of(options.settings)
    channels = _channels(options)
    costs = [cost_of(side.config, size, channels) for side in compared]
    measured: list[StepCost] = []
    if options.measure:
        console.print(f"taking {options.steps} steps of each, in turns …", markup=False)
        configs = [side.config for side in compared]
        measured = measure_in_turns(configs, options.steps, image_size=size, channels=channels)
    show(compared, costs, measured)
    written = _to_dict(compared, costs, measured)
    if devices:
        assumptions = options.assumptions()
        steps = estimates(options.settings, devices, size, assumptions, channels)
        show_estimates(options.settings, steps, assumptions)
        written["estimates"] = [row.to_dict() for row in steps]
        written["assumptions"] = assumptions.describe()
    write_json(options.json, written)


def _channels(options: Options) -> int:
    """Return the channels of the run's images, also where they have been moved, else of others."""
    if options.folder is not None and (backbone := RunFolder(options.folder).backbone).is_file():
        stored = stored_input(backbone)
        if stored is not None:
            return stored[0]
    return channels_of(options.settings)


def show(compared: Sequence[Side], costs: Sequence[Cost], measured: Sequence[StepCost]) -> None:
    """Print the table, and notes on its numbers."""
    out = results_console()
    config = compared[0].config
    cost = costs[0]
    width = f" ×{config.backbone.width:.3g}" if config.backbone.width != 1 else ""
    parts = f", in parts of {cost.batch_size}" if config.run.accumulate > 1 else ""
    out.print(
        f"{config.method.name}, {config.backbone.name}{width}, {cost.image_size} pixels"
        f"{_of(cost.channels)}, "
        f"batches of {config.run.batch_size}{parts}",
        markup=False,
    )
    table = cost_table([side.name for side in compared], costs, measured)
    out.print(table.to_terminal(out.width))
    for note in _notes(compared, measured):
        out.print(note, markup=False)


def _of(channels: int) -> str:
    """Return the number of channels, where images are not RGB."""
    return "" if channels == 3 else f" and {counted(channels, 'channel')}"


def show_estimates(config: Config, steps: Sequence[Estimate], assumptions: Assumptions) -> None:
    """Print the estimates for several devices, and what they assume.

    Args:
        config: The configuration.
        steps: The estimates.
        assumptions: What they take for granted.
    """
    out = results_console()
    out.print(
        f"\nEstimated steps of {config.method.describe()}, in GiB and seconds on each GPU:",
        markup=False,
    )
    out.print(estimate_table(steps, assumptions.gpu).to_terminal(out.width))
    for note in assumptions.describe():
        out.print(note, markup=False)


def _notes(compared: Sequence[Side], measured: Sequence[StepCost]) -> list[str]:
    config = compared[-1].config
    notes = [COUNTED]
    if (first := first_stage(config)) is not None:
        notes.append(
            f"These are {config.method.label}'s second stage; its first is a run of "
            f"{first.method.name}."
        )
    if len(compared) == 1:
        notes.append(f"{config.method.name} has no heads, and so no AMCL form.")
    elif compared[-1].name == "+ AMCL":
        notes.append(f"+ AMCL: {config.method.describe()}.")
    if measured:
        step = measured[0]
        notes.append(
            f"Steps of {step.batch_size} images on {step.device}: the median of "
            f"{len(step.seconds)}, taken in turns; decoding of pictures is not among them."
        )
    return notes


def _to_dict(
    compared: Sequence[Side],
    costs: Sequence[Cost],
    measured: Sequence[StepCost],
) -> dict[str, Any]:
    columns = []
    for number, (side, cost) in enumerate(zip(compared, costs, strict=True)):
        column: dict[str, Any] = {"name": side.name, **cost.to_dict()}
        if measured:
            column["measured"] = measured[number].to_dict()
        columns.append({**column, "config": side.config.to_toml()})
    ratios = {row.name: row.ratio for row in rows(costs, measured) if row.ratio is not None}
    return {"columns": columns, "ratios": ratios, "environment": environment()}
