"""Network parts that methods are composed of."""

from amcl.modules.heads import LastNorm, ProjectionHeads

__all__ = ["LastNorm", "ProjectionHeads"]
