"""Where the settings of a run start from: a recipe, a file, or another run."""

import argparse
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated

import tyro

from amcl import recipes
from amcl.backbones import load_backbone
from amcl.methods import METHODS, MethodName
from amcl.sweep.fields import differing
from amcl.training import Config, RunFolder
from amcl.training.unused import check_used

Settings = Annotated[Config, tyro.conf.OmitArgPrefixes, tyro.conf.AvoidSubcommands]


@dataclass(frozen=True, kw_only=True)
class Start:
    """What every command that trains takes."""

    recipe: str | None = None
    """Start from a recipe: `amcl recipes` lists them."""
    config: Path | None = None
    """Start from a file, such as a run's config.toml."""
    method: MethodName = "simclr"
    """The method; all but mae have an AMCL form, with --heads and --temperature."""
    settings: Settings = field(default_factory=Config)


def base_config(args: Sequence[str], known: Config | None = None) -> Config:
    """What all options default to, by those that say where to start.

    `known`: the settings of what is gone on with, and then no option may say otherwise.
    """
    start = peek(args)
    chosen = [name for name in ("recipe", "config", "resume") if getattr(start, name)]
    if len(chosen) > 1:
        both = " and ".join(f"--{name}" for name in chosen)
        raise ValueError(f"{both} both say where to start: give one of them.")
    if known is not None and not chosen:
        base = known
    elif start.resume:
        base = RunFolder(Path(start.resume)).read_config()
    elif start.config:
        base = Config.from_file(start.config)
    elif start.recipe:
        base = recipes.recipe(start.recipe)
    elif start.init:
        base = _after(Path(start.init).expanduser(), start.data, start.method or "simclr")
    else:
        base = recipes.default(start.data or "builtin", start.method or "simclr")
    if (chosen or known) and start.method not in (None, base.method.name):
        given = f"--{chosen[0]}" if chosen else f"--out {start.out}"
        raise ValueError(
            f"--method {start.method} does not go with {given}, which is of "
            f"{base.method.name}: leave one out."
        )
    return base


def require_images(config: Config) -> None:
    """An error where a recipe for folders has not been told which."""
    if config.data.data == "FOLDER":
        raise ValueError("name the folder of images: --data FOLDER.")


def refuse_unused(
    starts: Sequence[tuple[Config, Config]], args: Sequence[str], varied: Collection[str] = ()
) -> None:
    """An error where options, or a file written by hand, set what all of these runs would ignore.

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
        base = replace(recipes.default(before.data.data, method), data=before.data)
    else:
        base = recipes.default(data or "builtin", method)
        base = replace(base, data=replace(base.data, image_size=given.image_size))
    # What its features are is for the method to say; the weights are the same.
    return replace(base, backbone=replace(given.settings, pool=base.backbone.pool))


def peek(args: Sequence[str]) -> argparse.Namespace:
    """The options that decide what all others default to."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("recipe", "config", "resume", "data", "init", "out"):
        parser.add_argument(f"--{name}", nargs="?")
    parser.add_argument("--method", nargs="?")
    parser.add_argument("--grid", nargs="*")
    found, _ = parser.parse_known_args(args)
    if found.method not in METHODS:
        found.method = None  # tyro will say what is wrong with it
    return found
