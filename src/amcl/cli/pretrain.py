"""`amcl pretrain`: from images to a trained backbone."""

import logging
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from amcl.cli.cautions import cautions
from amcl.cli.options import read_options
from amcl.cli.start import Start, base_config, length_notes, refuse_unused, require_images
from amcl.config import Config
from amcl.config.fields import differing
from amcl.config.options import values_of
from amcl.errors import Interrupted, RunError
from amcl.redaction import redact
from amcl.training import pretrain
from amcl.training.display import console, log_to_console

logger = logging.getLogger("amcl")

DESCRIPTION = """Train a backbone on images, labeled or not.

amcl pretrain --data FOLDER --out runs/first

amcl pretrain --data cifar10 --method moco

amcl pretrain --data cifar10 --method moco --plain

amcl pretrain --recipe cifar10-simclr-amcl --epochs 200

amcl pretrain --method lgp --init runs/mae

amcl pretrain --resume runs/first

amcl pretrain --resume runs/first --epochs 400

A method is trained with three heads and adaptive temperatures (AMCL); with --plain as published,
with one head and a constant temperature. Where no recipe or file is named, settings start from the
recipe of the data set and method, and the defaults below are those:
`amcl pretrain --data FOLDER --help` shows the defaults for a folder, `--method METHOD --help` the
options of a method. With --init, network and images are by default those of that run."""


@dataclass(frozen=True, kw_only=True)
class Options(Start):
    """What `amcl pretrain` takes."""

    resume: Path | None = None
    """Resume the run in this folder. --epochs may make it longer; options of hardware, saving
    and logging may change too, all others may not."""
    out: Path | None = None
    """The run folder, new or empty; none: runs/DATA-METHOD, numbered if it exists."""


def main(args: list[str]) -> int:
    """Run the command; returns the exit code."""
    goes_on = "A run resumes from its last checkpoint with --resume."
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
    for caution in cautions(options.settings):
        logger.warning(caution)
    out = options.out or free_folder(options.settings)
    if os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0":
        for line in (f"run folder: {out}", *length_notes(args)):
            console.print(line, soft_wrap=True, markup=False)
    pretrain(options.settings, out)


def parse(args: list[str]) -> Options:
    """The options, on top of the recipe, file or run they start from."""
    base = base_config(args)
    options = read_options(
        Options,
        args,
        command="amcl pretrain",
        description=DESCRIPTION,
        default=Options(method=base.method.name, settings=base),
    )
    if options.resume is not None:
        _only_what_may_change(base, options)
    refuse_unused([(base, options.settings)], args)
    require_images(options.settings)
    return options


def free_folder(config: Config) -> Path:
    """A new folder under runs/ that tells what it holds."""
    data = re.sub(r"\W+", "-", config.data.name) or "images"
    name = f"{data}-{config.method.name}"
    temperature = values_of(config).get("temperature", "constant")
    if temperature != "constant":
        name += f"-{temperature}"
    path, number = Path("runs") / name, 2
    while path.exists():
        path, number = Path("runs") / f"{name}-{number}", number + 1
    return path


def _only_what_may_change(base: Config, options: Options) -> None:
    """Raise an error if a resumed run would learn something else, but for its length."""
    free = ("epochs",)
    changed = [
        f"--{name.replace('_', '-')}"
        for name in differing(base, options.settings)
        if name not in free
    ]
    if options.out is not None:
        changed.insert(0, "--out")
    if changed:
        run = shlex.quote(str(options.resume))
        raise ValueError(
            f"a run resumes as it began, and {', '.join(changed)} would change it: leave that out, "
            f"or start a new run from its settings with --config {run}/config.toml, or from its "
            f"backbone with --init {run}."
        )


def _tell(command: str, message: str, style: str, code: int) -> int:
    console.print(redact(f"{command}: {message}"), style=style, markup=False, soft_wrap=True)
    return code
