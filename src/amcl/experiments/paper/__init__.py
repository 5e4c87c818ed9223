"""The paper's tables and figures as entries."""

from amcl.experiments.paper import tables  # isort: skip
from amcl.experiments.paper import figures
from amcl.experiments.paper.registry import ENTRIES, Entry

__all__ = ["ENTRIES", "Entry", "figures", "tables"]
