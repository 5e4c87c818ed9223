"""Hyper-parameter search: spaces, studies, and what they found."""

from amcl.search.records import Record, best_of
from amcl.search.space import Choice, Range, Space, paper_space, space_from

__all__ = ["Choice", "Range", "Record", "Space", "best_of", "paper_space", "search", "space_from"]


def __getattr__(name: str) -> object:
    """Optuna and matplotlib are loaded when a search begins."""
    if name == "search":
        from amcl.search.conduct import search

        return search
    raise AttributeError(f"module 'amcl.search' has no attribute {name!r}")
