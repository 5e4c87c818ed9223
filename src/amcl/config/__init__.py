"""Configuration: dataclasses of settings, their TOML form, their fields by name, their rules."""

from amcl.config.config import Config
from amcl.config.sections import (
    PLACEHOLDER,
    DataSettings,
    HardwareSettings,
    OptimizerSettings,
    RunSettings,
)

__all__ = [
    "PLACEHOLDER",
    "Config",
    "DataSettings",
    "HardwareSettings",
    "OptimizerSettings",
    "RunSettings",
]
