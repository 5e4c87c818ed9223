"""Settings from tables of TOML and back, with errors that name the section and the nearest name."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Collection
from typing import Any, Literal, Union, get_args, get_origin

_LONG = 30  # names: more are not listed where one of them is near


def to_table(settings: Any) -> dict[str, Any]:
    """Return the table of a dataclass of settings.

    Args:
        settings: The dataclass.

    Returns:
        Values by name; fields that are None are left out.
    """
    table = {"name": settings.name} if named(settings) else {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            table[field.name] = to_table(value)
        elif value is not None:
            table[field.name] = list(value) if isinstance(value, tuple) else value
    return table


def named(settings: Any) -> bool:
    """Return whether settings are those of a registered class, and so begin with its name."""
    names = {field.name for field in dataclasses.fields(settings)}
    return isinstance(getattr(type(settings), "name", None), str) and "name" not in names


def from_table(default: Any, table: dict[str, Any], where: str) -> Any:
    """Return a dataclass of settings from a table.

    Args:
        default: The dataclass, or settings with the values that the table leaves out.
        table: Values by name.
        where: File and section, for errors.

    Returns:
        The settings.

    Raises:
        ValueError: A name is unknown or a value is wrong.
    """
    cls = default if isinstance(default, type) else type(default)
    hints = {f.name: typing.get_type_hints(cls)[f.name] for f in dataclasses.fields(cls)}
    for name in table:
        if name not in hints:
            raise ValueError(unknown(f"{where} has {name!r}", name, hints))
    values = {name: typed(value, hints[name], f"{where} {name}") for name, value in table.items()}
    try:
        return cls(**values) if default is cls else dataclasses.replace(default, **values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def typed(value: Any, hint: Any, where: str) -> Any:
    """Return a value of TOML in the type that a field declares.

    Args:
        value: The value.
        hint: The type.
        where: File, section and name, for errors.

    Returns:
        The value: a list of TOML as a tuple, an int as a float where the field is one.

    Raises:
        ValueError: The value is of another type.

    Example:
        >>> typed([512, 128], tuple[int, ...], "projector"), typed(1, float | None, "lr")
        ((512, 128), 1.0)
    """
    origin = get_origin(hint)
    args = get_args(hint)
    if origin in (Union, types.UnionType):
        for choice in args:
            try:
                return typed(value, choice, where)
            except ValueError:
                continue
    elif origin is Literal:
        if value in args:
            return value
        accepted = ", ".join(map(repr, args))
        raise ValueError(f"{where} must be one of {accepted}; got {value!r}.")
    elif origin is tuple and isinstance(value, list):
        kinds = [args[0]] * len(value) if args[-1] is Ellipsis else list(args)
        if len(kinds) == len(value):
            return tuple(typed(v, k, where) for v, k in zip(value, kinds, strict=True))
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif type(value) is hint:
        return value
    kind = hint.__name__ if isinstance(hint, type) else str(hint)
    raise ValueError(f"{where} must be {kind}, got {value!r}.")


def unknown(problem: str, name: str, accepted: Collection[str]) -> str:
    """Return the message for a name that is not accepted.

    Args:
        problem: First words of the message.
        name: The name.
        accepted: Names that are accepted.

    Returns:
        A message with the nearest name.

    Example:
        >>> unknown("[run] has 'epoch'", "epoch", ["epochs", "seed"])
        "[run] has 'epoch', which is unknown: did you mean 'epochs'? Accepted are epochs, seed."
    """
    near = difflib.get_close_matches(name, list(accepted), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    if near and len(accepted) > _LONG:
        return f"{problem}, which is unknown: {hint.rstrip()}"
    return f"{problem}, which is unknown: {hint}Accepted are {', '.join(accepted)}."
