"""Results: a run is a row. Records, groups of seeds, paired differences, tables and charts."""

from amcl.results.record import STATUSES, Record, Status

__all__ = ["STATUSES", "Record", "Status"]
