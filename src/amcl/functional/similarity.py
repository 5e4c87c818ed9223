"""Similarities between items that are stacked by head.

Shape letters, here and everywhere: C heads, N anchors, M candidates, D width.
"""

import torch
import torch.nn.functional as F


def unit(z: torch.Tensor) -> torch.Tensor:
    """Scale each vector to length one, so that a dot product is the cosine sim(z, z')."""
    return F.normalize(z, dim=-1)


def mean_cosine(mean: torch.Tensor, n: int) -> torch.Tensor:
    """Return the mean cosine of two different items out of n, from the mean of their unit vectors.

    mean: (C, 1, D). Returns (C, 1, 1). The squared length of the mean is the mean cosine of all n²
    pairs, of which n are pairs of an item with itself. One item alone has 0.
    """
    mean_of_all = mean.square().sum(-1, keepdim=True)
    return (n * mean_of_all - 1.0) / (n - 1) if n > 1 else torch.zeros_like(mean_of_all)


def paired(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the dot product of each anchor with its partner.

    a, b: (C, N, D), either may have one head for all. Returns (C, N, 1): one column, so that
    a partner is a list of candidates of length one.
    """
    return (a * b).sum(-1, keepdim=True)


def all_pairs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the dot product of each anchor with each candidate of the same head.

    a: (C, N, D), b: (C, M, D). Returns (C, N, M).
    """
    return a @ b.mT
