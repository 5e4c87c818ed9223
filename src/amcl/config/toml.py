"""Values and tables of TOML as settings, with errors that name the place and the nearest name."""

import dataclasses
import difflib
import types
import typing
from typing import Any, Literal, Union, get_args, get_origin

_LONG = 30  # names: more are not listed where one of them is near


def to_table(settings: Any) -> dict[str, Any]:
    """Return a table of a dataclass of settings; fields that are None are left out."""
    table = {"name": settings.name} if named(settings) else {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            table[field.name] = to_table(value)
        elif value is not None:
            table[field.name] = list(value) if isinstance(value, tuple) else value
    return table


def named(settings: Any) -> bool:
    """Return whether settings are those of a registered thing, and so begin with its name."""
    names = {field.name for field in dataclasses.fields(settings)}
    return isinstance(getattr(type(settings), "name", None), str) and "name" not in names


def from_table(default: Any, table: dict[str, Any], where: str) -> Any:
    """Return a dataclass of settings from a table; an error says `where` something is wrong.

    `default` is the dataclass, or settings with the values of what the table leaves out.
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
    """`value`, as TOML gives it, as the type a field declares; an error where it is another."""
    origin, args = get_origin(hint), get_args(hint)
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


def unknown(given: str, name: str, accepted: Any) -> str:
    """What to say of a name that is not accepted, with the nearest that is."""
    near = difflib.get_close_matches(name, list(accepted), n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    if near and len(accepted) > _LONG:
        return f"{given}, which is unknown: {hint.rstrip()}"
    return f"{given}, which is unknown: {hint}Accepted are {', '.join(accepted)}."
