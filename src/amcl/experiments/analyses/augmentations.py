"""One kind of augmentation after the other."""

from amcl.experiments.analyses.registry import Analysis, axis, register
from amcl.experiments.specs import SIDE

register(
    Analysis(
        name="augmentations",
        question="does AMCL gain more, the more kinds of augmentation there are?",
        values=("a", "ab", "abc", "abcd", "abcde"),
        few=("a", "abcde"),
        make=axis(
            "augmentations",
            "views",
            name="augmentations",
            title="Kinds of augmentation",
            how_to_read="a crop, b blur, c gray, d color jitter, e flip. The paper's claim: the "
            "more kinds, the more AMCL gains.",
            compared=SIDE,
        ),
    )
)
