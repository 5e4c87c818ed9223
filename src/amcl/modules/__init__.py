"""Network parts that methods are composed of."""

from amcl.modules.heads import LastNorm, ProjectionHeads
from amcl.modules.momentum import MomentumCopy, Queue, cosine_momentum

__all__ = ["LastNorm", "MomentumCopy", "ProjectionHeads", "Queue", "cosine_momentum"]
