"""JSON, lines of JSON and TOML from files that may come from anywhere, checked as they are read.

An error is a ValueError of one line, which names the file and what is wrong in it.
"""

import json
import math
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import tomli_w

from amcl.printable import escape_strings, printable

_MAX_BYTES = 1 << 28  # of a file, or of a line of one that has a line for each entry
_MAX_DEPTH = 64  # tables within tables
_MAX_INT = 1 << 63  # as in TOML
_KINDS: dict[Any, str] = {
    bool: "true or false",
    dict: "a table",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "text",
    types.NoneType: "nothing",
}


def read_json(path: Path) -> dict[str, Any]:
    """Return the table in a JSON file.

    Args:
        path: The file.

    Returns:
        Its values by name. All numbers are finite.

    Raises:
        ValueError: The file is no JSON, or no table; it is nested too deeply or too large.
    """
    return parse_json(_read(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Return the table in a TOML file; errors are those of `read_json`.

    Args:
        path: The file.

    Returns:
        Its values by name.
    """
    return parse_toml(_read(path), str(path))


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the tables in a file that has one on each line.

    Half a line at the end, which a process that was killed leaves, is left out. Numbers may be NaN
    and infinite: metrics of a run that diverges are.

    Args:
        path: The file.

    Returns:
        The tables in the order of their lines.

    Raises:
        ValueError: A line is no JSON, or no table.
    """
    rows = []
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_BYTES), b""), 1):
            if not line.endswith(b"\n"):
                if len(line) == _MAX_BYTES:
                    raise ValueError(f"{path} is damaged: line {number} is too long.")
                break
            where = f"line {number} of {path}"
            rows.append(parse_json(_decode(line, where), where, finite=False))
    return rows


def parse_json(text: str, where: str, *, finite: bool = True) -> dict[str, Any]:
    """Return the table in a text of JSON.

    Args:
        text: The text.
        where: File of the text, for errors.
        finite: Whether NaN and infinite numbers are errors.

    Returns:
        Its values by name.

    Raises:
        ValueError: The text is no JSON, or no table.

    Example:
        >>> parse_json('{"epoch": 3}', "a file")
        {'epoch': 3}
        >>> parse_json('{"epoch": 1e999}', "a file")
        Traceback (most recent call last):
        ValueError: a file is damaged: it has a number that is not finite.
    """
    try:
        table = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is damaged: it is no JSON ({_reason(error)}).") from None
    return _checked(table, where, finite)


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Return the table in a text of TOML.

    Args:
        text: The text.
        where: File of the text, for errors.

    Returns:
        Its values by name. Numbers may be NaN and infinite: settings check theirs.

    Raises:
        ValueError: The text is no TOML.

    Example:
        >>> parse_toml("[run]\\nseed = 0", "a file")
        {'run': {'seed': 0}}
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not TOML: {_reason(error)}.") from None
    return _checked(table, where, finite=False)


def to_json(values: Any, indent: int | None = 2) -> str:
    """Return values as JSON that UTF-8 can hold, whatever names are in it.

    Args:
        values: Tables, lists, texts and finite numbers.
        indent: Blanks before each level; None for one line.

    Returns:
        The text, from which `parse_json` reads equal values.

    Example:
        >>> to_json({"τ": "caf\\udce9"}, indent=None)
        '{"τ": "caf\\\\udce9"}'
    """
    text = json.dumps(values, indent=indent, ensure_ascii=False, allow_nan=False)
    return escape_strings(text)


def to_toml(table: Mapping[str, Any]) -> str:
    """Return a table as TOML.

    Args:
        table: Tables, lists, texts and numbers.

    Returns:
        The text, from which `parse_toml` reads equal values.

    Raises:
        ValueError: A text is not UTF-8, which TOML cannot hold. It is a path or a name.

    Example:
        >>> to_toml({"seed": 0})
        'seed = 0\\n'
    """
    text = tomli_w.dumps(table)
    if half := next((line for line in text.splitlines() if re.search("[\ud800-\udfff]", line)), ""):
        raise ValueError(f"{printable(half)}: this is not UTF-8. Rename the file or folder.")
    return escape_strings(text)


def require(value: Any, kind: Any, where: object) -> None:
    """Raise an error unless a value that was read is of a type.

    Args:
        value: The value: tables, lists, texts, numbers.
        kind: The type, such as ``dict[str, float]``, or a TypedDict. Numbers are floats, too, and
            lists are tuples.
        where: The file, for errors.

    Raises:
        ValueError: The value, or one within it, is of another type.

    Example:
        >>> require({"std": {"top1": "x"}}, dict[str, dict[str, float]], "a file")
        Traceback (most recent call last):
        ValueError: a file is damaged: std.top1 is 'x' instead of a number.
    """
    if fault := _fault(value, kind, ""):
        raise ValueError(f"{where} is damaged: {fault}.")


def _fault(value: Any, kind: Any, name: str) -> str:
    """Return what is wrong with a value; "" for one of the right type."""
    origin = get_origin(kind) or kind
    args = get_args(kind)
    inner: list[tuple[Any, Any, str]] = []  # values within this one, their types and their names
    if kind is Any:
        return ""
    if origin in (Union, types.UnionType):
        fits = any(not _fault(value, choice, name) for choice in args)
    elif origin is Literal:
        fits = any(value == choice and type(value) is type(choice) for choice in args)
    elif typing.is_typeddict(kind):
        fits = isinstance(value, dict)
        if fits and (missing := sorted(kind.__required_keys__ - value.keys())):
            return f"{_whole(name)} has no {', '.join(missing)}"
        hints = typing.get_type_hints(kind) if fits else {}
        inner = [(value[key], hint, str(key)) for key, hint in hints.items() if key in value]
    elif origin is dict:
        fits = isinstance(value, dict) and all(isinstance(k, args[0]) for k in value)
        inner = [(v, args[1], str(k)) for k, v in value.items()] if fits else []
    elif origin in (list, tuple):
        fits = isinstance(value, list | tuple)
        fixed = origin is tuple and Ellipsis not in args
        fits = fits and (not fixed or len(value) == len(args))
        hints_of = (args if fixed else [args[0]] * len(value)) if fits else ()
        inner = (
            [(v, h, str(i)) for i, (v, h) in enumerate(zip(value, hints_of, strict=True))]
            if fits
            else []
        )
    elif origin in (int, float):
        fits = isinstance(value, int | origin) and not isinstance(value, bool)
    else:
        fits = isinstance(value, origin)
    if not fits:
        return f"{_whole(name)} is {value!r:.60} instead of {_in_words(kind)}"
    faults = (_fault(v, hint, f"{name}.{key}" if name else key) for v, hint, key in inner)
    return next(filter(None, faults), "")


def _whole(name: str) -> str:
    return name or "it"


def _in_words(kind: Any) -> str:
    origin = get_origin(kind) or kind
    if origin in (Union, types.UnionType):
        return " or ".join(map(_in_words, get_args(kind)))
    if origin is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if origin is tuple and Ellipsis not in get_args(kind):
        return f"a list of {len(get_args(kind))}"
    if typing.is_typeddict(kind):
        origin = dict
    return _KINDS.get(list if origin is tuple else origin, getattr(origin, "__name__", str(kind)))


def _read(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{path} is damaged: it is larger than {_MAX_BYTES >> 20} MB.")
    return _decode(content, str(path))


def _decode(content: bytes, where: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{where} is not a text in UTF-8.") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name is in a table twice")
    return table


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _checked(table: Any, where: str, finite: bool) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ValueError(f"{where} is damaged: it is no table, but {table!r:.60}.")
    if fault := _excess(table, finite, _MAX_DEPTH):
        raise ValueError(f"{where} is damaged: {fault}.")
    return table


def _excess(value: Any, finite: bool, depth: int) -> str:
    """Return what in a value is too large; "" if nothing is."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        if not depth:
            return "it is nested too deeply"
        return next(filter(None, (_excess(v, finite, depth - 1) for v in inner)), "")
    if isinstance(value, int) and not -_MAX_INT <= value < _MAX_INT:
        return "it has a whole number of more than 64 bits"
    if finite and isinstance(value, float) and not math.isfinite(value):
        return "it has a number that is not finite"
    return ""
