"""Fields of a configuration by their names alone, as the command line has them."""

import dataclasses
import typing
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Literal

from amcl.config import Config
from amcl.config.rules import broken_rule, rules_of, values_of
from amcl.config.toml import typed, unknown
from amcl.methods.contrastive import TOP_K

Values = dict[str, Any]
Effect = Literal["learning", "measuring", "none"]

# What is learned hangs on these sections; where it is learned does not matter.
_SECTIONS = ("data", "views", "backbone", "method", "optimizer", "run")
_RANGE = ("eta", "iota")  # the paper's spelling of tau_lower and tau_upper


def effect_of(section: str, name: str) -> Effect:
    """Return what a setting has an effect on: learning, measuring alone, or neither.

    >>> effect_of("method", "heads"), effect_of("run", "probe_every"), effect_of("run", "log_every")
    ('learning', 'measuring', 'none')
    """
    return _effects().get((section, name), "learning")


def without_effect(section: str) -> list[str]:
    """Return the settings of a section that neither change what is learned nor what is measured.

    >>> without_effect("data")
    ['data_root', 'memory', 'workers']
    """
    return [
        name for (own, name), effect in _effects().items() if (own, effect) == (section, "none")
    ]


@cache
def _effects() -> dict[tuple[str, str], Effect]:
    """The effects of all settings of sections but the method's that declare one."""
    return {
        (section.name, field.name): field.metadata["effect"]
        for section in dataclasses.fields(Config)
        for field in dataclasses.fields(getattr(Config(), section.name))
        if "effect" in field.metadata
    }


def field_name(config: Config, name: str) -> str:
    """The field as the configuration spells it; an error with the nearest name if it has none.

    >>> field_name(Config(), "batch-size"), field_name(Config(), "eta")
    ('batch_size', 'eta')
    """
    plain = name.strip().removeprefix("--").replace("-", "_")
    known = _names(config)
    if plain not in known:
        given = f"{config.method.name} is asked for a setting {name!r}"
        raise ValueError(unknown(given, plain, known))
    return plain


def is_field(config: Config, name: str) -> bool:
    """Return whether the configuration has a field of this name."""
    return name in _names(config)


def kinds(config: Config, name: str) -> Any:
    """The type that a field declares."""
    if name in _RANGE:
        return float
    section = _names(config)[name]
    return typing.get_type_hints(type(getattr(config, section)))[name]


def is_number(config: Config, name: str) -> type[int] | type[float] | None:
    """int or float where a field takes a range of numbers."""
    hint = kinds(config, name)
    args = (hint, *typing.get_args(hint)) if typing.get_origin(hint) is not tuple else ()
    return float if float in args else int if int in args else None


def value_of(config: Config, name: str) -> Any:
    """The value of a field.

    >>> round(value_of(Config(), "iota"), 3)
    0.1
    """
    if name in _RANGE:
        method: Any = config.method
        lower, upper = method.tau_range
        return lower if name == "eta" else round(upper - lower, 12)
    return getattr(getattr(config, _names(config)[name]), name)


def value_from(config: Config, name: str, text: str) -> Any:
    """A value as it is typed behind an option: `0.1`, `adaptive`, `512 128`, `none`.

    >>> value_from(Config(), "projector", "512 128"), value_from(Config(), "top_k", "none")
    ((512, 128), None)
    """
    hint, text = kinds(config, name), text.strip()
    if text == "none" and type(None) in typing.get_args(hint):
        return None
    several = typing.get_origin(hint) is tuple
    value = [_plain(word) for word in text.split()] if several else _plain(text)
    try:
        return typed(value, hint, name)
    except ValueError:
        if several or type(value) is str:
            raise
        return typed(text, hint, name)  # "1" may be the name of a folder


def with_values(config: Config, values: Mapping[str, Any]) -> Config:
    """The configuration with other values; `eta` and `iota` set the range of τ.

    >>> changed = with_values(Config(), {"eta": 0.2, "epochs": 5})
    >>> changed.method.tau_lower, changed.method.tau_upper, changed.run.epochs
    (0.2, 0.3, 5)
    """
    one_spelling(values)
    of_range = {name: value for name, value in values.items() if name in _RANGE}
    values = {name: value for name, value in values.items() if name not in _RANGE}
    if values.get("form", "top_k") not in TOP_K:
        values.setdefault("top_k", None)  # whatever the configuration had for another form
    if config.run.fit:  # a value that is given is not fitted to the images
        values.setdefault("fit", tuple(n for n in config.run.fit if n not in values) or None)
    config = _replaced(config, values)
    if of_range:  # what is missing of it follows from the other values
        eta, iota = (of_range.get(name, value_of(config, name)) for name in _RANGE)
        config = _replaced(config, {"tau_lower": eta, "tau_upper": round(eta + iota, 12)})
    return config


def _replaced(config: Config, values: Mapping[str, Any]) -> Config:
    sections: dict[str, Values] = {}
    for name, value in values.items():
        sections.setdefault(_names(config)[name], {})[name] = value
    changed = {s: replace(getattr(config, s), **own) for s, own in sections.items()}
    return replace(config, **changed)


def one_spelling(names: Collection[str]) -> None:
    """Raise an error where the range of τ is given both as (η, ι) and by its bounds."""
    given = [name for name in _RANGE if name in names]
    if given and (both := [name for name in ("tau_lower", "tau_upper") if name in names]):
        raise ValueError(
            f"{' and '.join(given)} and {' and '.join(both)} are two spellings of one range: "
            "give (eta, iota) or (tau_lower, tau_upper)."
        )


def effective(config: Config, values: Mapping[str, Any]) -> Values:
    """Those values that have an effect: softmax has no κ, a constant temperature no β.

    >>> effective(Config(), {"form": "softmax", "top_k": 50, "beta": 1.0})
    {'form': 'softmax'}
    """
    return {name: value for name, value in values.items() if has_effect(config, name, values)}


def has_effect(config: Config, name: str, values: Mapping[str, Any]) -> bool:
    """Return whether a field changes anything, given the values of others."""
    return broken_rule(rules_of(config), {**values_of(config), **values}, name) is None


def differing(first: Config, second: Config) -> list[str]:
    """The fields in which two runs would learn something else: hardware is none of them.

    >>> differing(Config(), with_values(Config(), {"tau": 0.5, "workers": 0}))
    ['tau']
    """
    if type(first.method) is not type(second.method):
        return ["method"]
    return [
        name
        for name, section in _names(first).items()
        if name not in _RANGE
        and effect_of(section, name) != "none"
        and getattr(getattr(first, section), name) != getattr(getattr(second, section), name)
    ]


def on_machine(config: Config, other: Config) -> Config:
    """The configuration with what of another is no matter of learning: hardware, where images lie.

    >>> other = Config(run=replace(Config().run, epochs=5), data=replace(Config().data, workers=7))
    >>> moved = on_machine(Config(), other)
    >>> moved.data.workers, moved.run == Config().run
    (7, True)
    """
    free = {name: getattr(other.data, name) for name in without_effect("data")}
    return replace(config, hardware=other.hardware, data=replace(config.data, **free))


def spelled(value: Any) -> str:
    """A value as `value_from` reads it.

    >>> spelled((512, 128)), spelled(1e-05), spelled(True), spelled(None)
    ('512 128', '1e-05', 'true', 'none')
    """
    if isinstance(value, tuple):
        return " ".join(map(spelled, value))
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _names(config: Config) -> dict[str, str]:
    """The section of every field."""
    found = {
        field.name: section
        for section in _SECTIONS
        for field in dataclasses.fields(getattr(config, section))
    }
    if config.method.has_heads:
        found |= dict.fromkeys(_RANGE, "method")
    return found


def _plain(text: str) -> bool | int | float | str:
    """Text as a truth or a number, where it is one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
