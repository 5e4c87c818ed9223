"""Pre-training: configuration, loop, checkpoints, run folder."""

from amcl.training.config import (
    Config,
    DataSettings,
    HardwareSettings,
    RunSettings,
)
from amcl.training.errors import Interrupted, NonFiniteError, RunError
from amcl.training.optimizers import LARS, OptimizerSettings
from amcl.training.pretrain import pretrain
from amcl.training.run_folder import RunFolder, read_metrics

__all__ = [
    "LARS",
    "Config",
    "DataSettings",
    "HardwareSettings",
    "Interrupted",
    "NonFiniteError",
    "OptimizerSettings",
    "RunError",
    "RunFolder",
    "RunSettings",
    "pretrain",
    "read_metrics",
]
