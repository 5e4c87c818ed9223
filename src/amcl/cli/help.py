"""The text of `amcl COMMAND --help`, and of `--help-all`."""

import shutil
import textwrap
import types
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


@dataclass(frozen=True)
class HelpPage:
    """The help of a command, with its options.

    Args:
        command: The command, such as "amcl embed".
        help: Description, examples and main options.
        positionals: Its positional arguments.
        options: Its options.
    """

    command: str
    help: Help
    positionals: tuple[Option, ...]
    options: tuple[Option, ...]

    @property
    def usage(self) -> str:
        """The command with its arguments."""
        return " ".join([self.command, *map(usage_of, self.positionals), "[OPTIONS]"])

    def main(self) -> list[Option]:
        """Return the options of the short help; a name that a method does not have is left out."""
        by_name = {option.name.removeprefix("--"): option for option in self.options}
        return [by_name[name] for name in self.help.main if name in by_name]

    def sections(self) -> dict[str, list[Option]]:
        """Return all options by the title of their section, the command's own first."""
        sections: dict[str, list[Option]] = {}
        for option in sorted(self.options, key=lambda option: option.section != ""):
            name = option.section.replace("_", " ").capitalize()
            sections.setdefault(f"{name} options" if name else "Options", []).append(option)
        return sections

    def text(self, *, all: bool) -> str:
        """Return the text for a terminal, as wide as that is, at most 100 columns.

        Args:
            all: Whether all options are shown.
        """
        width = min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)
        short = bool(self.help.main) and not all
        parts = [f"usage: {self.usage}", _wrapped(self.help.about, width)]
        examples = [f"  # {what}\n  {line}" for what, line in self.help.examples]
        parts.append("\n".join(["Examples:", *examples]))
        if self.help.details and not short:
            parts += [_wrapped(paragraph, width) for paragraph in self.help.details.split("\n\n")]
        if self.positionals:
            rows = (_entry(usage_of(p), p, width) for p in self.positionals)
            parts.append("\n".join(["Arguments:", *rows]))
        sections = {"Main options": self.main()} if short else self.sections()
        for title, options in sections.items():
            rows = (_entry(names_of(option), option, width) for option in options)
            parts.append("\n".join([f"{title}:", *rows]))
        if short:
            others = len(self.options) - len(self.main())
            parts.append(f"{others} other options: {self.command} --help-all")
        return "\n\n".join(parts) + "\n"


class HelpShown(SystemExit):
    """Raised when the help of a command was printed.

    Args:
        page: The help.
    """

    def __init__(self, page: HelpPage) -> None:
        super().__init__(0)
        self.page = page


def help_page(command: str, help: Help, kind: type, default: Any = None) -> HelpPage:
    """Return the help of a command.

    Args:
        command: The command, such as "amcl embed".
        help: Description, examples and main options.
        kind: Dataclass of its options.
        default: Values of options that are left out.
    """
    return HelpPage(command, help, tuple(positionals_of(kind)), tuple(options_of(kind, default)))


def usage_of(positional: Option) -> str:
    """Return a positional argument as the usage line has it: `[RUN]` if it may be left out."""
    if positional.metavar is not None:
        return positional.metavar
    name = positional.field.upper()
    if get_origin(positional.hint) is tuple:
        name = f"{name.removesuffix('S')} ..."
    return name if positional.required else f"[{name}]"


def names_of(option: Option) -> str:
    """Return an option as the help has it, with words for its values."""
    if option.negative is not None:
        return f"{option.name}, {option.negative}"
    return option.name if option.hint is bool else f"{option.name} {words_of(option)}"


def about(option: Option) -> str:
    """Return what an option does, with its default."""
    if option.required:
        return option.about + (" (required)" if option.name.startswith("--") else "")
    default = _default(option.default)
    return option.about if default is None else f"{option.about} (default: {default})"


def _entry(names: str, option: Option, width: int) -> str:
    indent = " " * (_NAMES + 4)
    fits = len(names) <= _NAMES
    first = f"  {names:<{_NAMES}}  " if fits else indent
    text = textwrap.fill(about(option), width, initial_indent=first, subsequent_indent=indent)
    return text if fits else f"  {names}\n{text}"


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
