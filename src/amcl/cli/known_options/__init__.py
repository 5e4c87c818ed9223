"""Lists of the options of each command: a mistyped one is answered before anything is imported.

The files are the promise of the command line to users' scripts: a test compares them with what the
commands take, and AMCL_FREEZE=1 writes them anew.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Sequence
from importlib.metadata import entry_points
from pathlib import Path

KNOWN = Path(__file__).parent
"""A file for each command, and of `amcl pretrain` one for each built-in method.

Methods are listed with adaptive temperatures; those temperatures that have other options, apart.
"""

_GROUPS = ("amcl.methods", "amcl.temperatures")  # whose options the files do not list
_PAPER = ("--eta", "--iota")  # names of the paper, which a command answers by itself


def mistyped(command: str, args: Sequence[str]) -> str:
    """Return a message about the first option that no command has; empty if there is none.

    Options of another command or method are left to the command, which knows more, and so are all
    options of methods and protocols of other packages.

    Args:
        command: Name of the command.
        args: Words behind it.

    Returns:
        A sentence, or an empty string.

    Example:
        >>> mistyped("compare", ["--baselin", "runs/first"])
        'there is no option --baselin: did you mean --baseline?'
        >>> mistyped("pretrain", ["--epochs", "3"])
        ''
    """
    words = [word.partition("=")[0].replace("_", "-") for word in args]
    method = next((b for a, b in zip(words, args[1:], strict=False) if a == "--method"), "simclr")
    name = method if command == "pretrain" else command
    file = KNOWN / f"{name}.txt"
    if not file.is_file() or {"-h", "--help", "--help-all"} & set(words):
        return ""
    if any(entry_points(group=group) for group in _GROUPS):
        return ""
    every = {option for path in KNOWN.glob("*.txt") for option in _read(path)} | set(_PAPER)
    sections = {option.partition(".")[0] for option in every if "." in option}
    for word in words:
        section, dot, _ = word.partition(".")
        if dot and section not in sections:  # perhaps of a protocol that another package brings
            continue
        if re.match(r"--[a-zA-Z]", word) and word not in every:
            return no_such_option(word, _read(file))
    return ""


def no_such_option(name: str, options: Collection[str]) -> str:
    """Return the message for an option that a command does not have.

    Args:
        name: The option as it was typed.
        options: Options of the command.

    Returns:
        A sentence with the nearest options.

    Example:
        >>> no_such_option("--epoch", ["--epochs", "--seed"])
        'there is no option --epoch: did you mean --epochs?'
    """
    near = difflib.get_close_matches(name, options, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "--help lists them."
    return f"there is no option {name}: {hint}"


def options_of_commands(commands: Iterable[str]) -> dict[str, list[str]]:
    """Return the options of each command; those of `amcl pretrain` are of all built-in methods.

    Args:
        commands: Names of commands.
    """
    names = set(commands)
    files = {path.stem: _read(path) for path in sorted(KNOWN.glob("*.txt"))}
    methods = {option for name, options in files.items() if name not in names for option in options}
    options = {name: files.get(name, ["--help"]) for name in names}
    return dict(sorted((options | {"pretrain": sorted(methods)}).items()))


def _read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split()
