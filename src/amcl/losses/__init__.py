"""Multi-head losses, each for any number of heads and any temperature scheme."""

from amcl.losses.amcl_loss import AMCLLoss
from amcl.losses.contrastive import ContrastiveLoss
from amcl.losses.cross_correlation import CrossCorrelationLoss
from amcl.losses.dino import DINOLoss
from amcl.losses.negative_cosine import NegativeCosineLoss
from amcl.losses.statistics import LossStats, PairStats
from amcl.losses.supervised import SupervisedContrastiveLoss
from amcl.losses.vicreg import VICRegLoss

__all__ = [
    "AMCLLoss",
    "ContrastiveLoss",
    "CrossCorrelationLoss",
    "DINOLoss",
    "LossStats",
    "NegativeCosineLoss",
    "PairStats",
    "SupervisedContrastiveLoss",
    "VICRegLoss",
]
