"""Tables of settings: as one, where they differ, and in words."""

from collections.abc import Mapping, Sequence
from typing import Any


def flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Tables within tables as one, by names with dots.

    >>> flat({"run": {"seed": 0}, "a": 1})
    {'run.seed': 0, 'a': 1}
    """
    out: dict[str, Any] = {}
    for name, value in table.items():
        out |= flat(value, f"{above}{name}.") if isinstance(value, dict) else {above + name: value}
    return out


def differing(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names whose values are not the same in all tables.

    >>> differing([{"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}])
    ['b', 'c']
    """
    keys = dict.fromkeys(key for table in tables for key in table)
    return [k for k in keys if any(table.get(k) != tables[0].get(k) for table in tables)]


def setting(key: str, value: Any) -> str:
    """A setting in a label.

    >>> setting("views.jitter", [0.4, None])
    'jitter=0.4,none'
    """
    return f"{short(key)}={text(value)}"


def short(key: str) -> str:
    """A name without its section."""
    return key.rpartition(".")[2]


def text(value: Any) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, list | tuple):
        return ",".join(map(text, value))
    return str(value).lower() if isinstance(value, bool | None) else str(value)
