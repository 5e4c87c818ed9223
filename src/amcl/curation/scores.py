"""Scores of images: how typical they are, which are outliers, and how ambiguous their views."""

import torch

from amcl.curation.duplicates import LEAST_SPREAD, ROUNDING

SIGMAS = 3.0  # spreads above the usual distance from neighbors at which images are outliers
HARDEST = 10  # negatives that count


def typicality(cosines: torch.Tensor) -> torch.Tensor:
    """Return the mean cosine (n,) of each image with its neighbors; 1 where there is none.

    >>> typicality(torch.tensor([[0.9, 0.7]]))
    tensor([0.8000])
    """
    return cosines.mean(1) if cosines.shape[1] else cosines.new_ones(len(cosines))


def ranks(values: torch.Tensor) -> torch.Tensor:
    """Return the rank (n,) of each value, from 1 for the lowest; the first of equal ones is lower.

    >>> ranks(torch.tensor([0.3, 0.1, 0.2])).tolist()
    [3, 1, 2]
    """
    return values.argsort(stable=True).argsort() + 1


def outliers(typical: torch.Tensor) -> torch.Tensor:
    """Return which images (n,) are far more distant from their neighbors than others are.

    The logarithm of their distance, 1 − typicality, is three spreads above its median. The spread
    is that of the lower half, in which there are no outliers.

    >>> outliers(torch.tensor([0.9] * 20 + [0.1])).nonzero().tolist()
    [[20]]
    """
    distances = (1 - typical.double()).clamp(min=ROUNDING).log()
    low, middle = distances.quantile(torch.tensor([0.16, 0.5], dtype=torch.float64)).tolist()
    far: torch.Tensor = distances > middle + SIGMAS * max(middle - low, LEAST_SPREAD)
    return far


def ambiguity(
    positive: torch.Tensor, negative: torch.Tensor, other: torch.Tensor, kept: torch.Tensor
) -> torch.Tensor:
    """Return how far the hardest negatives of each image lie inside its positive pairs.

    It is the mean similarity of an image's views with the ten most similar images of a bank, minus
    that of its views with each other. Copies of the image are no negatives. Above 0, views of other
    images are more similar than those of the image itself.

    Args:
        positive: Mean similarity (n,) of two views of each image.
        negative: Similarity (n, H) of its views with those of other images, the highest first; −∞
            for none.
        other: Indices (n, H) of the other images.
        kept: Index (n,) of the image that is kept of the copies of each.

    Returns:
        Ambiguities (n,); NaN where there is no negative.

    Example:
        >>> similarity = torch.tensor([[0.8], [0.8]])
        >>> ambiguity(
        ...     torch.tensor([0.9, 0.7]), similarity, torch.tensor([[1], [0]]), torch.arange(2)
        ... )
        tensor([-0.1000,  0.1000])
    """
    valid = (kept[other] != kept[:, None]) & negative.isfinite()
    valid &= valid.cumsum(1) <= HARDEST
    hardest = negative.where(valid, 0).sum(1) / valid.sum(1)
    return hardest - positive
