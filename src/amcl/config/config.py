"""Configuration of a run, and its TOML form."""

import os
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from amcl.backbones import BackboneSettings
from amcl.config.sections import DataSettings, HardwareSettings, OptimizerSettings, RunSettings
from amcl.config.toml import from_table, to_table, unknown
from amcl.methods import METHODS, MethodSettings, SimCLRSettings
from amcl.settings import choose
from amcl.temperature import TEMPERATURES
from amcl.text_files import parse_toml, read_toml, to_toml
from amcl.views import ViewSettings
from amcl.views.channels import FITTED


@dataclass(frozen=True, kw_only=True)
class Config:
    """Configuration of a run of pre-training, a section of settings for each of its parts.

    Example:
        >>> config = Config(run=RunSettings(epochs=5))
        >>> Config.from_toml(config.to_toml()) == config
        True
    """

    data: DataSettings = field(default_factory=DataSettings)
    views: ViewSettings = field(default_factory=ViewSettings)
    backbone: BackboneSettings = field(default_factory=BackboneSettings)
    method: MethodSettings = field(default_factory=SimCLRSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    run: RunSettings = field(default_factory=RunSettings)
    hardware: HardwareSettings = field(default_factory=HardwareSettings)

    def __post_init__(self) -> None:
        with torch.device("meta"):  # made to be checked, before any image is read
            self.method.check()
        for name in self.run.fit or ():
            choose("fit", name, ("batch_size", *self.method.fitted, *FITTED))
        if self.views.local_crops and not self.method.multi_crop:
            raise ValueError(
                f"local_crops={self.views.local_crops} is for methods that take smaller crops "
                f"beside their views, and {self.method.name} does not: leave it out."
            )
        self.method.check_batch(self.run.batch_size, self.run.accumulate)
        frozen = self.optimizer.freeze_epochs or 0.0
        if frozen >= self.run.epochs and self.optimizer.freeze_depth in (None, 1):
            raise ValueError(
                f"freeze_epochs={frozen:g} leaves none of epochs={self.run.epochs} for training "
                "the backbone: choose fewer, or freeze a part of it alone (--freeze-depth 0.5)."
            )

    @property
    def negatives(self) -> int:
        """Number of negatives of an anchor; 0 for methods that have none."""
        return self.method.num_negatives(self.run.batch_size // self.run.accumulate)

    def to_toml(self) -> str:
        """Return the configuration as TOML; fields that are None are left out."""
        return to_toml(to_table(self))

    @staticmethod
    def from_toml(text: str, where: str = "the configuration") -> "Config":
        """Read a configuration that `to_toml` or a person wrote.

        Args:
            text: Text in TOML. Settings that it leaves out have their defaults.
            where: File of the text, for errors.

        Returns:
            The configuration.

        Raises:
            ValueError: The text is no TOML, or a section, a name or a value is wrong.

        Example:
            >>> Config.from_toml("[run]\\nepochs = 5").run.epochs
            5
        """
        return Config._from_tables(parse_toml(text, where), where)

    @staticmethod
    def _from_tables(tables: Mapping[str, Any], where: str) -> "Config":
        sections = typing.get_type_hints(Config)
        values: dict[str, Any] = {}
        for name, table in tables.items():
            if name not in sections:
                raise ValueError(unknown(f"{where} has a section [{name}]", name, sections))
            if not isinstance(table, dict):
                raise ValueError(f"{where}: {name} must be a section [{name}], got {table!r}.")
            if name == "method":
                values[name] = _read_method(table, where)
            else:
                values[name] = from_table(sections[name], table, f"{where}: [{name}]")
        try:
            return Config(**values)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> "Config":
        """Read a configuration file, such as `config.toml` of a run.

        Args:
            path: The file.

        Returns:
            The configuration.

        Raises:
            ValueError: There is no such file, or its content is wrong.
        """
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"there is no configuration file {path}.")
        return Config._from_tables(read_toml(path), str(path))


def _read_method(table: Mapping[str, Any], where: str) -> Any:
    """Return the settings of a method from its section."""
    section = f"{where}: [method]"
    values = dict(table)
    name = _pop_name(values, "simclr", METHODS.names(), section)
    temperature = values.pop("temperature", None)
    settings = from_table(METHODS[name].settings_class, values, section)
    if temperature is None:
        return settings
    return _read_temperature(settings, temperature, f"{where}: [method.temperature]")


def _read_temperature(settings: Any, temperature: Any, where: str) -> Any:
    """Return the settings of a method with the temperature scheme of its section."""
    if not settings.has_heads:
        raise ValueError(f"{where}: {settings.name} has no heads, and so no temperature.")
    if not isinstance(temperature, dict):
        raise ValueError(
            f"{where} must be a section, as in [method.temperature] name = 'adaptive', got "
            f"{temperature!r}."
        )
    values = dict(temperature)
    scheme = _pop_name(values, settings.temperature.name, TEMPERATURES.names(), where)
    try:
        settings = settings.with_temperature(scheme)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    return replace(settings, temperature=from_table(settings.temperature, values, where))


def _pop_name(values: dict[str, Any], default: str, names: tuple[str, ...], where: str) -> str:
    """Remove the name from the values of a section and return it; an error if it is unknown."""
    name = values.pop("name", default)
    if name not in names:
        raise ValueError(unknown(f"{where} has name = {name!r}", str(name), names))
    return str(name)
