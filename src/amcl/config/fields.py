"""Settings by the names of their options: read as they are typed, changed, compared."""

import typing
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from amcl.config.config import Config
from amcl.config.options import (
    RANGE,
    RANGE_BOUNDS,
    TEMPERATURE,
    Effect,
    settings_of,
    table_of,
    values_of,
)
from amcl.config.rules import broken_rule, rules_of, usual_values
from amcl.config.toml import typed, unknown
from amcl.losses.forms import FORMS, OPTIONS
from amcl.temperature.settings import field_names, schemes_with

Values = dict[str, Any]


def effect_of(section: str, name: str) -> Effect:
    """Return the effect of a setting: on learning, on measuring alone, or none.

    Args:
        section: Section of the setting, such as "run".
        name: Name of the setting in the section.

    Returns:
        "learning", "measuring" or "none".

    Example:
        >>> effect_of("method", "heads"), effect_of("run", "probe_every")
        ('learning', 'measuring')
        >>> effect_of("run", "log_every")
        'none'
    """
    return _effects().get((section, name), "learning")


def without_effect(section: str) -> list[str]:
    """Return the settings of a section that change neither what is learned nor what is measured.

    Args:
        section: Name of the section.

    Returns:
        Names of the settings in the section.

    Example:
        >>> without_effect("data")
        ['data_root', 'memory', 'workers']
    """
    return [name for (of, name), effect in _effects().items() if (of, effect) == (section, "none")]


@cache
def _effects() -> dict[tuple[str, str], Effect]:
    """Return the effects of settings by section and name."""
    return {(s.section, s.field): s.effect for s in settings_of(Config()).values()}


def field_name(config: Config, name: str) -> str:
    """Return the name of a setting with underscores and without dashes in front.

    Args:
        config: The configuration that has the setting.
        name: Name of the setting, which may be spelled as an option.

    Returns:
        The name.

    Raises:
        ValueError: There is no such setting; the message has the nearest name.

    Example:
        >>> field_name(Config(), "--batch-size"), field_name(Config(), "eta")
        ('batch_size', 'eta')
    """
    plain = name.strip().removeprefix("--").replace("-", "_")
    names = _varied(config)
    if plain not in names:
        problem = f"{config.method.name} is asked for a setting {name!r}"
        raise ValueError(unknown(problem, plain, names))
    return plain


def is_field(config: Config, name: str) -> bool:
    """Return whether a configuration has a setting that runs may differ in.

    Args:
        config: The configuration.
        name: Name of the setting.
    """
    return name in _varied(config)


def is_number(config: Config, name: str) -> type[int] | type[float] | None:
    """Return int or float if a setting takes a range of numbers, else None.

    Args:
        config: The configuration that has the setting.
        name: Name of the setting.

    Example:
        >>> is_number(Config(), "heads"), is_number(Config(), "form")
        (<class 'int'>, None)
    """
    hint = settings_of(config)[name].hint
    args = (hint, *typing.get_args(hint)) if typing.get_origin(hint) is not tuple else ()
    return float if float in args else int if int in args else None


def value_of(config: Config, name: str) -> Any:
    """Return the value of a setting; None if the temperature scheme does not have it.

    Args:
        config: The configuration.
        name: Name of the setting; `eta` and `iota` are the paper's names of the range of τ.

    Returns:
        The value.

    Example:
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

    Args:
        config: The configuration that has the setting.
        name: Name of the setting.
        text: Text of the value.

    Returns:
        The value, in the type that the setting declares.

    Example:
        >>> value_from(Config(), "projector", "512 128"), value_from(Config(), "top_k", "none")
        ((512, 128), None)
        >>> value_from(Config(), "prior_tau", "0.05 0.1"), value_from(Config(), "prior_tau", "0.1")
        ((0.05, 0.1), 0.1)
    """
    hint = settings_of(config)[name].hint
    text = text.strip()
    if text == "none" and type(None) in typing.get_args(hint):
        return None
    kinds = (hint, *typing.get_args(hint))
    several = typing.get_origin(hint) is tuple or (
        " " in text and any(typing.get_origin(kind) is tuple for kind in kinds)
    )
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

    Args:
        config: The configuration.
        values: New values by the names of settings.

    Returns:
        The changed configuration.

    Raises:
        ValueError: A value is wrong, or the temperature scheme does not have the setting.

    Example:
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
    if "form" in values:  # whatever the configuration had for another form
        form = FORMS[values["form"]]
        values = dict.fromkeys(option for option in OPTIONS if not form.takes(option)) | values
    if config.run.fit:  # a value that is given is not fitted to the images
        values.setdefault("fit", tuple(n for n in config.run.fit if n not in values))
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
    settings = settings_of(config)
    tables: dict[str, Values] = {}
    for name, value in values.items():
        if name != "temperature":
            tables.setdefault(settings[name].section, {})[settings[name].field] = value
    if scheme := tables.pop(TEMPERATURE, None):
        method = replace(method, temperature=replace(method.temperature, **scheme))
    method = replace(method, **tables.pop("method", {}))
    changed = {s: replace(table_of(config, s), **fields) for s, fields in tables.items()}
    return replace(config, **changed, method=method)


def one_spelling(names: Collection[str]) -> None:
    """Raise an error if the range of τ is set both as (η, ι) and by its bounds.

    Args:
        names: Names of the settings that are set.
    """
    spellings = [[name for name in spelling if name in names] for spelling in (RANGE, RANGE_BOUNDS)]
    if all(spellings):
        first, second = (" and ".join(spelling) for spelling in spellings)
        raise ValueError(
            f"{first} and {second} are two spellings of one range: give (eta, iota) or "
            "(tau_lower, tau_upper)."
        )


def effective(config: Config, values: Mapping[str, Any]) -> Values:
    """Return those values that have an effect: softmax has no κ, a constant temperature no β.

    Args:
        config: The configuration that has the other values.
        values: Values by the names of settings.

    Returns:
        Some of the values.

    Example:
        >>> effective(Config(), {"form": "softmax", "top_k": 50, "beta": 1.0})
        {'form': 'softmax'}
    """
    return {name: value for name, value in values.items() if has_effect(config, name, values)}


def has_effect(config: Config, name: str, values: Mapping[str, Any]) -> bool:
    """Return whether a setting has an effect.

    Args:
        config: The configuration.
        name: Name of the setting.
        values: Values of other settings, in place of those of the configuration.

    Example:
        >>> (
        ...     has_effect(Config(), "beta", {}),
        ...     has_effect(Config(), "beta", {"temperature": "adaptive"}),
        ... )
        (False, True)
    """
    return broken_rule(rules_of(config), {**usual_values(config), **values}, name) is None


def differing(first: Config, second: Config) -> list[str]:
    """Return the settings that both configurations have and that differ, those with an effect.

    Args:
        first: A configuration.
        second: Another one.

    Returns:
        Names of the settings; "method" alone where the methods differ.

    Example:
        >>> differing(Config(), with_values(Config(), {"tau": 0.5, "workers": 0}))
        ['tau']
    """
    if type(first.method) is not type(second.method):
        return ["method"]
    values = values_of(first)
    others = values_of(second)
    return [
        name
        for name, setting in settings_of(first).items()
        if setting.section != "hardware" and setting.effect != "none"
        if name in values and name in others and values[name] != others[name]
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

    Args:
        config: The configuration.
        other: A configuration for the machine.

    Returns:
        The changed configuration, with which a run learns the same.

    Example:
        >>> other = with_values(Config(), {"epochs": 5, "workers": 7})
        >>> moved = on_machine(Config(), other)
        >>> moved.data.workers, moved.run == Config().run
        (7, True)
    """
    location = {name: getattr(other.data, name) for name in without_effect("data")}
    return replace(config, hardware=other.hardware, data=replace(config.data, **location))


def _varied(config: Config) -> list[str]:
    """Return the settings that may differ between runs: all but those of hardware."""
    return [name for name, s in settings_of(config).items() if s.section != "hardware"]


def spelled(value: Any) -> str:
    """Return a value as `value_from` reads it.

    Args:
        value: Value of a setting.

    Returns:
        The text.

    Example:
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
