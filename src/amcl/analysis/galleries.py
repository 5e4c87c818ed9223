"""Pairs and images worth looking at: uncertain positives, hard negatives, nearest neighbors."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from amcl.analysis.pairs import PairSample, positives
from amcl.analysis.separation import backbone_similarity, scaled
from amcl.functional import unit
from amcl.metrics.knn import check_finite
from amcl.settings import whole_number


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A pair of the first view of image i and the second view of image j."""

    i: int
    """Index of the image of the first view."""
    j: int
    """Index of the image of the second view."""
    s: tuple[float, ...]
    """Similarity in each head; empty without heads."""
    tau: tuple[float, ...] | None
    """Temperature in each head; None where pairs of images have none."""
    backbone: float
    """Cosine of the backbone's features."""


def uncertain_positives(sample: PairSample, count: int) -> list[Pair]:
    """Return the positive pairs that the method is least sure of, the most uncertain first.

    They have the highest τ, in the mean over heads. Where τ is the same for all pairs, or there is
    none, they have the lowest s; without heads, the lowest cosine of the backbone's features.

    Args:
        sample: Two views of some images.
        count: Number of pairs.

    Returns:
        The pairs, at most `count` and at most N.

    Example:
        >>> h = torch.eye(2)
        >>> s = torch.tensor([[[0.8, 0.2], [0.4, 0.6]]])
        >>> views = torch.zeros(2, 2, 3, 8, 8, dtype=torch.uint8)
        >>> tau = torch.full_like(s, 0.5)
        >>> absent = dict.fromkeys(["channel_tau", "positive_bounds", "negative_bounds", "labels"])
        >>> sample = PairSample(
        ...     h=h, h0=h, h1=h, s=s, tau=tau, views=views, images=views[0], classes=(), **absent
        ... )
        >>> [(pair.i, pair.j) for pair in uncertain_positives(sample, count=1)]
        [(1, 1)]
    """
    whole_number("count", count)
    certainty = positives(backbone_similarity(sample) if sample.s is None else sample.s.mean(0))
    if sample.tau is not None and sample.positives_differ:
        certainty = -positives(sample.tau).mean(0)
    order = certainty.argsort(stable=True)[:count].tolist()
    return _pairs(sample, [(i, i) for i in order])


def hard_negatives(sample: PairSample, count: int) -> list[Pair]:
    """Return the pairs of different images that the method finds most similar, hardest first.

    The similarity is the mean over heads of s/τ; without heads, the cosine of the backbone's
    features. No image is in two pairs.

    Args:
        sample: Two views of some images.
        count: Largest number of pairs.

    Returns:
        The pairs, at most `count` and at most N / 2.

    Example:
        >>> h = torch.eye(2)
        >>> s = torch.tensor([[[0.8, 0.2], [0.4, 0.6]]])
        >>> views = torch.zeros(2, 2, 3, 8, 8, dtype=torch.uint8)
        >>> tau = torch.full_like(s, 0.5)
        >>> absent = dict.fromkeys(["channel_tau", "positive_bounds", "negative_bounds", "labels"])
        >>> sample = PairSample(
        ...     h=h, h0=h, h1=h, s=s, tau=tau, views=views, images=views[0], classes=(), **absent
        ... )
        >>> [(pair.i, pair.j) for pair in hard_negatives(sample, count=1)]
        [(1, 0)]
    """
    whole_number("count", count)
    similarity = backbone_similarity(sample) if sample.s is None else scaled(sample)
    n = len(similarity)
    similarity = similarity.masked_fill(torch.eye(n, dtype=torch.bool), -torch.inf)
    chosen: list[tuple[int, int]] = []
    for _ in range(min(count, n // 2)):
        i, j = divmod(int(similarity.argmax()), n)
        chosen.append((i, j))
        similarity[[i, j], :] = -torch.inf
        similarity[:, [i, j]] = -torch.inf
    return _pairs(sample, chosen)


def neighbors(features: torch.Tensor, queries: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the nearest neighbors of some images by the cosine of their features.

    Args:
        features: Features of all images, (N, d).
        queries: Number of images Q to find neighbors of, at most N; they are spread evenly.
        k: Number of neighbors, at most N − 1.

    Returns:
        Indices of the images, (Q,), and of their neighbors, the nearest first, (Q, k).

    Example:
        >>> angle = torch.tensor([0.0, 0.1, 0.3, 2.0])
        >>> features = torch.stack([angle.cos(), angle.sin()], 1)
        >>> indices, nearest = neighbors(features, queries=2, k=2)
        >>> indices.tolist(), nearest.tolist()
        ([0, 3], [[1, 2], [2, 1]])
    """
    check_finite("features", features)
    n = len(features)
    if n < 2:
        raise ValueError(f"neighbors need 2 images or more, got {n}.")
    count = min(whole_number("queries", queries), n)
    indices = torch.linspace(0, n - 1, count).round().long()
    directions = unit(features.double())
    cosines = directions[indices] @ directions.T
    cosines[torch.arange(count), indices] = -torch.inf
    order = cosines.argsort(dim=1, descending=True, stable=True)
    return indices, order[:, : min(whole_number("k", k), n - 1)]


def _pairs(sample: PairSample, chosen: Sequence[tuple[int, int]]) -> list[Pair]:
    backbone = backbone_similarity(sample)
    return [
        Pair(
            i=i,
            j=j,
            s=() if sample.s is None else tuple(sample.s[:, i, j].tolist()),
            tau=None if sample.tau is None else tuple(sample.tau[:, i, j].tolist()),
            backbone=backbone[i, j].item(),
        )
        for i, j in chosen
    ]
