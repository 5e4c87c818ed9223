"""Settings that a run starts from: those of a recipe, a file, or another run."""

import argparse
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from amcl import recipes
from amcl.backbones import BackboneSettings
from amcl.checkpoints.load import open_start
from amcl.checkpoints.loaded_model import LoadedModel
from amcl.checkpoints.run_folder import RunFolder
from amcl.cli.help import Help
from amcl.cli.options import no_such_choice, read_options
from amcl.config import PLACEHOLDER, Config
from amcl.config.fields import differing, with_values
from amcl.config.options import values_of
from amcl.config.rules import check_used
from amcl.methods import METHODS
from amcl.temperature import TEMPERATURES
from amcl.temperature.settings import schemes_with
from amcl.text_files import read_toml
from amcl.training.fit import at_length
from amcl.views.channels import FITTED

Number = TypeVar("Number", int, float)
S = TypeVar("S", bound="Start")
Settings = Annotated[Config, tyro.conf.OmitArgPrefixes, tyro.conf.AvoidSubcommands]

_USUAL_SIZE = 224  # pixels: published weights for larger images are adapted to these

_PEEKED = (
    "recipe config resume data init out storage study method temperature "
    "epochs mae-epochs warmup-epochs batch-size queue backbone width stem patch image-size "
    + " ".join(name.replace("_", "-") for name in FITTED)
)


@dataclass(frozen=True, kw_only=True)
class Start:
    """Options of every command that trains."""

    recipe: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Start from a recipe: `amcl recipes` lists them."""
    config: Path | None = None
    """Start from a file, such as a run's config.toml."""
    method: Annotated[str, tyro.conf.arg(metavar="NAME")] = "simclr"
    """The method: barlow, byol, can, dino, lgp, mae, moco, mocov3, nnclr, simclr, simsiam, supcon
    or vicreg, or one of an installed package."""
    temperature: Annotated[str | None, tyro.conf.arg(metavar="SCHEME")] = None
    """How each pair gets its temperature: adaptive (AMCL's), adaptive-negative, adaptive-positive,
    artanh, constant, dystress, first-head, isogclr, learnable, macl, one-sided, positive-scale,
    scheduled or uncertainty, or one of an installed package."""
    plain: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """The method as published, with one head and a constant temperature."""
    amcl: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Several heads and adaptive temperatures (AMCL). It is the default of methods with heads, but
    for simsiam, which is trained as published; a recipe, a file or a run says so itself."""
    settings: Settings = field(default_factory=Config)


def read_training_options(
    kind: type[S],
    args: Sequence[str],
    base: Config,
    *,
    command: str,
    help: Help,
    **defaults: Any,
) -> S:
    """Read the options of a command that trains.

    Args:
        kind: Dataclass of the options.
        args: Words behind the name of the command.
        base: Settings that options change.
        command: The command, such as "amcl sweep".
        help: Text of its help.
        defaults: Values of other options that are left out.

    Returns:
        The options.
    """
    default = kind(method=base.method.name, settings=base, **defaults)
    return read_options(kind, args, command=command, help=help, default=default)


def base_config(args: Sequence[str], stored: Config | None = None) -> Config:
    """Return the settings that options change, by those about the start and the length of a run.

    Args:
        args: Words of the command line.
        stored: Settings of a run or study that exists, which no option may change; a recipe or a
            file takes their place.

    Returns:
        The settings of the recipe, file, run or data set that is named.

    Raises:
        ValueError: Options about the start contradict each other.

    Example:
        >>> base_config(["--data", "cifar10", "--method", "moco"]).method.heads
        3
    """
    start = peek(args)
    sources = [name for name in ("recipe", "config", "resume") if getattr(start, name)]
    if len(sources) > 1:
        both = " and ".join(f"--{name}" for name in sources)
        raise ValueError(f"{both} both say where to start: give one of them.")
    if start.plain and start.amcl:
        raise ValueError("--plain and --amcl are two forms of a method: give one of them.")
    if (form := _form(start)) and (start.resume or stored is not None):
        source = f"--resume {start.resume}" if start.resume else _stored_in(start, args)
        raise ValueError(f"{form} would change the settings of {source}: leave it out.")
    base = stored if stored is not None and not sources else _started(start)
    if (sources or stored) and start.method not in (None, base.method.name):
        source = f"--{sources[0]}" if sources else _stored_in(start, args)
        raise ValueError(
            f"--method {start.method} does not go with {source}, which is of "
            f"{base.method.name}: leave one out."
        )
    if start.resume or base is stored:
        _check_same_temperature(start, base)
        return base
    base = _with_temperature(base, start)
    base = _for_length(base, start)
    may_fit = _fits(base)
    if start.config:
        written = _written_by_hand(start.config, base)
        written += ["views"] * ("operations" in written)
        may_fit = (*(base.run.fit or ()), *(name for name in FITTED if name not in written))
    fit = tuple(dict.fromkeys(name for name in may_fit if getattr(start, name) is None))
    return replace(base, run=replace(base.run, fit=fit))


def _stored_in(start: argparse.Namespace, args: Sequence[str]) -> str:
    """Return the words that name a stored configuration: --out, or the run before all options."""
    return f"--out {start.out}" if start.out else args[0]


def length_notes(args: Sequence[str]) -> list[str]:
    """Return notes on settings that were changed to suit the length of a new run.

    Args:
        args: Words of the command line.

    Returns:
        A sentence for each change.
    """
    start = peek(args)
    if start.resume or not (start.epochs or start.mae_epochs):
        return []
    before = _started(start)
    old = before.optimizer.warmup_epochs
    new = _for_length(before, start).optimizer.warmup_epochs
    if new == old or start.warmup_epochs is not None:
        return []
    return [
        f"the warm-up is shortened from {old:g} to {new:g} epochs, to suit the length of the run "
        "(--warmup-epochs sets it)"
    ]


def _source_config(start: argparse.Namespace) -> Config:
    """Return the settings of the run, file, recipe, backbone or data set that is named."""
    if start.resume:
        return RunFolder(Path(start.resume)).read_config()
    if start.config:
        return Config.from_file(start.config)
    if start.recipe:
        return recipes.recipe(start.recipe)
    if start.init:
        config = _continued(start)
    else:
        config = recipes.default(start.data or "builtin", start.method or "simclr")
    return recipes.with_amcl(config) if config.method.amcl_by_default else config


def _form(start: argparse.Namespace) -> str:
    """Return the option that names the form of the method; empty if none does."""
    return "--plain" if start.plain else "--amcl" if start.amcl else ""


def _started(start: argparse.Namespace) -> Config:
    """Return the settings to start from, in the form of the method that is asked for."""
    config = _source_config(start)
    form = _form(start)
    if form and not config.method.has_heads:
        raise ValueError(
            f"{form} is about several heads and adaptive temperatures, which {config.method.name} "
            "does not have: leave it out."
        )
    if start.plain:
        return recipes.as_published(config)
    return recipes.with_amcl(config) if start.amcl else config


def _with_temperature(config: Config, start: argparse.Namespace) -> Config:
    """Return the configuration with the temperature scheme that --temperature names."""
    if start.temperature is None:
        return config
    if not config.method.has_heads:
        raise ValueError(
            f"--temperature {start.temperature} belongs to methods with heads, and "
            f"{config.method.name} has none: leave it out."
        )
    return with_values(config, {"temperature": start.temperature})


def _check_same_temperature(start: argparse.Namespace, config: Config) -> None:
    """Raise an error if --temperature would change the scheme of a run that is resumed."""
    current = values_of(config).get("temperature")
    if start.temperature not in (None, current):
        raise ValueError(
            f"--temperature {start.temperature} would change the settings of a run that is "
            f"resumed, which has --temperature {current}: leave it out."
        )


def _for_length(base: Config, start: argparse.Namespace) -> Config:
    """Return the settings for the epochs that are typed; an error if the warm-up is as long."""
    epochs = _number(start.epochs, int)
    mae_epochs = _number(start.mae_epochs, int)
    warmup = _number(start.warmup_epochs, float)
    lengths = {"--epochs": epochs or base.run.epochs, "--mae-epochs": mae_epochs}
    for option, length in lengths.items():
        if warmup is not None and length is not None and warmup >= length:
            raise ValueError(
                f"--warmup-epochs {warmup:g} leaves none of {option} {length} for training at the "
                "full learning rate: choose a shorter warm-up or more epochs."
            )
    if epochs is None and mae_epochs is None:
        return base
    if start.init:  # then there is no first stage whose length could follow
        base = replace(base, run=replace(base.run, init=start.init))
    return at_length(base, epochs, mae_epochs)


def _fits(config: Config) -> tuple[str, ...]:
    """Return the settings of a recipe that may be changed for few images, or others than RGB."""
    return ("batch_size", *config.method.fitted, *FITTED)


def _number(text: str | None, kind: type[Number]) -> Number | None:
    """Return a typed number; None if it is no number above 0, an error when options are read."""
    try:
        number = kind(text or 0)
    except ValueError:
        return None
    return number if number > 0 else None


def require_images(config: Config) -> None:
    """Raise an error if the settings are of a recipe for folders and no folder is named."""
    if config.data.source == PLACEHOLDER:
        raise ValueError("name the folder of images: --data FOLDER.")


def refuse_unused(
    starts: Sequence[tuple[Config, Config]], args: Sequence[str], varied: Collection[str] = ()
) -> None:
    """Raise an error if options or a hand-written file set fields that all runs would ignore.

    Args:
        starts: Defaults and settings of runs; a grid may have several.
        args: Words of the command line.
        varied: Names of fields in which runs differ beyond that.
    """
    runs = [settings for _, settings in starts]
    typed = [name for base, settings in starts for name in differing(base, settings)]
    check_used(runs, dict.fromkeys(typed), varied=varied)
    if file := peek(args).config:
        names = [name for name in _written_by_hand(file, starts[0][0]) if name not in typed]
        check_used(runs, names, varied=varied, where=file)


def _written_by_hand(file: str, config: Config) -> list[str]:
    """Return the fields of sections that have few: files that a run or recipe wrote have all."""
    names = []
    for section, table in read_toml(Path(file)).items():
        if 2 * len(table) < len(fields(getattr(config, section))):
            names += [name for name in table if name != "name"]
    return names


def _continued(start: argparse.Namespace) -> Config:
    """Return the settings of a run with the network of trained weights, and the images of a run."""
    model = open_start(start.init, _typed_network(start), _number(start.image_size, int))
    backbone = model.backbone
    name = backbone.settings.name
    if start.backbone is not None and _architecture(start.backbone) != _architecture(name):
        raise ValueError(
            f"--backbone {start.backbone} does not go with --init {start.init}, which holds "
            f"{name}: leave one out."
        )
    method = start.method or "simclr"
    if start.data is None and model.config is not None:
        before = model.config.data
        base = replace(recipes.default(before.source, method), data=before)
    else:
        base = recipes.default(start.data or "builtin", method)
        base = replace(base, data=replace(base.data, image_size=_image_size(model)))
    size = _number(start.image_size, int) or base.data.image_size or backbone.image_size
    settings = backbone.settings if size == backbone.image_size else backbone.fixed_settings()
    # The method decides how features are pooled; the weights are the same.
    base = replace(base, backbone=replace(settings, pool=base.backbone.pool))
    return base if base.method.layer_rates else recipes.continued(base)


def _typed_network(start: argparse.Namespace) -> BackboneSettings | None:
    """Return the network that options describe, for files that do not say what they hold."""
    if start.backbone is None:
        return None
    return BackboneSettings(
        name=start.backbone,
        width=_number(start.width, float) or 1.0,
        stem=start.stem or "auto",
        patch=_number(start.patch, int),
    )


def _architecture(name: str) -> str:
    """Return the name of a timm model without the tag of its weights."""
    return name.partition(".")[0]


def _image_size(model: LoadedModel) -> int:
    """Return the size of images to train on: that of a run, and not all of large published ones."""
    size = model.backbone.image_size
    if model.step is not None or size <= _USUAL_SIZE:
        return size
    patch = model.backbone.patch
    return max(_USUAL_SIZE // patch, 1) * patch


def start_notes(args: Sequence[str], config: Config) -> list[str]:
    """Return notes on the recipe of a new run that starts from trained weights.

    Args:
        args: Words of the command line.
        config: Settings of the run.

    Returns:
        A sentence or two; none where a recipe or a file was named, or the method has its own rates.
    """
    start = peek(args)
    named = start.resume or start.config or start.recipe
    if start.init is None or named or config.method.layer_rates:
        return []
    optimizer = config.optimizer
    return [
        f"the recipe of continued pre-training: --optimizer {optimizer.name} --lr {optimizer.lr:g} "
        f"--layer-decay {optimizer.layer_decay or 1:g} --freeze-epochs "
        f"{optimizer.freeze_epochs or 0:g}"
    ]


def peek(args: Sequence[str]) -> argparse.Namespace:
    """Read the options that decide the defaults of all others.

    Args:
        args: Words of the command line.

    Returns:
        Their texts; None for those that are left out.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in _PEEKED.split():
        spellings = dict.fromkeys((f"--{name}", f"--{name.replace('-', '_')}"))
        parser.add_argument(*spellings, nargs="?")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--amcl", action="store_true")
    parser.add_argument("--grid", nargs="*")
    options, _ = parser.parse_known_args(args)
    for name, registry in (("method", METHODS), ("temperature", TEMPERATURES)):
        value = getattr(options, name)
        if value is not None and value not in registry:
            raise ValueError(no_such_choice(f"--{name}", value, registry.names()))
    return options


def split_schemes(args: Sequence[str], config: Config) -> tuple[list[str], dict[str, str]]:
    """Separate options of temperature schemes other than that of a configuration.

    Args:
        args: Words of the command line.
        config: The configuration.

    Returns:
        All other words, and the texts of these options by name.

    Example:
        >>> split_schemes(["--beta", "0.3", "--tau", "0.2"], Config())
        (['--tau', '0.2'], {'beta': '0.3'})
    """
    words: list[str] = []
    texts: dict[str, str] = {}
    current = values_of(config)
    option = ""  # the separated one that the next words belong to
    for word in args:
        if word.startswith("--"):
            name, _, text = word.removeprefix("--").replace("-", "_").partition("=")
            plain = name.removeprefix("no_")
            option = plain if schemes_with(plain) and plain not in current else ""
            if option:
                texts[option] = text or str(name == plain).lower()
                continue
        elif option:
            texts[option] = word
            continue
        words.append(word)
    return words, texts
