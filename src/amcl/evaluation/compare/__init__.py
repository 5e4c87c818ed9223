"""Runs side by side: mean ± std over seeds, and differences paired by seed."""

from amcl.evaluation.compare.comparison import Comparison, compare
from amcl.evaluation.compare.groups import Group
from amcl.evaluation.compare.rows import Cell, Difference, Row

__all__ = ["Cell", "Comparison", "Difference", "Group", "Row", "compare"]
