"""The whole of a run in one typed, readable configuration, and its TOML form."""

import dataclasses
import os
import tomllib
import typing
from dataclasses import dataclass, field
from pathlib import Path

import tomli_w
import torch

from amcl.backbones import BackboneSettings
from amcl.config.sections import DataSettings, HardwareSettings, OptimizerSettings, RunSettings
from amcl.config.toml import from_table, to_table, unknown
from amcl.methods import MethodSettings, SimCLRSettings, method_names, settings_class
from amcl.settings import choose
from amcl.views import ViewSettings


@dataclass(frozen=True, kw_only=True)
class Config:
    """A run of pre-training, whole."""

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
            choose("fit", name, ("batch_size", *self.method.fitted))
        if self.views.local_crops and not self.method.multi_crop:
            raise ValueError(
                f"local_crops={self.views.local_crops} is for methods that take smaller crops "
                f"beside their views, and {self.method.name} does not: leave it out."
            )
        self.method.check_batch(self.run.batch_size, self.run.accumulate)

    @property
    def negatives(self) -> int:
        """Number of negatives of an anchor; 0 for methods that have none."""
        return self.method.num_negatives(self.run.batch_size // self.run.accumulate)

    def to_toml(self) -> str:
        """This configuration as TOML; fields that are None are left out."""
        tables = {
            section.name: to_table(getattr(self, section.name))
            for section in dataclasses.fields(self)
        }
        tables["method"] = {"name": self.method.name} | tables["method"]
        return tomli_w.dumps(tables)

    @staticmethod
    def from_toml(text: str, where: str = "the configuration") -> "Config":
        """Read what `to_toml` wrote, or a person: what is left out has its default."""
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{where} is not TOML: {error}.") from None
        sections = typing.get_type_hints(Config)
        values = {}
        for name, table in tables.items():
            if name not in sections:
                raise ValueError(unknown(f"{where} has a section [{name}]", name, sections))
            if not isinstance(table, dict):
                raise ValueError(f"{where}: {name} must be a section [{name}], got {table!r}.")
            settings = sections[name]
            if name == "method":
                table = dict(table)
                method = table.pop("name", "simclr")
                if method not in method_names():
                    given = f"{where}: [method] has name = {method!r}"
                    raise ValueError(unknown(given, str(method), method_names()))
                settings = settings_class(method)
            values[name] = from_table(settings, table, f"{where}: [{name}]")
        try:
            return Config(**values)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> "Config":
        """Read a configuration file."""
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"there is no configuration file {path}.")
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not a text file in UTF-8.") from None
        return Config.from_toml(text, str(path))
