"""Results: a run is a row. Records, groups of seeds, paired differences, tables and charts."""

from amcl.results.compare import Comparison, compare
from amcl.results.groups import Difference, Group, Measurement, group_by_seed
from amcl.results.read import read_run
from amcl.results.record import STATUSES, Record, Status
from amcl.results.table import Cell, Table

__all__ = [
    "STATUSES",
    "Cell",
    "Comparison",
    "Difference",
    "Group",
    "Measurement",
    "Record",
    "Status",
    "Table",
    "compare",
    "group_by_seed",
    "read_run",
]
