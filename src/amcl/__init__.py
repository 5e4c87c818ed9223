"""Adaptive multi-head contrastive learning: C heads, and a learned temperature for each pair.

>>> import torch, amcl
>>> heads = amcl.ProjectionHeads(512, 512, 128, num_heads=3)
>>> criterion = amcl.AMCLLoss(num_heads=3, dim=128)
>>> h0, h1 = torch.randn(2, 32, 512)
>>> loss = criterion(heads(h0), heads(h1))
"""

from importlib.metadata import version

from amcl import functional, losses, modules, temperature
from amcl.losses import (
    AMCLLoss,
    ContrastiveLoss,
    CrossCorrelationLoss,
    LossStats,
    NegativeCosineLoss,
)
from amcl.modules import ProjectionHeads

__version__ = version("amcl-torch")

__all__ = [
    "AMCLLoss",
    "ContrastiveLoss",
    "CrossCorrelationLoss",
    "LossStats",
    "NegativeCosineLoss",
    "ProjectionHeads",
    "functional",
    "losses",
    "modules",
    "temperature",
]
