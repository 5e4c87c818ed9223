"""`amcl pretrain`: from images to a trained backbone."""

import argparse
import dataclasses
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from amcl import recipes
from amcl.backbones import load_backbone
from amcl.methods import METHODS, HeadSettings, LGPSettings, MethodName
from amcl.methods.masked import MaskedSettings
from amcl.training import Config, Interrupted, RunError, RunFolder, pretrain
from amcl.training.display import console, log_to_console

DESCRIPTION = """Train a backbone on images, labelled or not.

amcl pretrain --data FOLDER --out runs/first

amcl pretrain --data cifar10 --method moco --heads 3 --temperature adaptive

amcl pretrain --recipe cifar10-simclr-amcl --epochs 200

amcl pretrain --method lgp --init runs/mae

amcl pretrain --resume runs/first

Where no recipe or file is named, settings start from the recipe of the data set and method; the
defaults below are those. With --init, network and images are by default those of that run. Options
of a method are shown with --method METHOD --help."""

Settings = Annotated[Config, tyro.conf.OmitArgPrefixes, tyro.conf.AvoidSubcommands]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `amcl pretrain` takes."""

    recipe: str | None = None
    """Start from a recipe: `amcl recipes` lists them."""
    config: Path | None = None
    """Start from a file, such as a run's config.toml."""
    resume: Path | None = None
    """Go on with the run in this folder; only hardware options may change."""
    method: MethodName = "simclr"
    """The method; all but mae have an AMCL form, with --heads and --temperature."""
    out: Path | None = None
    """The run folder, new or empty; none: runs/DATA-METHOD, numbered if it exists."""
    settings: Settings = field(default_factory=Config)


def main(args: list[str]) -> int:
    """Run the command; returns the exit code."""
    goes_on = "A run goes on from its last checkpoint with --resume."
    return attempt("amcl pretrain", lambda: _pretrain(args), goes_on)


def attempt(command: str, work: Callable[[], None], interrupted: str = "") -> int:
    """Do the work; an error that a user can mend becomes one line and an exit code.

    `interrupted`: what to say of a Ctrl-C.
    """
    try:
        work()
    except Interrupted as error:
        return _tell(command, str(error), "yellow", error.exit_code)
    except RunError as error:
        return _tell(command, str(error), "red", error.exit_code)
    except (ValueError, FileNotFoundError, NotADirectoryError) as error:
        return _tell(command, str(error), "red", 2)
    except KeyboardInterrupt:
        return _tell(command, f"interrupted. {interrupted}".rstrip(), "yellow", 130)
    except BrokenPipeError:  # no error: whoever read has seen enough, which `main` answers
        raise
    except OSError as error:
        return _tell(command, str(error), "red", 1)
    return 0


def _pretrain(args: list[str]) -> None:
    options = parse(args)
    log_to_console()
    if options.resume is not None:
        pretrain(options.settings, options.resume, resume=True)
        return
    out = options.out or free_folder(options.settings)
    if os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0":
        console.print(f"run folder: {out}", soft_wrap=True, markup=False)
    pretrain(options.settings, out)


def parse(args: list[str]) -> Options:
    """The options, on top of the recipe, file or run they start from."""
    start = _start(args)
    chosen = [name for name in ("recipe", "config", "resume") if getattr(start, name)]
    if len(chosen) > 1:
        both = " and ".join(f"--{name}" for name in chosen)
        raise ValueError(f"{both} both say where to start: give one of them.")
    if start.resume:
        base = RunFolder(Path(start.resume)).read_config()
    elif start.config:
        base = Config.from_file(start.config)
    elif start.recipe:
        base = recipes.recipe(start.recipe)
    elif start.init:
        base = _after(Path(start.init).expanduser(), start.data, start.method or "simclr")
    else:
        base = recipes.default(start.data or "builtin", start.method or "simclr")
    if chosen and start.method not in (None, base.method.name):
        raise ValueError(
            f"--method {start.method} does not go with --{chosen[0]}, which is of "
            f"{base.method.name}: leave one out."
        )
    method: MethodName = base.method.name  # type: ignore[assignment]
    options = tyro.cli(
        Options,
        prog="amcl pretrain",
        description=DESCRIPTION,
        args=args,
        default=Options(method=method, settings=base),
    )
    if options.resume is not None:
        _only_hardware_changed(base, options)
    _first_stage_is_not_set_in_vain(base, options.settings)
    if options.settings.data.data == "FOLDER":
        raise ValueError("name the folder of images: --data FOLDER.")
    return options


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


def free_folder(config: Config) -> Path:
    """A new folder under runs/ that tells what it holds."""
    data = re.sub(r"\W+", "-", Path(config.data.data).name) or "images"
    name = f"{data}-{config.method.name}"
    method = config.method
    if isinstance(method, HeadSettings) and method.temperature != "constant":
        name += f"-{method.temperature}"
    path, number = Path("runs") / name, 2
    while path.exists():
        path, number = Path("runs") / f"{name}-{number}", number + 1
    return path


def _start(args: list[str]) -> argparse.Namespace:
    """The options that decide what all others default to."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in ("recipe", "config", "resume", "data", "init"):
        parser.add_argument(f"--{name}", nargs="?")
    parser.add_argument("--method", nargs="?")
    found, _ = parser.parse_known_args(args)
    if found.method not in METHODS:
        found.method = None  # tyro will say what is wrong with it
    return found


def _only_hardware_changed(base: Config, options: Options) -> None:
    changed = [
        f"--{name.replace('_', '-')}"
        for section in ("data", "views", "backbone", "method", "optimiser", "run")
        for name in _differing(getattr(base, section), getattr(options.settings, section))
    ]
    if options.out is not None:
        changed.insert(0, "--out")
    if changed:
        run = shlex.quote(str(options.resume))
        raise ValueError(
            f"a run goes on as it began, and {', '.join(changed)} would change it: leave that out, "
            f"or start a new run from it with --config {run}/config.toml."
        )


def _first_stage_is_not_set_in_vain(base: Config, settings: Config) -> None:
    """An error if options of LGP's first stage are given to a run that has none."""
    if not isinstance(settings.method, LGPSettings) or settings.run.init is None:
        return
    own = {field.name for field in dataclasses.fields(MaskedSettings)} | {"mae_epochs", "mae_lr"}
    if changed := [n for n in _differing(base.method, settings.method) if n in own]:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        raise ValueError(
            f"{names} are of LGP's first stage, and --init takes that from another run: leave out "
            "one or the other."
        )


def _differing(before: object, after: object) -> list[str]:
    names = [f.name for f in dataclasses.fields(before)]  # type: ignore[arg-type]
    # How many processes decode, and where a set lies, change nothing that is learned.
    free = {"workers", "memory", "data_root"}
    return [n for n in names if n not in free and getattr(before, n) != getattr(after, n)]


def _tell(command: str, message: str, style: str, code: int) -> int:
    console.print(f"{command}: {message}", style=style, markup=False, soft_wrap=True)
    return code
