"""The number of projection heads."""

from amcl.experiments.analyses.registry import axis_analysis
from amcl.experiments.specs import BASELINE
from amcl.recipes import as_published, with_amcl

axis_analysis(
    "heads",
    "how many heads?",
    values=("1", "2", "3", "4", "5", "6"),
    few=("1", "3"),
    label="heads",
    change="heads",
    configs=lambda base: {"adaptive τ": with_amcl(base)},
    references=lambda base: {BASELINE: as_published(base)},
    title="Number of projection heads",
    how_to_read="The dashed line is the method as published: one head, constant temperature.",
)
