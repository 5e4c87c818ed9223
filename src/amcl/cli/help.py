"""The text of `amcl COMMAND --help`, and of `--help-all`."""

import shutil
import textwrap
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from amcl.cli.declared import Option, options_of, positionals_of

HELP_OPTIONS = ("-h", "--help", "--help-all")
_WIDEST = 100  # columns
_NAMES = 24  # columns of the names of options, if they fit
_TYPES = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}


@dataclass(frozen=True, kw_only=True)
class Help:
    """What the help of a command says besides its options.

    Args:
        about: What the command does, in a sentence or two.
        examples: What each does, and the command line.
        details: Paragraphs for `--help-all`.
        main: Names of the options that the short help shows, without dashes, in this order;
            empty for all.
    """

    about: str
    examples: tuple[tuple[str, str], ...]
    details: str = ""
    main: tuple[str, ...] = ()


def help_text(command: str, text: Help, kind: type, default: Any = None, *, all: bool) -> str:
    """Return the help of a command.

    Args:
        command: The command, such as "amcl embed".
        text: Its description, examples and main options.
        kind: Dataclass of its options.
        default: Values of options that are left out.
        all: Whether all options are shown.

    Returns:
        Lines as wide as the terminal, at most 100 columns.
    """
    positionals = list(positionals_of(kind))
    options = list(options_of(kind, default))
    main = _main(options, text.main)
    short = bool(text.main) and not all
    width = min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)
    usage = " ".join([f"usage: {command}", *map(usage_of, positionals), "[OPTIONS]"])
    parts = [usage, _wrapped(text.about, width)]
    examples = [f"  # {what}\n  {line}" for what, line in text.examples]
    parts.append("\n".join(["Examples:", *examples]))
    if text.details and not short:
        parts += [_wrapped(paragraph, width) for paragraph in text.details.split("\n\n")]
    if positionals:
        parts.append(
            "\n".join(["Arguments:", *(_entry(usage_of(p), p, width) for p in positionals)])
        )
    if short:
        parts.append("\n".join(["Main options:", *(_option(option, width) for option in main)]))
        others = len(options) - len(main)
        parts.append(f"{others} other options: {command} --help-all")
    else:
        parts += _sections(options, width)
    return "\n\n".join(parts) + "\n"


def _main(options: Sequence[Option], names: Sequence[str]) -> list[Option]:
    """Return the options of the short help; a name that some methods do not have is left out."""
    by_name = {option.name.removeprefix("--"): option for option in options}
    return [by_name[name] for name in names if name in by_name]


def _sections(options: Sequence[Option], width: int) -> Iterator[str]:
    sections: dict[str, list[Option]] = {}
    for option in options:
        sections.setdefault(option.section, []).append(option)
    for section in sorted(sections, key=lambda name: name != ""):  # the command's own come first
        title = f"{section.replace('_', ' ').capitalize()} options:" if section else "Options:"
        yield "\n".join([title, *(_option(option, width) for option in sections[section])])


def usage_of(positional: Option) -> str:
    """Return a positional argument as the usage line has it: `[RUN]` if it may be left out."""
    if positional.metavar is not None:
        return positional.metavar
    name = positional.field.upper()
    if get_origin(positional.hint) is tuple:
        name = f"{name.removesuffix('S')} ..."
    return name if positional.required else f"[{name}]"


def _option(option: Option, width: int) -> str:
    names = option.name
    if option.negative is not None:
        names += f", {option.negative}"
    elif option.hint is not bool:
        names += f" {words_of(option)}"
    return _entry(names, option, width)


def _entry(names: str, option: Option, width: int) -> str:
    about = option.about
    if option.required:
        about += " (required)" if option.name.startswith("--") else ""
    elif (default := _default(option.default)) is not None:
        about += f" (default: {default})"
    indent = " " * (_NAMES + 4)
    if len(names) > _NAMES:
        return f"  {names}\n" + textwrap.fill(
            about, width, initial_indent=indent, subsequent_indent=indent
        )
    first = f"  {names:<{_NAMES}}  "
    return textwrap.fill(about, width, initial_indent=first, subsequent_indent=indent)


def words_of(option: Option) -> str:
    """Return words for the values of an option."""
    return option.metavar or value_words(option.hint)


def value_words(hint: Any) -> str:
    """Return words for the values that an option takes.

    >>> value_words(int), value_words(float | None), value_words(tuple[float, float])
    ('INT', 'FLOAT', 'FLOAT FLOAT')
    >>> value_words(Literal["auto", "cpu"]), value_words(tuple[int, ...])
    ('auto|cpu', 'INT ...')
    """
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return "|".join(value_words(kind) for kind in get_args(hint) if kind is not type(None))
    if origin is Literal:
        return "|".join(map(str, get_args(hint)))
    if origin is tuple:
        kinds = get_args(hint)
        if kinds[-1] is Ellipsis:
            return f"{value_words(kinds[0])} ..."
        return " ".join(map(value_words, kinds))
    return _TYPES.get(hint, "TEXT")


def _default(value: Any) -> str | None:
    """Return a default as it would be typed; None if there is nothing to say of it."""
    if value is None or isinstance(value, bool) or value in ("", ()):
        return None if value is not True else "on"
    if isinstance(value, tuple):
        return " ".join(str(_default(item)) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(" ".join(text.split()), width)
