"""Weights on disk: run folders, checkpoints, backbones, models by name, export, card and hub."""

from amcl.checkpoints.load import open_model
from amcl.checkpoints.loaded_model import LoadedModel
from amcl.checkpoints.method import load_method
from amcl.checkpoints.run_folder import RunFolder, read_metrics

__all__ = ["LoadedModel", "RunFolder", "load_method", "open_model", "read_metrics"]
