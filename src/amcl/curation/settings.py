"""Settings of a curation."""

from dataclasses import dataclass
from typing import Literal

from amcl.curation.duplicates import check_threshold
from amcl.curation.selection import RULES, Rule
from amcl.settings import choose, non_negative_int, whole_number

Export = Literal["fiftyone", "coco", "huggingface", "lightly"]
LinkKind = Literal["symbolic", "hard", "copy"]


@dataclass(frozen=True, kw_only=True)
class CurationSettings:
    """What is computed of each image, and what is chosen by it."""

    threshold: float | None = None
    """Cosine from which two images are near copies; none: chosen by how similar different images
    are."""
    pairs: int = 4
    """Pairs of views of each image that its uncertainty is the mean of."""
    neighbors: int = 10
    """Nearest images that typicality is the mean cosine with."""
    clusters: int | None = None
    """Number of clusters; none: by the number of images, at most 100."""
    label_first: int = 100
    """Number of images in label_first.txt, at most; 0 for none."""
    select: int | None = None
    """Number of images to select, after copies are removed; none selects nothing."""
    by: Rule | None = None
    """Rule of --select: diverse, typical, uncertain or balanced; none: diverse."""
    seed: int = 0
    """Seed of views, negatives, clusters and selections."""

    def __post_init__(self) -> None:
        if self.threshold is not None:
            check_threshold(self.threshold)
        whole_number("pairs", self.pairs)
        whole_number("neighbors", self.neighbors)
        if self.clusters is not None:
            whole_number("clusters", self.clusters)
        non_negative_int("label_first", self.label_first, "it is the length of label_first.txt")
        if self.by is not None:
            choose("by", self.by, RULES)
        if self.select is not None:
            whole_number("select", self.select)
        elif self.by is not None:
            raise ValueError(f"by={self.by!r} is the rule of a selection: give select=1000 too.")

    @property
    def rule(self) -> Rule:
        """The rule of the selection."""
        return self.by or "diverse"
