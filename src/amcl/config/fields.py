"""Settings by the names of their options: read as they are typed, changed, compared."""

import typing
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from amcl.config.config import Config
from amcl.config.options import RANGE, TEMPERATURE, Effect, settings_of, table_of, values_of
from amcl.config.rules import broken_rule, rules_of, usual_values
from amcl.config.toml import typed, unknown
from amcl.losses.forms import find_form
from amcl.temperature.settings import field_names, schemes_with

Values = dict[str, Any]


def effect_of(section: str, name: str) -> Effect:
    """Return what a setting has an effect on: learning, measuring alone, or neither.

    >>> effect_of("method", "heads"), effect_of("run", "probe_every"), effect_of("run", "log_every")
    ('learning', 'measuring', 'none')
    """
    effects = {(s.section, s.field): s.effect for s in settings_of(Config()).values()}
    return effects.get((section, name), "learning")


def without_effect(section: str) -> list[str]:
    """Return the settings of a section that neither change what is learned nor what is measured.

    >>> without_effect("data")
    ['data_root', 'memory', 'workers']
    """
    settings = settings_of(Config()).values()
    return [s.field for s in settings if (s.section, s.effect) == (section, "none")]


def field_name(config: Config, name: str) -> str:
    """Return the name of a setting as the configuration spells it.

    Raises:
        ValueError: There is no such setting; the message has the nearest name.

    >>> field_name(Config(), "batch-size"), field_name(Config(), "eta")
    ('batch_size', 'eta')
    """
    plain = name.strip().removeprefix("--").replace("-", "_")
    if not is_field(config, plain):
        given = f"{config.method.name} is asked for a setting {name!r}"
        raise ValueError(unknown(given, plain, _varied(config)))
    return plain


def is_field(config: Config, name: str) -> bool:
    """Return whether the configuration has a setting of this name that runs may differ in."""
    return name in _varied(config)


def kinds(config: Config, name: str) -> Any:
    """Return the type that a setting declares."""
    return settings_of(config)[name].hint


def is_number(config: Config, name: str) -> type[int] | type[float] | None:
    """Return int or float where a setting takes a range of numbers."""
    hint = kinds(config, name)
    args = (hint, *typing.get_args(hint)) if typing.get_origin(hint) is not tuple else ()
    return float if float in args else int if int in args else None


def value_of(config: Config, name: str) -> Any:
    """Return the value of a setting; None where the temperature scheme does not have it.

    >>> from amcl.recipes import recipe
    >>> round(value_of(recipe("cifar10-moco-amcl"), "iota"), 3)
    0.1
    """
    if name not in RANGE:
        return values_of(config).get(name)
    method: Any = config.method
    tau_range = method.temperature.tau_range(method.dim)
    if tau_range is None:
        return None
    lower, upper = tau_range
    return lower if name == "eta" else round(upper - lower, 12)


def value_from(config: Config, name: str, text: str) -> Any:
    """Return a value from the way it is typed behind an option: `0.1`, `512 128`, `none`.

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
    """Return the configuration with other values; `eta` and `iota` set the range of τ.

    Another temperature scheme keeps the values that it shares with the current one.

    >>> changed = with_values(Config(), {"temperature": "adaptive", "eta": 0.2, "epochs": 5})
    >>> changed.method.temperature.tau_lower, changed.method.temperature.tau_upper
    (0.2, 0.3)
    >>> changed.run.epochs
    5
    """
    one_spelling(values)
    _check_scheme(config, values)
    of_range = {name: value for name, value in values.items() if name in RANGE}
    values = {name: value for name, value in values.items() if name not in RANGE}
    if "form" in values and not find_form(values["form"]).takes_top_k:
        values.setdefault("top_k", None)  # whatever the configuration had for another form
    if config.run.fit:  # a value that is given is not fitted to the images
        values.setdefault("fit", tuple(n for n in config.run.fit if n not in values) or None)
    config = _replaced(config, values)
    if of_range:  # what is missing of it follows from the other values
        eta, iota = (of_range.get(name, value_of(config, name)) for name in RANGE)
        config = _replaced(config, {"tau_lower": eta, "tau_upper": round(eta + iota, 12)})
    return config


def _check_scheme(config: Config, values: Mapping[str, Any]) -> None:
    """Raise an error for settings of temperature schemes other than that of the configuration."""
    settings = settings_of(config)
    scheme = values.get("temperature", values_of(config).get("temperature"))
    for name in values:
        field = "tau_lower" if name in RANGE else name
        if settings[name].section == TEMPERATURE and field not in field_names(scheme):
            raise ValueError(
                f"{name} belongs to --temperature {', '.join(schemes_with(field))}: this run has "
                f"--temperature {scheme}."
            )


def _replaced(config: Config, values: Mapping[str, Any]) -> Config:
    method: Any = config.method
    if "temperature" in values:
        method = method.with_temperature(values["temperature"])
    tables: dict[str, Values] = {}
    for name, value in values.items():
        setting = settings_of(config)[name]
        if name != "temperature":
            tables.setdefault(setting.section, {})[setting.field] = value
    if scheme := tables.pop(TEMPERATURE, None):
        method = replace(method, temperature=replace(method.temperature, **scheme))
    method = replace(method, **tables.pop("method", {}))
    changed = {s: replace(table_of(config, s), **fields) for s, fields in tables.items()}
    return replace(config, **changed, method=method)


def one_spelling(names: Collection[str]) -> None:
    """Raise an error where the range of τ is given both as (η, ι) and by its bounds."""
    given = [name for name in RANGE if name in names]
    if given and (both := [name for name in ("tau_lower", "tau_upper") if name in names]):
        raise ValueError(
            f"{' and '.join(given)} and {' and '.join(both)} are two spellings of one range: "
            "give (eta, iota) or (tau_lower, tau_upper)."
        )


def effective(config: Config, values: Mapping[str, Any]) -> Values:
    """Return those values that have an effect: softmax has no κ, a constant temperature no β.

    >>> effective(Config(), {"form": "softmax", "top_k": 50, "beta": 1.0})
    {'form': 'softmax'}
    """
    return {name: value for name, value in values.items() if has_effect(config, name, values)}


def has_effect(config: Config, name: str, values: Mapping[str, Any]) -> bool:
    """Return whether a setting changes anything, given the values of others."""
    return broken_rule(rules_of(config), {**usual_values(config), **values}, name) is None


def differing(first: Config, second: Config) -> list[str]:
    """Return the settings in which two runs would learn something else, hardware not included.

    >>> differing(Config(), with_values(Config(), {"tau": 0.5, "workers": 0}))
    ['tau']
    """
    if type(first.method) is not type(second.method):
        return ["method"]
    values, others = values_of(first), values_of(second)
    return [
        name
        for name in _varied(first)
        if name in values and name in others and values[name] != others[name]
        if settings_of(first)[name].effect != "none"
    ]


def changes(base: Config, config: Config) -> Values:
    """Return the values that turn a configuration into another, as `with_values` takes them.

    Where the temperature schemes differ, settings are compared with those that `base` would have
    with the other scheme.

    Args:
        base: A configuration.
        config: Another configuration of the same method.

    Returns:
        The values by name, without hardware and other settings that have no effect.

    Example:
        >>> changes(Config(), with_values(Config(), {"temperature": "adaptive", "beta": 0.5}))
        {'beta': 0.5, 'temperature': 'adaptive'}
    """
    names = set(differing(base, config))
    if "temperature" in names:
        scheme = value_of(config, "temperature")
        names |= set(differing(with_values(base, {"temperature": scheme}), config))
    return {name: value for name, value in values_of(config).items() if name in names}


def on_machine(config: Config, other: Config) -> Config:
    """Return the configuration with the hardware and the location of images of another.

    >>> other = Config(run=replace(Config().run, epochs=5), data=replace(Config().data, workers=7))
    >>> moved = on_machine(Config(), other)
    >>> moved.data.workers, moved.run == Config().run
    (7, True)
    """
    free = {name: getattr(other.data, name) for name in without_effect("data")}
    return replace(config, hardware=other.hardware, data=replace(config.data, **free))


def _varied(config: Config) -> list[str]:
    """Return the settings that may differ between runs: all but those of hardware."""
    return [name for name, s in settings_of(config).items() if s.section != "hardware"]


def spelled(value: Any) -> str:
    """Return a value as `value_from` reads it.

    >>> spelled((512, 128)), spelled(1e-05), spelled(True), spelled(None)
    ('512 128', '1e-05', 'true', 'none')
    """
    if isinstance(value, tuple):
        return " ".join(map(spelled, value))
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _plain(text: str) -> bool | int | float | str:
    """Return text as a boolean or a number, where it is one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
