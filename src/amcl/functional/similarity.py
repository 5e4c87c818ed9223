"""Similarities between items that are stacked by head.

Shape letters, here and everywhere: C heads, N anchors, M candidates, D width.
"""

import torch


def unit(z: torch.Tensor) -> torch.Tensor:
    """Scale each vector to length one, so that a dot product is the cosine sim(z, z').

    Args:
        z: Vectors (…, D).

    Returns:
        Vectors of the same shape. A vector of zeros, which has no direction, stays one; its
        gradient is zero.

    Example:
        >>> unit(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    length: torch.Tensor = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return z / length.masked_fill(length < 1e-12, torch.inf)


def mean_cosine(mean: torch.Tensor, n: int) -> torch.Tensor:
    """Return the mean cosine of two different items out of n, from the mean of their unit vectors.

    The squared length of the mean is the mean cosine of all n² pairs, of which n are pairs of an
    item with itself.

    Args:
        mean: Mean (C, 1, D) of n unit vectors.
        n: Number of items.

    Returns:
        Mean cosines (C, 1, 1). One item alone has 0.

    Example:
        >>> z = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])  # two items at a right angle
        >>> mean_cosine(z.mean(dim=1, keepdim=True), n=2)
        tensor([[[0.]]])
    """
    mean_of_all = mean.square().sum(-1, keepdim=True)
    return (n * mean_of_all - 1.0) / (n - 1) if n > 1 else torch.zeros_like(mean_of_all)


def paired(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the dot product of each anchor with its partner.

    Args:
        a: Anchors (C, N, D).
        b: Partners (C, N, D). Either may have one head for all.

    Returns:
        Dot products (C, N, 1): one column, so that a partner is a list of candidates of length
        one.

    Example:
        >>> paired(torch.ones(3, 8, 4), torch.ones(1, 8, 4)).shape
        torch.Size([3, 8, 1])
    """
    return (a * b).sum(-1, keepdim=True)


def all_pairs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the dot product of each anchor with each candidate of the same head.

    Args:
        a: Anchors (C, N, D).
        b: Candidates (C, M, D).

    Returns:
        Dot products (C, N, M).

    Example:
        >>> all_pairs(torch.ones(3, 8, 4), torch.ones(3, 16, 4)).shape
        torch.Size([3, 8, 16])
    """
    return a @ b.mT


def nearest(z: torch.Tensor, candidates: torch.Tensor, max_pairs: int = 2**25) -> torch.Tensor:
    """Return which candidate of the same head has the greatest cosine with each vector.

    Args:
        z: Vectors (C, N, D).
        candidates: Candidates (C, M, D), of any length.
        max_pairs: Greatest number of cosines in memory at a time; one row of each head at least.

    Returns:
        Indices (C, N) of candidates, the first of equal ones.

    Example:
        >>> z = torch.tensor([[[1.0, 0.0], [1.0, 2.0]]])
        >>> nearest(z, torch.tensor([[[5.0, 5.0], [0.5, 0.0]]]))
        tensor([[1, 0]])
    """
    lengths: torch.Tensor = torch.linalg.vector_norm(candidates, dim=-1).unsqueeze(1)
    lengths = lengths.masked_fill(lengths < 1e-12, torch.inf)
    rows = max(1, max_pairs // (candidates.shape[0] * candidates.shape[1]))
    blocks = [(all_pairs(part, candidates) / lengths).argmax(-1) for part in z.split(rows, dim=1)]
    return torch.cat(blocks, dim=1)
