"""Options of a command line, with errors that name options as they are typed.

tyro builds the parser from the dataclasses of a command. Its errors about a wrong option or value,
and those that the dataclasses raise with the names of fields, become messages about options here.
"""

import contextlib
import dataclasses
import difflib
import io
import itertools
import re
import sys
import traceback
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import tyro

from amcl.cli.known_options import no_such_option
from amcl.methods import METHODS
from amcl.printable import printable_lines
from amcl.temperature.settings import schemes_with

T = TypeVar("T")

# The paper's names of what has others here, and those of fields in messages of temperatures.
_RANGE = "the range of τ is set with --tau-lower, which is η, and --tau-upper, which is η + ι"
_NAMES = {"lower": "--tau-lower", "upper": "--tau-upper"}


@dataclass(frozen=True)
class Option:
    """An option of a command."""

    name: str
    """As it is typed, `--finetune.warmup-epochs`."""
    field: str
    owner: type
    """The dataclass that has the field."""
    hint: Any
    """The type that the field declares."""


def read_options(
    kind: type[T],
    args: Sequence[str],
    *,
    command: str,
    description: str | None = None,
    default: T | None = None,
) -> T:
    """Read the options of a command.

    Args:
        kind: Dataclass of the options.
        args: Words behind the name of the command.
        command: The command, such as "amcl embed", for its help.
        description: Text of its help; the default is the docstring of the dataclass.
        default: Values of options that are left out.

    Returns:
        The options.

    Raises:
        ValueError: An option or a value is wrong; the message says what is accepted.
        SystemExit: The help was printed.

    Example:
        >>> @dataclass(frozen=True)
        ... class Greet:
        ...     times: int = 1
        >>> read_options(Greet, ["--times", "3"], command="greet")
        Greet(times=3)
        >>> read_options(Greet, ["--time", "3"], command="greet")
        Traceback (most recent call last):
        ValueError: there is no option --time: did you mean --times?
    """
    options = {option.name: option for option in _options_of(kind, default)}
    if not {"-h", "--help"} & set(args):
        _check(args, options, default)
    defaults: dict[str, Any] = {} if default is None else {"default": default}
    stderr = _Captured(sys.stderr)
    stdout = _Captured(sys.stdout)
    try:
        with contextlib.redirect_stderr(stderr), contextlib.redirect_stdout(stdout):
            values: T = tyro.cli(kind, args=args, prog=command, description=description, **defaults)
            return values
    except (SystemExit, ValueError) as raised:
        if error := _our_error(raised):
            message = _with_options(str(error), options.values(), _owner(error))
            raise ValueError(message) from None
        print(printable_lines(stderr.getvalue()), end="", file=sys.stderr)
        print(printable_lines(_readable(stdout.getvalue())), end="")
        raise


def _readable(text: str) -> str:
    """Return help without the names of our fields, None and empty defaults, as wide as before.

    >>> _readable("╭─ settings.data options ─╮"), _readable("--canvas {None}|INT  Pixels")
    ('╭─ data options ──────────╮', '--canvas INT         Pixels')
    """

    def title(match: re.Match[str]) -> str:
        before, name, line = match.groups()
        shorter = len("settings.") if name else len("settings") - len("method")
        return f"{before}{name or 'method'} options {line * (1 + shorter)}"

    box = r"^(╭?─? )settings(?:\.([\w.]+))? options (.)"
    text = re.sub(box, title, text, flags=re.MULTILINE)
    text = re.sub(r"\{None\}\|(\S+)", rf"\1{' ' * 7}", text)
    text = text.replace("(default: )", " " * 11)
    return re.sub(r" +$", "", text, flags=re.MULTILINE)


class _Captured(io.StringIO):
    """Text for a stream: without colors, and with boxes if the encoding of the stream has them."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        encoding: str = getattr(stream, "encoding", None) or "ascii"
        self._encoding = encoding.lower()  # tyro knows "utf-8", not "UTF-8"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def _options_of(kind: type, default: Any, prefix: str = "", flat: bool = False) -> Iterator[Option]:
    """Yield the options of a dataclass and of those within it, as tyro names them."""
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        marks: list[Any] = []
        if get_origin(hint) is typing.Annotated:
            hint, *marks = get_args(hint)
        if tyro.conf.Positional in marks:
            continue
        value = getattr(default, field.name, None)
        inner = type(value) if dataclasses.is_dataclass(value) else hint
        name = next((m.name for m in marks if getattr(m, "name", None) is not None), field.name)
        if dataclasses.is_dataclass(inner):
            below = flat or tyro.conf.OmitArgPrefixes in marks
            inside = prefix if below or not name else f"{prefix}{name}."
            yield from _options_of(inner, value, inside.replace("_", "-"), below)
            continue
        if "choices" in field.metadata:
            hint = Literal[field.metadata["choices"]()]
        words = f"{prefix}{name}".replace("_", "-")
        yield Option(f"--{words}", field.name, kind, hint)
        if hint is bool and tyro.conf.FlagCreatePairsOff not in marks:
            *outer, last = words.split(".")
            yield Option("--" + ".".join([*outer, f"no-{last}"]), field.name, kind, hint)


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
    if get_origin(hint) is tuple:
        kinds = get_args(hint)
        hint = kinds[0]
        values = values if kinds[-1] is Ellipsis else values[: len(kinds)]
    elif not any(get_origin(kind) is tuple for kind in get_args(hint)):
        values = values[:1]
    for value in values:
        if not _accepts(hint, value):
            raise ValueError(_refusal(option.name, hint, value))


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
    kinds = [hint, *get_args(hint)]
    number = "a number" if float in kinds else "a whole number"
    words = [repr(word) for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    return f"{name} takes {' or '.join([number, *words])}, got {value!r}."


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
