"""Pre-training: configuration, loop, checkpoints, run folder."""

from amcl.checkpoints.run_folder import RunFolder, read_metrics
from amcl.config import Config, DataSettings, HardwareSettings, OptimizerSettings, RunSettings
from amcl.errors import Interrupted, NonFiniteError, RunError
from amcl.training.optimizers import LARS
from amcl.training.pretrain import pretrain

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
