"""One kind of augmentation after the other."""

from amcl.experiments.analyses.registry import axis_analysis
from amcl.experiments.specs import SIDE

axis_analysis(
    "augmentations",
    "does AMCL gain more, the more kinds of augmentation there are?",
    values=("a", "ab", "abc", "abcd", "abcde"),
    few=("a", "abcde"),
    label="augmentations",
    change="views",
    title="Kinds of augmentation",
    how_to_read="a crop, b blur, c gray, d color jitter, e flip. The paper's claim: the "
    "more kinds, the more AMCL gains.",
    compared=SIDE,
)
