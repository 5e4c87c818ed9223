"""Where the settings of a run start from: a recipe, a file, or another run."""

import argparse
import difflib
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, TypeVar

import tyro

from amcl import recipes
from amcl.backbones import load_backbone
from amcl.checkpoints.run_folder import RunFolder
from amcl.config import Config
from amcl.config.fields import differing, with_values
from amcl.config.options import values_of
from amcl.config.rules import check_used
from amcl.methods import method_names
from amcl.temperature import temperature_names
from amcl.temperature.settings import schemes_with
from amcl.training.fit import at_length

Number = TypeVar("Number", int, float)
Settings = Annotated[Config, tyro.conf.OmitArgPrefixes, tyro.conf.AvoidSubcommands]


@dataclass(frozen=True, kw_only=True)
class Start:
    """What every command that trains takes."""

    recipe: str | None = None
    """Start from a recipe: `amcl recipes` lists them."""
    config: Path | None = None
    """Start from a file, such as a run's config.toml."""
    method: str = "simclr"
    """The method: barlow, can, lgp, mae, moco, mocov3, simclr or simsiam, or one of an installed
    package."""
    temperature: str | None = None
    """How each pair gets its temperature: adaptive (AMCL's), adaptive-negative, adaptive-positive,
    constant, first-head, learnable, scheduled or uncertainty, or one of an installed package."""
    plain: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """The method as published, with one head and a constant temperature. Without this option a
    method has several heads and adaptive temperatures (AMCL), unless a recipe, a file or a run
    says otherwise."""
    settings: Settings = field(default_factory=Config)


def base_config(args: Sequence[str], known: Config | None = None) -> Config:
    """What all options default to, by those that say where to start and how long to train.

    `known`: the settings of what is resumed, which no option may change.
    """
    start = peek(args)
    chosen = [name for name in ("recipe", "config", "resume") if getattr(start, name)]
    if len(chosen) > 1:
        both = " and ".join(f"--{name}" for name in chosen)
        raise ValueError(f"{both} both say where to start: give one of them.")
    if start.plain and (start.resume or known is not None):
        source = f"--resume {start.resume}" if start.resume else f"--out {start.out}"
        raise ValueError(f"--plain would change the settings of {source}: leave it out.")
    goes_on = bool(start.resume) or (known is not None and not chosen)
    base = known if known is not None and not chosen else _plain(_chosen(start), start)
    if (chosen or known) and start.method not in (None, base.method.name):
        given = f"--{chosen[0]}" if chosen else f"--out {start.out}"
        raise ValueError(
            f"--method {start.method} does not go with {given}, which is of "
            f"{base.method.name}: leave one out."
        )
    if goes_on:
        _check_kept(start, base)
        return base
    base = _with_temperature(base, start)
    base = _for_length(base, start)
    may_fit = base.run.fit or () if start.config else _fits(base)
    fit = tuple(name for name in may_fit if getattr(start, name) is None)
    return replace(base, run=replace(base.run, fit=fit or None))


def length_notes(args: Sequence[str]) -> list[str]:
    """What the length of a new run has changed in the settings that it starts from."""
    start = peek(args)
    if start.resume or not (start.epochs or start.mae_epochs):
        return []
    before = _plain(_chosen(start), start)
    after = _for_length(before, start)
    notes, old, new = [], before.optimizer.warmup_epochs, after.optimizer.warmup_epochs
    if new != old and start.warmup_epochs is None:
        notes.append(
            f"the warm-up is shortened from {old:g} to {new:g} epochs, to suit the length of the "
            "run (--warmup-epochs sets it)"
        )
    return notes


def _chosen(start: argparse.Namespace) -> Config:
    """The settings of the run, file, recipe, backbone or data set that is named."""
    if start.resume:
        return RunFolder(Path(start.resume)).read_config()
    if start.config:
        return Config.from_file(start.config)
    if start.recipe:
        return recipes.recipe(start.recipe)
    if start.init:
        config = _after(Path(start.init).expanduser(), start.data, start.method or "simclr")
    else:
        config = recipes.default(start.data or "builtin", start.method or "simclr")
    return recipes.with_amcl(config) if config.method.has_heads else config


def _plain(config: Config, start: argparse.Namespace) -> Config:
    """Return the method as published, if --plain asks for it."""
    if not start.plain:
        return config
    if not config.method.has_heads:
        raise ValueError(
            f"--plain leaves out several heads and adaptive temperatures, which "
            f"{config.method.name} does not have: leave it out."
        )
    return recipes.as_published(config)


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


def _check_kept(start: argparse.Namespace, config: Config) -> None:
    """Raise an error if --temperature would change the scheme of a run that is resumed."""
    current = values_of(config).get("temperature")
    if start.temperature not in (None, current):
        raise ValueError(
            f"--temperature {start.temperature} would change the settings of a run that is "
            f"resumed, which has --temperature {current}: leave it out."
        )


def _for_length(base: Config, start: argparse.Namespace) -> Config:
    """The settings for as many epochs as are typed; an error if a typed warm-up is as long."""
    epochs, mae_epochs = _number(start.epochs, int), _number(start.mae_epochs, int)
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
    """Return the settings of a recipe that may be lowered for few images."""
    return ("batch_size", *config.method.fitted)


def _number(text: str | None, kind: type[Number]) -> Number | None:
    """A typed number above 0; None if it is none, which is told when options are parsed."""
    try:
        number = kind(text or 0)
    except ValueError:
        return None
    return number if number > 0 else None


def require_images(config: Config) -> None:
    """Raise an error where a recipe for folders has not been told which."""
    if config.data.source == "FOLDER":
        raise ValueError("name the folder of images: --data FOLDER.")


def refuse_unused(
    starts: Sequence[tuple[Config, Config]], args: Sequence[str], varied: Collection[str] = ()
) -> None:
    """Raise an error where options, or a hand-written file, set what all these runs would ignore.

    `starts` are the defaults and the settings of runs, several of which a grid may start from;
    `varied` are the fields in which runs differ from each other beyond that.
    """
    runs = [settings for _, settings in starts]
    typed = [name for base, settings in starts for name in differing(base, settings)]
    check_used(runs, dict.fromkeys(typed), varied=varied)
    if file := peek(args).config:
        given = [name for name in _by_hand(file, starts[0][0]) if name not in typed]
        check_used(runs, given, varied=varied, where=file)


def _by_hand(file: str, config: Config) -> list[str]:
    """The fields of those sections that name few: files that a run or recipe wrote name all."""
    given = []
    for section, table in tomllib.loads(Path(file).read_text(encoding="utf-8")).items():
        if 2 * len(table) < len(fields(getattr(config, section))):
            given += [name for name in table if name != "name"]
    return given


def _after(init: Path, data: str | None, method: str) -> Config:
    """Where a run starts that begins with another's backbone: its network, and its images."""
    given, run = load_backbone(init), RunFolder(init if init.is_dir() else init.parent)
    before = run.read_config() if run.config.is_file() else None
    if data is None and before is not None:
        base = replace(recipes.default(before.data.source, method), data=before.data)
    else:
        base = recipes.default(data or "builtin", method)
        base = replace(base, data=replace(base.data, image_size=given.image_size))
    # What its features are is for the method to say; the weights are the same.
    return replace(base, backbone=replace(given.settings, pool=base.backbone.pool))


def peek(args: Sequence[str]) -> argparse.Namespace:
    """The options that decide what all others default to."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("recipe", "config", "resume", "data", "init", "out", "storage", "study"):
        parser.add_argument(f"--{name}", nargs="?")
    for name in ("epochs", "mae-epochs", "warmup-epochs", "batch-size", "queue"):
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", nargs="?")
    for name in ("method", "temperature"):
        parser.add_argument(f"--{name}", nargs="?")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--grid", nargs="*")
    options, _ = parser.parse_known_args(args)
    for name, names in (("method", method_names), ("temperature", temperature_names)):
        if getattr(options, name) is not None:
            _check_choice(f"--{name}", getattr(options, name), names())
    return options


def _check_choice(option: str, name: str, names: Sequence[str]) -> None:
    """Raise an error, with the nearest name, if an option has no such choice."""
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"{option} has no choice {name!r}: {hint}Choose from {', '.join(names)}.")


def split_schemes(args: Sequence[str], config: Config) -> tuple[list[str], dict[str, str]]:
    """Separate options of temperature schemes other than that of a configuration.

    Returns:
        All other words, and the texts of these options by name.

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
