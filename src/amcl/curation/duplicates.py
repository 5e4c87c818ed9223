"""Copies of images: exact ones by content, near ones by cosines, one image of each group kept.

A group of near copies is no chain: each of its images is similar to the one that is kept. The
connected components of similar images would join a and c because both are similar to b; here, the
best image takes those that are similar to itself, and the others are left to the next best.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from amcl.settings import positive_number

SIGMAS = 3.0  # spreads below the usual distance of neighbors at which images are near copies
LADDER = (4.0, 2.0, 1.0, 0.5, 0.25)  # distances of the five thresholds, relative to the chosen one
LEAST_SPREAD = math.log(1.5)  # of distances, where all of them are nearly the same
ROUNDING = 1e-6  # distance below which cosines in float32 say nothing
_ROWS = 256  # images whose cosines with all others are computed at a time


@dataclass(frozen=True)
class Groups:
    """Groups of copies among n images.

    Args:
        group: Number of the group of each image (n,), from 1; 0 for images without copies.
        kept: Index (n,) of the image that is kept of its group; its own index without copies.
    """

    group: torch.Tensor
    kept: torch.Tensor

    @property
    def is_kept(self) -> torch.Tensor:
        """True for images that are kept (n,)."""
        return self.kept == torch.arange(len(self.kept))


def preference(pixels: Sequence[int], sizes: Sequence[int], names: Sequence[str]) -> torch.Tensor:
    """Return indices of images, the one to keep first: the largest, least compressed, by name.

    Args:
        pixels: Number of pixels of each image.
        sizes: Size of each file in bytes: of two images with as many pixels, the larger file is
            less compressed.
        names: Names of the images.

    Example:
        >>> preference([4, 9, 9, 9], [7, 5, 6, 6], ["a", "b", "d", "c"]).tolist()
        [3, 2, 1, 0]
    """
    order = sorted(range(len(names)), key=lambda i: (-pixels[i], -sizes[i], names[i]))
    return torch.tensor(order, dtype=torch.long)


def same_content(keys: Iterable[Sequence[object]], order: torch.Tensor) -> torch.Tensor:
    """Return for each image the index of the first one in `order` that has the same content.

    Args:
        keys: For each kind of content, such as bytes and pixels, a value for each image. Images
            with one of their values in common have the same content.
        order: Indices of the images, the preferred first.

    Returns:
        Indices (n,).

    Example:
        >>> same_content([["a", "a", "b"], ["x", "y", "y"]], torch.tensor([2, 0, 1])).tolist()
        [2, 2, 2]
    """
    ranks = order.argsort().tolist()
    parent = list(range(len(ranks)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for values in keys:
        first: dict[object, int] = {}
        for i, value in enumerate(values):
            a, b = root(first.setdefault(value, i)), root(i)
            if ranks[b] < ranks[a]:
                a, b = b, a
            parent[b] = a
    return torch.tensor([root(i) for i in range(len(parent))], dtype=torch.long)


def choose_threshold(cosines: torch.Tensor) -> float:
    """Choose the cosine from which two images are near copies, by how similar neighbors are.

    Distances d = 1 − cosine of the second neighbor say how similar different images are: the
    first may be a copy. The threshold lies where log d is three spreads below its median; the
    spread is that of the upper half, in which there are no copies. It follows the data: with
    features that are all alike it is closer to 1.

    Args:
        cosines: Cosines (n, k) of each image's neighbors, the highest first.

    Returns:
        The threshold.

    Example:
        >>> round(choose_threshold(torch.tensor([[0.999, 0.9]] * 9 + [[0.99, 0.8]])), 3)
        0.97
    """
    if not cosines.numel():
        return 1 - ROUNDING
    second = cosines[:, min(1, cosines.shape[1] - 1)]
    distances = (1 - second.double()).clamp(min=ROUNDING).log()
    middle, high = distances.quantile(torch.tensor([0.5, 0.84], dtype=torch.float64)).tolist()
    spread = max(high - middle, LEAST_SPREAD)
    return 1 - max(math.exp(middle - SIGMAS * spread), ROUNDING)


def five_thresholds(threshold: float) -> list[float]:
    """Return five thresholds, ascending, whose distances double from each to the one before it.

    >>> [round(each, 4) for each in five_thresholds(0.96)]
    [0.84, 0.92, 0.96, 0.98, 0.99]
    """
    distance = 1 - check_threshold(threshold)
    return [threshold if factor == 1 else max(1 - factor * distance, -1.0) for factor in LADDER]


def check_threshold(threshold: float) -> float:
    """Return a threshold if it is a cosine above 0 and below 1."""
    fix = "it is a cosine, such as 0.98"
    if positive_number("threshold", threshold, fix) >= 1:
        raise ValueError(
            f"threshold must be below 1, got {threshold}: {fix}; exact copies are "
            "compared by their content."
        )
    return threshold


def near_groups(
    x: torch.Tensor,
    cosines: torch.Tensor,
    indices: torch.Tensor,
    order: torch.Tensor,
    threshold: float,
) -> torch.Tensor:
    """Return for each image the one that is kept of its near copies.

    In the order of preference, an image that belongs to no other yet is kept, and all images that
    belong to none and are similar to it are its copies. Exact: where all neighbors of an image are
    similar to it, there may be more, and its cosines with all images are computed.

    Args:
        x: Features (n, D) of unit length.
        cosines: Cosines (n, k) of neighbors, the highest first.
        indices: Indices (n, k) of the neighbors.
        order: Indices of the images, the preferred first.
        threshold: Cosine from which two images are near copies.

    Returns:
        Indices (n,).

    Example:
        >>> angle = torch.tensor([0.0, 0.1, 0.2])  # each is similar to the one before it
        >>> x = torch.stack([angle.cos(), angle.sin()], 1)
        >>> cosines = torch.tensor([[0.995], [0.995], [0.995]])
        >>> neighbors = torch.tensor([[1], [0], [1]])
        >>> near_groups(x, cosines, neighbors, torch.tensor([0, 1, 2]), 0.99).tolist()
        [0, 0, 2]
    """
    n, k = cosines.shape
    kept = torch.full((n,), -1, dtype=torch.long)
    counts = (cosines >= threshold).sum(1).tolist()
    more = _Similar(x, threshold, order, [count == k < n - 1 for count in counts])
    similar_to_others = set((torch.tensor(counts) > 0).nonzero().squeeze(1).tolist())
    for i in order.tolist():
        if kept[i] >= 0:
            continue
        kept[i] = i
        if i in similar_to_others:
            similar = more(i, kept) if more.needed[i] else indices[i, : counts[i]]
            kept[similar[kept[similar] < 0]] = i
    return kept


class _Similar:
    """All similar images of those whose lists of neighbors are too short."""

    def __init__(
        self, x: torch.Tensor, threshold: float, order: torch.Tensor, needed: list[bool]
    ) -> None:
        self.x = x
        self.threshold = threshold
        self.needed = needed
        self._queue = [i for i in order.tolist() if needed[i]]
        self._similar: dict[int, torch.Tensor] = {}

    def __call__(self, i: int, kept: torch.Tensor) -> torch.Tensor:
        """Return indices of the images that are similar to image i."""
        if i not in self._similar:
            # The next of those that belong to no other yet, in one product.
            self._queue = [j for j in self._queue if j == i or kept[j] < 0]
            chosen = self._queue[:_ROWS]
            self._queue = self._queue[_ROWS:]
            rows = self.x[chosen] @ self.x.T >= self.threshold
            self._similar = dict(zip(chosen, rows, strict=True))
        return self._similar.pop(i).nonzero().squeeze(1)


def number_groups(kept: torch.Tensor) -> Groups:
    """Return groups that are numbered in the order of their images.

    >>> number_groups(torch.tensor([2, 1, 2, 3, 3])).group.tolist()
    [1, 0, 1, 2, 2]
    """
    sizes = kept.bincount(minlength=len(kept))
    numbers: dict[int, int] = {}
    group = [
        numbers.setdefault(i, len(numbers) + 1) if size > 1 else 0
        for i, size in zip(kept.tolist(), sizes[kept].tolist(), strict=True)
    ]
    return Groups(torch.tensor(group, dtype=torch.long), kept)
