"""The paper's tables and figures as entries."""

from amcl.experiments.entries import Entry
from amcl.experiments.paper.figures import FIGURES
from amcl.experiments.paper.tables import TABLES

ENTRIES: dict[str, Entry] = {entry.name: entry for entry in (*TABLES, *FIGURES)}

__all__ = ["ENTRIES"]
