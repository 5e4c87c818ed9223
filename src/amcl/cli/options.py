"""Options of a command line, with errors that name options as they are typed.

tyro builds the parser from the dataclasses of a command. Its errors about a wrong option or value,
and those that the dataclasses raise with the names of fields, become messages about options here.
"""

import contextlib
import dataclasses
import difflib
import io
import itertools
import math
import re
import sys
import traceback
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import tyro

from amcl.cli.declared import Option, most_values, options_of, positionals_of
from amcl.cli.help import HELP_OPTIONS, Help, HelpShown, help_page, usage_of, words_of
from amcl.cli.known_options import no_such_option
from amcl.methods import METHODS
from amcl.printable import printable_lines
from amcl.temperature.settings import schemes_with

T = TypeVar("T")

# The paper's names of what has others here, and those of fields in messages of temperatures.
_RANGE = "the range of τ is set with --tau-lower, which is η, and --tau-upper, which is η + ι"
_NAMES = {"lower": "--tau-lower", "upper": "--tau-upper"}


def read_options(
    kind: type[T],
    args: Sequence[str],
    *,
    command: str,
    help: Help,
    default: T | None = None,
) -> T:
    """Read the options of a command.

    Args:
        kind: Dataclass of the options.
        args: Words behind the name of the command.
        command: The command, such as "amcl embed", for its help.
        help: Text of its help.
        default: Values of options that are left out.

    Returns:
        The options.

    Raises:
        ValueError: An option or a value is wrong; the message says what is accepted.
        SystemExit: The help was printed.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Greet:
        ...     times: int = 1
        >>> help = Help(about="Greet.", examples=())
        >>> read_options(Greet, ["--times", "3"], command="greet", help=help)
        Greet(times=3)
        >>> read_options(Greet, ["--time", "3"], command="greet", help=help)
        Traceback (most recent call last):
        ValueError: there is no option --time: did you mean --times?
    """
    if asked := set(HELP_OPTIONS) & set(args):
        page = help_page(command, help, kind, default)
        print(printable_lines(page.text(all="--help-all" in asked)), end="")
        raise HelpShown(page)
    options = {name: option for option in options_of(kind, default) for name in option.names}
    _check(args, options, default)
    _check_arguments(args, kind, options)
    defaults: dict[str, Any] = {} if default is None else {"default": default}
    stderr = _Captured(sys.stderr)
    try:
        with contextlib.redirect_stderr(stderr):
            values: T = tyro.cli(kind, args=args, prog=command, **defaults)
            return values
    except (SystemExit, ValueError) as raised:
        if error := _our_error(raised):
            message = _with_options(str(error), options.values(), _owner(error))
            raise ValueError(message) from None
        print(printable_lines(stderr.getvalue()), end="", file=sys.stderr)
        raise


class _Captured(io.StringIO):
    """Text for a stream: without colors, and with boxes if the encoding of the stream has them."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        encoding: str = getattr(stream, "encoding", None) or "ascii"
        self._encoding = encoding.lower()  # tyro knows "utf-8", not "UTF-8"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def _check(args: Sequence[str], options: dict[str, Option], default: Any) -> None:
    """Raise an error for the first option that does not exist or has a value it does not take."""
    for index, word in enumerate(args):
        name, equals, value = word.partition("=")
        if not re.match(r"--[a-zA-Z]", name):
            continue
        name = name.replace("_", "-")
        if name not in options:
            raise ValueError(_unknown(name, options, default))
        following = args[index + 1 :]
        values = itertools.takewhile(lambda other: not other.startswith("--"), following)
        _check_values(options[name], [value] if equals else list(values))


def _check_arguments(args: Sequence[str], kind: type, options: dict[str, Option]) -> None:
    """Raise an error for arguments and options that are missing, and for words too many."""
    positionals = list(positionals_of(kind))
    words = _positional_words(args, options)
    several = any(get_origin(p.hint) is tuple for p in positionals)
    if len(words) > len(positionals) and not several:
        takes = " ".join(map(usage_of, positionals)) or "options alone"
        raise ValueError(f"{words[len(positionals)]!r} is too much: the command takes {takes}.")
    missing = [usage_of(p) for p in positionals[len(words) :] if p.required]
    given = {word.partition("=")[0].replace("_", "-") for word in args}
    required = {option.name: option for option in options.values() if option.required}
    missing += [f"{o.name} {words_of(o)}" for o in required.values() if o.name not in given]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ValueError(f"{_listed(missing)} {verb} missing: --help shows examples.")


def _positional_words(args: Sequence[str], options: dict[str, Option]) -> list[str]:
    """Return the words that are neither options nor their values."""
    words = []
    values: float = 0  # that the last option may still take
    for word in args:
        name, equals, _ = word.partition("=")
        option = options.get(name.replace("_", "-"))
        if option is not None:
            values = 0 if equals else most_values(option.hint)
        elif values > 0:
            values -= 1
        else:
            words.append(word)
    return words


def _unknown(name: str, options: dict[str, Option], default: Any) -> str:
    """Return the message for an option that does not exist, or belongs to something else."""
    field = name.removeprefix("--").replace("-", "_")
    if field in ("eta", "iota") and "--tau-lower" in options:
        return f"there is no option {name}: {_RANGE}."
    method = getattr(getattr(default, "settings", None), "method", None)
    plain = field.removeprefix("no_")
    if method is not None and method.has_heads and (schemes := schemes_with(plain)):
        current = method.temperature.name
        return (
            f"{name} belongs to --temperature {', '.join(schemes)}: this run has --temperature "
            f"{current}."
        )
    if method is not None and (others := _methods_with(plain)):
        return f"{name} belongs to {_listed(others)}: this run has --method {method.name}."
    return no_such_option(name, options)


def _methods_with(field: str) -> list[str]:
    return [
        name
        for name in METHODS
        if field in {f.name for f in dataclasses.fields(METHODS[name].settings_class)}
        or (
            METHODS[name].settings_class.has_heads
            and (field in ("eta", "iota") or schemes_with(field))
        )
    ]


def _listed(names: Sequence[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])


def _check_values(option: Option, values: Sequence[str]) -> None:
    hint = option.hint
    if hint is bool:
        return
    if not values and not _may_be_empty(hint):
        raise ValueError(f"{option.name} takes {words_of(option)}, and no value is given.")
    most = most_values(hint)
    values = values if most == math.inf else values[: int(most)]
    for value in values:
        if not _accepts(hint, value):
            raise ValueError(_refusal(option.name, hint, value))


def _may_be_empty(hint: Any) -> bool:
    return get_origin(hint) is tuple and get_args(hint)[-1] is Ellipsis


def _accepts(hint: Any, value: str) -> bool:
    if get_origin(hint) in (Union, types.UnionType):
        return any(_accepts(kind, value) for kind in get_args(hint))
    if get_origin(hint) is Literal:
        return value in map(str, get_args(hint))
    if get_origin(hint) is tuple:
        return _accepts(get_args(hint)[0], value)
    if hint is type(None):
        return value == "None"
    if hint in (int, float):
        with contextlib.suppress(ValueError):
            hint(value)
            return True
        return False
    return True


def _refusal(name: str, hint: Any, value: str) -> str:
    if get_origin(hint) is Literal:
        return no_such_choice(name, value, [str(choice) for choice in get_args(hint)])
    kinds = list(_kinds(hint))
    words = [str(w) for kind in kinds if get_origin(kind) is Literal for w in get_args(kind)]
    if not {int, float} & set(kinds):
        return no_such_choice(name, value, words)
    number = "a number" if float in kinds else "a whole number"
    return f"{name} takes {' or '.join([number, *map(repr, words)])}, got {value!r}."


def _kinds(hint: Any) -> Iterator[Any]:
    """Yield a type and those that it is made of."""
    yield hint
    for kind in get_args(hint) if get_origin(hint) is not Literal else ():
        yield from _kinds(kind)


def no_such_choice(option: str, value: str, choices: Sequence[str]) -> str:
    """Return the message for a value that is not among the choices of an option.

    Args:
        option: The option as it is typed.
        value: The value that was given.
        choices: Values that are accepted.

    Returns:
        A sentence with the nearest choice.

    Example:
        >>> no_such_choice("--form", "sotfmax", ["softmax", "max"])
        "--form has no choice 'sotfmax': did you mean softmax? Choose from softmax, max."
    """
    near = difflib.get_close_matches(value, choices, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{option} has no choice {value!r}: {hint}Choose from {', '.join(choices)}."


def _our_error(raised: BaseException) -> ValueError | None:
    """Return the error of one of our dataclasses behind an exception of tyro, if there is one."""
    error: BaseException | None = raised
    while error is not None and not isinstance(error, ValueError):
        error = error.__context__
    if error is None or _frames(error)[-1].f_globals["__name__"].partition(".")[0] != "amcl":
        return None
    return error


def _owner(error: ValueError) -> type | None:
    """Return the dataclass whose check failed."""
    checked = [frame.f_locals.get("self") for frame in _frames(error)]
    return next((type(c) for c in reversed(checked) if dataclasses.is_dataclass(c)), None)


def _frames(error: BaseException) -> list[types.FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]


def _with_options(message: str, options: Iterable[Option], owner: type | None) -> str:
    """Return a message about fields as one about options: `batch_size=5` is `--batch-size 5`.

    Of several fields of one name, the message is about that of `owner`.
    """
    names: dict[str, str] = {}
    for option in sorted(options, key=lambda option: option.owner is owner):
        if not option.name.rpartition(".")[2].removeprefix("--").startswith("no-"):
            words = option.name.rpartition(".")[2].removeprefix("--").replace("-", "_")
            names |= dict.fromkeys((option.field, words), option.name)
    names |= {field: option for field, option in _NAMES.items() if option in names.values()}
    single = "|".join(sorted(names, key=len, reverse=True)) or "(?!)"
    snake = "|".join(name for name in sorted(names, key=len, reverse=True) if "_" in name) or "(?!)"

    def typed(match: re.Match[str]) -> str:
        return f"{names[match[1]]} {match[2]}".rstrip()

    message = re.sub(rf"(?<![\w.-])({single}) ?= ?'?([^\s',:;]*)'?", typed, message)
    message = re.sub(rf"^({single})(?= (?:must|has|takes)\b)", lambda m: names[m[1]], message)
    message = re.sub(r"(?<![\w-])lower < upper", "--tau-lower < --tau-upper", message)
    return re.sub(rf"(?<![\w-])({snake})(?![\w-])", lambda m: names[m[1]], message)
