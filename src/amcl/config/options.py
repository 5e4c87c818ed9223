"""Settings of a configuration by the names of their options, as the command line has them."""

import dataclasses
import typing
from functools import cache
from typing import Any, Literal, NamedTuple

from amcl.config.config import Config
from amcl.temperature import TEMPERATURES

Effect = Literal["learning", "measuring", "none"]

RANGE = ("eta", "iota")
"""The paper's spelling of the range of τ: tau_lower, and tau_upper − tau_lower."""
RANGE_BOUNDS = ("tau_lower", "tau_upper")
"""Settings of temperature schemes for the range of τ."""
TEMPERATURE = "method.temperature"


class Setting(NamedTuple):
    """Position and type of a setting."""

    section: str
    """The table that has it, such as "run" or "method.temperature"."""
    field: str
    """Its name there. That of its option may differ: ``[data] source`` is ``--data``."""
    hint: Any
    """The type that the field declares."""
    effect: Effect
    """On what is learned, on what is measured alone, or on neither."""


def settings_of(config: Config) -> dict[str, Setting]:
    """Return all settings of a configuration by the names of their options.

    Args:
        config: The configuration.

    Returns:
        The settings, with those of all temperature schemes and the paper's `eta` and `iota` if the
        method has heads.

    Example:
        >>> settings_of(Config())["data"].field, settings_of(Config())["beta"].section
        ('source', 'method.temperature')
    """
    settings: dict[str, Setting] = {}
    for section in dataclasses.fields(config):
        cls: Any = type(getattr(config, section.name))
        settings |= _of_class(cls, section.name)
    if config.method.has_heads:
        schemes = TEMPERATURES.names()
        settings["temperature"] = Setting("method", "temperature", Literal[schemes], "learning")
        for name in schemes:
            scheme: Any = TEMPERATURES[name]
            settings = _of_class(scheme, TEMPERATURE) | settings
        settings |= {name: Setting(TEMPERATURE, name, float, "learning") for name in RANGE}
    return settings


def values_of(config: Config) -> dict[str, Any]:
    """Return the values of all settings by the names of their options.

    Args:
        config: The configuration.

    Returns:
        The values. Settings of other temperature schemes are not among them.

    Example:
        >>> values = values_of(Config())
        >>> values["temperature"], values["tau"], "beta" in values
        ('constant', 0.1, False)
    """
    values = {}
    for name, setting in settings_of(config).items():
        table = table_of(config, setting.section)
        if hasattr(table, setting.field):
            values[name] = getattr(table, setting.field)
    if "temperature" in values:
        values["temperature"] = values["temperature"].name
    return values


def table_of(config: Config, section: str) -> Any:
    """Return the dataclass of a section, such as that of "method.temperature"."""
    table: Any = config
    for part in section.split("."):
        table = getattr(table, part)
    return table


@cache
def option_names() -> dict[str, str]:
    """Return the names of options that differ from those of their settings.

    Returns:
        Names of options by section and name of the setting.

    Example:
        >>> option_names()["optimizer.name"], option_names()["method.temperature.name"]
        ('optimizer', 'temperature')
    """
    renamed = {
        f"{setting.section}.{setting.field}": name
        for name, setting in settings_of(Config()).items()
        if name != setting.field
    }
    return renamed | {f"{TEMPERATURE}.name": "temperature"}


@cache
def _of_class(cls: Any, section: str) -> dict[str, Setting]:
    """Return the settings that a dataclass declares by the names of their options."""
    hints = typing.get_type_hints(cls, include_extras=True)
    settings = {}
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        name = field.name
        if typing.get_origin(hint) is typing.Annotated:
            hint, *marks = typing.get_args(hint)
            name = next((mark.name for mark in marks if getattr(mark, "name", None)), name)
        if "choices" in field.metadata:
            hint = Literal[field.metadata["choices"]()]
        effect = field.metadata.get("effect", "learning")
        settings[name] = Setting(section, field.name, hint, effect)
    return settings
