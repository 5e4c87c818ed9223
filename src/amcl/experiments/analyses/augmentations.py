"""One kind of augmentation after the other."""

from collections.abc import Sequence

from amcl.experiments.analyses.registry import analysis
from amcl.experiments.cases import SIDE, Metric, Part, along, sides
from amcl.training import Config


@analysis(
    "augmentations",
    "does AMCL gain more, the more kinds of augmentation there are?",
    values=("a", "ab", "abc", "abcd", "abcde"),
    few=("a", "abcde"),
)
def augmentations(base: Config, values: Sequence[str], metric: Metric) -> list[Part]:
    """Return both sides of a method by the operations of the views."""
    return [
        Part(
            name="augmentations",
            title="Kinds of augmentation",
            how_to_read="a crop, b blur, c gray, d color jitter, e flip. The paper's claim: the "
            "more kinds, the more AMCL gains.",
            cases=along("augmentations", values, sides(base), metric, "views"),
            x="augmentations",
            compared=SIDE,
        )
    ]
