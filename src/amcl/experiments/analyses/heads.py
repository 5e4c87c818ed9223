"""The number of projection heads."""

from collections.abc import Sequence

from amcl.experiments.analyses.registry import analysis
from amcl.experiments.cases import BASELINE, Metric, Part, along, dashed
from amcl.recipes import as_published, with_amcl
from amcl.training import Config


@analysis("heads", "how many heads?", values=("1", "2", "3", "4", "5", "6"), few=("1", "3"))
def heads(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """Return C projection heads with adaptive temperatures, beside the method as published."""
    adaptive = {"adaptive τ": with_amcl(base)}
    return [
        Part(
            name="heads",
            title="Number of projection heads",
            how_to_read="The dashed line is the method as published: one head, constant "
            "temperature.",
            cases=(
                *dashed("heads", {BASELINE: as_published(base)}, metric),
                *along("heads", values, adaptive, metric, "heads"),
            ),
            x="heads",
        )
    ]
