"""The paper's tables and figures, and the analyses that they are made of, on any images."""

from amcl.experiments.analyses import ANALYSES
from amcl.experiments.analyze import analyze
from amcl.experiments.paper import ENTRIES
from amcl.experiments.reproduce import reproduce
from amcl.experiments.scales import SCALES

__all__ = ["ANALYSES", "ENTRIES", "SCALES", "analyze", "reproduce"]
