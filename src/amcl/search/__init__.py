"""Hyper-parameter search: spaces, studies, and the settings that they choose."""

from amcl.search.space import Choice, Range, Space, paper_space, space_from

__all__ = ["Choice", "Range", "SearchResult", "Space", "paper_space", "search", "space_from"]


def __getattr__(name: str) -> object:
    """Load the modules of a search on first use: they import Optuna and matplotlib."""
    if name in ("search", "SearchResult"):
        from amcl.search import study

        return getattr(study, name)
    raise AttributeError(f"module 'amcl.search' has no attribute {name!r}")
