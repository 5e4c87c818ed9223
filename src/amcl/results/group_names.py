"""Names of groups of runs, made of the settings that distinguish them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from amcl.config.options import option_names

Settings = Mapping[str, Any]

_LEADING = ("method.name", "method.heads", "method.temperature.name")
_PUBLISHED = {"method.heads": 1, "method.temperature.name": "constant"}  # not part of a name


def differing(tables: Sequence[Settings]) -> list[str]:
    """Return the names whose values are not the same in all tables.

    Example:
        >>> differing([{"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}])
        ['b', 'c']
    """
    keys = dict.fromkeys(key for table in tables for key in table)
    return [k for k in keys if any(table.get(k) != tables[0].get(k) for table in tables)]


def short(key: str) -> str:
    """Return the name of the option of a setting.

    Example:
        >>> short("run.epochs"), short("method.temperature.name")
        ('epochs', 'temperature')
    """
    return option_names().get(key, key.rpartition(".")[2])


def format_value(value: Any) -> str:
    """Return a value as it is written on the command line.

    Example:
        >>> format_value([0.4, None])
        '0.4,none'
    """
    if isinstance(value, list | tuple):
        return ",".join(map(format_value, value)) or "()"
    return str(value).lower() if isinstance(value, bool | None) else str(value)


def format_setting(key: str, value: Any) -> str:
    """Return a setting for a label.

    Example:
        >>> format_setting("views.overlap", 0.5)
        'overlap=0.5'
    """
    return f"{short(key)}={format_value(value)}"


def names_of(tables: Sequence[Settings]) -> list[str]:
    """Return the method and settings that distinguish groups; those as published are left out.

    Example:
        >>> names_of([{"method.name": "moco"}, {"method.name": "moco", "method.heads": 3}])
        ['moco', 'moco heads=3']
    """
    keys = [key for key in _distinguishing(tables) if key != "method.name"]
    names = []
    for table in tables:
        settings = [
            format_setting(key, table[key])
            for key in keys
            if key in table and table[key] != _PUBLISHED.get(key)
        ]
        names.append(" ".join([str(table.get("method.name", "")), *settings]).strip())
    return names


def unnamed_settings(tables: Sequence[Settings]) -> list[str]:
    """Return the settings that differ and are not part of the names, with their values."""
    named = _distinguishing(tables)
    return [
        f"{short(key)} ({', '.join(format_value(table.get(key)) for table in tables)})"
        for key in differing(tables)
        if key not in named and not follows_choice(key, tables)
    ]


def _distinguishing(tables: Sequence[Settings]) -> list[str]:
    """Return few settings that distinguish all tables; heads and temperature first."""
    rest = differing(tables)
    chosen = [key for key in _LEADING if key in rest]
    rest = [key for key in rest if key not in _LEADING]

    def distinct(keys: list[str]) -> int:
        return len({json.dumps([t.get(key) for key in keys], default=str) for t in tables})

    while rest and distinct(chosen) < len(tables):
        chosen.append(max(rest, key=lambda key: distinct([*chosen, key])))
        rest.remove(chosen[-1])
    return chosen


def follows_choice(key: str, tables: Sequence[Settings]) -> bool:
    """Return whether a setting differs only because not every method or temperature has it.

    Example:
        >>> tables = [{"method.name": "moco", "method.queue": 64}, {"method.name": "simclr"}]
        >>> follows_choice("method.queue", tables), follows_choice("method.name", tables)
        (True, False)
    """
    values: dict[Any, list[Any]] = {}
    for table in tables:
        choice = table.get("method.name"), table.get("method.temperature.name")
        values.setdefault(choice, []).append(table.get(key))
    constant = all(value == each[0] for each in values.values() for value in each)
    return key.startswith("method.") and constant and any(key not in table for table in tables)
