"""Adaptive multi-head contrastive learning: C heads, and a learned temperature for each pair.

>>> import torch, amcl
>>> heads = amcl.ProjectionHeads(512, 512, 128, num_heads=3)
>>> criterion = amcl.AMCLLoss(num_heads=3, dim=128)
>>> h0, h1 = torch.randn(2, 32, 512)
>>> loss = criterion(heads(h0), heads(h1))
"""

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

from amcl import functional, losses, modules, temperature
from amcl.losses import (
    AMCLLoss,
    ContrastiveLoss,
    CrossCorrelationLoss,
    LossStats,
    NegativeCosineLoss,
)
from amcl.modules import ProjectionHeads

if TYPE_CHECKING:
    from amcl.backbones import Backbone

__version__ = version("amcl-torch")


def load(source: str | os.PathLike[str]) -> "Backbone":
    """The trained backbone of a run folder, a checkpoint or an exported file.

    It turns images (N, 3, S, S) into features (N, D). `load(…).normalisation` are the mean and std
    that images are to be normalised with.
    """
    from amcl.models import open_model  # here, so that `import amcl` needs torch alone

    return open_model(os.fspath(source)).backbone


__all__ = [
    "AMCLLoss",
    "ContrastiveLoss",
    "CrossCorrelationLoss",
    "LossStats",
    "NegativeCosineLoss",
    "ProjectionHeads",
    "functional",
    "load",
    "losses",
    "modules",
    "temperature",
]
