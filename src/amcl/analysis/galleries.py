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
    """The first view of image i with the second view of image j."""

    i: int
    j: int
    s: tuple[float, ...]
    """Similarity in each head; empty without heads."""
    tau: tuple[float, ...] | None
    """Temperature in each head; None where pairs of images have none."""
    backbone: float
    """Cosine of the backbone's features."""


def uncertain_positives(sample: PairSample, count: int) -> list[Pair]:
    """The `count` positive pairs that the method is least sure of, the most uncertain first.

    Those of the highest τ, in the mean over heads. Where τ is the same for all of them, or there
    is none, those of the lowest s; without heads, of the lowest cosine of the backbone's features.
    """
    whole_number("count", count)
    certain = _similarity(sample)
    if sample.tau is not None and sample.positives_differ:
        certain = -positives(sample.tau).mean(0)
    order = certain.argsort(stable=True)[:count].tolist()
    return _pairs(sample, [(i, i) for i in order])


def hard_negatives(sample: PairSample, count: int) -> list[Pair]:
    """Up to `count` pairs of different images that the method finds most alike, hardest first.

    By the mean over heads of s/τ; without heads by the cosine of the backbone's features. No image
    is in two pairs.
    """
    whole_number("count", count)
    alike = backbone_similarity(sample) if sample.s is None else scaled(sample)
    n = len(alike)
    alike = alike.masked_fill(torch.eye(n, dtype=torch.bool), -torch.inf)
    chosen: list[tuple[int, int]] = []
    for _ in range(min(count, n // 2)):
        i, j = divmod(int(alike.argmax()), n)
        chosen.append((i, j))
        alike[[i, j], :] = alike[:, [i, j]] = -torch.inf
    return _pairs(sample, chosen)


def neighbors(features: torch.Tensor, queries: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Some images (Q,), spread evenly over features (N, d), and the k nearest of each (Q, k).

    By the cosine, the nearest first, none its own neighbor; Q is `queries`, at most N, and k is
    at most N − 1.

    >>> angle = torch.tensor([0.0, 0.1, 0.3, 2.0])
    >>> indices, nearest = neighbors(torch.stack([angle.cos(), angle.sin()], 1), queries=2, k=2)
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


def _similarity(sample: PairSample) -> torch.Tensor:
    """Of each positive pair, in the mean over heads: (N,)."""
    return positives(backbone_similarity(sample) if sample.s is None else sample.s.mean(0))


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
