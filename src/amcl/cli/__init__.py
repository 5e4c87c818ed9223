"""The command line: `amcl COMMAND …`, a file for each command.

Exit codes: 0 all is well; 1 it could not be done; 2 a wrong option or input; 3 training diverged;
4 some of the protocols of `amcl evaluate` could not run, and the results of the others were shown;
130 or 143 stopped by Ctrl-C or SIGTERM.
"""

import difflib
import importlib
import os
import sys
from importlib.metadata import version

from amcl.cli.known_options import mistyped

COMMANDS = {
    "demo": "see in three minutes what it does",
    "pretrain": "train a backbone on images, labeled or not",
    "sweep": "train over a grid of settings and seeds",
    "search": "find settings: the paper's 25 trials, on a validation split",
    "evaluate": "judge a backbone: kNN, linear probe, few labels, fine-tuning, no labels",
    "compare": "runs side by side, over seeds",
    "report": "one page of pictures on what a run has learned",
    "analyze": "what a setting does: heads, views, temperatures, labels, as table and picture",
    "reproduce": "the paper's tables and figures",
    "cost": "parameters and FLOPs, with and without AMCL",
    "predict": "name the classes of new pictures by a fine-tuned classifier",
    "embed": "write the features of images with their file names",
    "export": "a run as files for other tools: timm, ONNX, a model card",
    "recipes": "list recipes, or show one",
    "data": "fetch a named data set",
}


def main(args: list[str] | None = None) -> int:
    """Run the command that the arguments name; returns the exit code."""
    args = sys.argv[1:] if args is None else args
    if not args or args[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if args else 2
    if args[0] == "--version":
        print(f"amcl {version('amcl-torch')}")
        return 0
    command, *rest = args
    if command not in COMMANDS:
        near = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}."
        print(f"amcl: there is no command {command!r}: {hint}", file=sys.stderr)
        return 2
    if message := mistyped(command, rest):  # before torch is imported, which takes seconds
        print(f"amcl {command}: {message}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"amcl.cli.{command}")
    try:
        code: int = module.main(rest)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _help() -> str:
    rows = "\n".join(f"  amcl {name:<10} {what}" for name, what in COMMANDS.items())
    return (
        "amcl: adaptive multi-head contrastive learning\n\n"
        f"{rows}\n\n"
        "`amcl COMMAND --help` tells what a command takes. To begin:\n"
        "  amcl pretrain --data builtin --epochs 5 --out runs/first"
    )
