"""Pictures of a study: its course, what mattered, and how the value depends on each field."""

from amcl.search.plots.axis import Axis, told
from amcl.search.plots.heads import heads_and_top_k
from amcl.search.plots.history import history
from amcl.search.plots.importance import importance, importances
from amcl.search.plots.save import save_plots
from amcl.search.plots.sensitivity import sensitivity

__all__ = [
    "Axis",
    "heads_and_top_k",
    "history",
    "importance",
    "importances",
    "save_plots",
    "sensitivity",
    "told",
]
