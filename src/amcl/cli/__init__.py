"""The command line: `amcl COMMAND …`, a file for each command.

Exit codes: 0 all is well; 1 it could not be done; 2 a wrong option or input; 3 training diverged;
4 some of the protocols of `amcl evaluate` could not run, and the results of the others were shown;
128 and the number of the signal that stopped it: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.
"""

import difflib
import importlib
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import version

from amcl.cli.known_options import mistyped
from amcl.cli.process import run_process
from amcl.extras import needed

GROUPS = {
    "Start": {
        "demo": "see in three minutes what AMCL does",
        "doctor": "show versions, devices, data folders and what is missing",
        "data": "fetch a named data set",
        "recipes": "list recipes, or show one",
        "models": "list trained models that come with amcl, or show one",
    },
    "Train": {
        "pretrain": "train a backbone on images, labeled or not",
        "sweep": "train over a grid of settings and seeds",
        "search": "find the settings that serve best",
    },
    "Judge what was learned": {
        "evaluate": "by kNN, linear probe, few labels, fine-tuning, and without labels",
        "detect": "by training a detector from it, on boxes and masks",
        "compare": "show the results of runs side by side, over seeds",
        "report": "show what a run has learned, on one page of pictures",
    },
    "Use it": {
        "curate": "find copies, odd images and leaks, and what to label first",
        "embed": "write the features of images",
        "predict": "name the classes of new images by a fine-tuned classifier",
        "export": "write files for other tools: timm, ONNX, a model card",
    },
    "Understand AMCL": {
        "analyze": "measure the effect of heads, views, temperatures and labels",
        "cost": "count parameters and FLOPs, with and without AMCL",
        "reproduce": "run the paper's tables and figures",
    },
    "Set up the terminal": {
        "completion": "write the completion of commands and options for your shell",
    },
}
COMMANDS = {name: about for group in GROUPS.values() for name, about in group.items()}


def main(args: list[str] | None = None) -> int:
    """Run a command.

    Args:
        args: Name of the command and its arguments. By default, these are the arguments of the
            process, whose streams and signals then belong to the command, too.

    Returns:
        The exit code.

    Example:
        >>> main(["recipe"])
        2
    """
    if args is None:
        return run_process(lambda: _load(sys.argv[1:]))
    return _load(args)()


def _load(args: list[str]) -> Callable[[], int]:
    """Import the command that the arguments name, and return the function that runs it."""
    if not args or args[0] in ("-h", "--help", "help"):
        return partial(_answer, _help(), 0 if args else 2)
    if args[0] == "--version":
        return partial(_answer, f"amcl {version('amcl-torch')}", 0)
    command, *rest = args
    if command not in COMMANDS:
        near = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}."
        return partial(_refuse, f"amcl: there is no command {command!r}: {hint}")
    if message := mistyped(command, rest):  # before torch is imported, which takes seconds
        return partial(_refuse, f"amcl {command}: {message}")
    try:
        module = importlib.import_module(f"amcl.cli.{command}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "amcl":
            raise
        return partial(_refuse, needed(f"amcl {command}", error.name, "train"))
    return partial(module.main, rest)


def _answer(text: str, code: int) -> int:
    print(text)
    return code


def _refuse(message: str) -> int:
    print(message, file=sys.stderr)
    return 2


def _help() -> str:
    lines = ["amcl: adaptive multi-head contrastive learning", "", "usage: amcl COMMAND [OPTIONS]"]
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:<11} {about}" for name, about in commands.items())]
    lines += [
        "",
        "To begin:",
        "  amcl pretrain --data builtin --epochs 5 --out runs/first",
        "  amcl report runs/first",
        "",
        "`amcl COMMAND --help` shows examples and the main options, `--help-all` all options.",
    ]
    return "\n".join(lines)
