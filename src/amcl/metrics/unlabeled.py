"""Measures of features without labels: are views of one image alike, and images different?

All but the rank look at directions, in float64. A feature of zeros has none: two of them count as
alike (cosine 1), one and any other as unlike (0), and so a dead network measures as collapsed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from amcl.metrics.knn import check_finite, unit_rows
from amcl.settings import positive_number, whole_number

BINS = 100
"""Bins of histograms of similarities."""
_PAIRS = 2**21  # similarities that are computed at a time
_RESOLUTION = 2.0**40  # similarities are rounded to multiples of its inverse


@dataclass(frozen=True, kw_only=True, eq=False)
class Histograms:
    """Shares of positive and negative pairs in the same bins.

    Args:
        edges: Edges of the bins, (bins + 1,).
        positive: Share of the positive pairs in each bin, (bins,).
        negative: Share of the negative pairs in each bin, (bins,).
    """

    edges: torch.Tensor
    positive: torch.Tensor
    negative: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class Separation:
    """Distance between the similarities of positive pairs and those of negative pairs.

    Args:
        positive_similarity: Mean over positive pairs, two views of one image.
        negative_similarity: Mean over negative pairs, views of two images.
        overlap: Share that the histograms of both have in common: 0 apart, 1 the same.
        auroc: Probability that a positive pair is more alike than a negative one, ties half.
        histograms: The histograms of both.
    """

    positive_similarity: float
    negative_similarity: float
    overlap: float
    auroc: float
    histograms: Histograms = field(compare=False, repr=False)

    @property
    def metrics(self) -> dict[str, float]:
        """All numbers by name."""
        names = ("positive_similarity", "negative_similarity", "overlap", "auroc")
        return {name: getattr(self, name) for name in names}


def unlabeled(h: torch.Tensor, h0: torch.Tensor, h1: torch.Tensor) -> dict[str, float]:
    """Compute all measures of this module.

    Args:
        h: Features (N, D) of images.
        h0: Features (N, D) of one view of each image.
        h1: Features (N, D) of another view of each image.

    Returns:
        The measures by name.

    Example:
        >>> h = torch.eye(4)
        >>> unlabeled(h, h, h)["effective_rank"]
        4.0
    """
    return {
        "alignment": alignment(h0, h1),
        "uniformity": uniformity(h),
        "effective_rank": effective_rank(h),
        "spread": spread(h),
        **separation(h0, h1).metrics,
    }


def spread(features: torch.Tensor) -> float:
    """Return √(1 − c) with c the mean cosine of two features.

    Args:
        features: Features (N, D), N ≥ 2.

    Returns:
        0 if all features point in one direction (collapse), 1 without a common direction.

    Example:
        >>> spread(torch.eye(3))
        1.0
    """
    unit = _directions("features", features, least=2)
    n = len(unit)
    cosine = (unit.sum(0).square().sum() - n) / (n * (n - 1))
    return float((1 - cosine).clamp(min=0.0).sqrt())


def effective_rank(features: torch.Tensor) -> float:
    """Return the number of directions in use: exp of the entropy of the singular values.

    RankMe (Garrido et al., 2023).

    Args:
        features: Features (N, D).

    Returns:
        The rank, at least 1: constant features have rank 1, and so have zeros.

    Example:
        >>> round(effective_rank(torch.tensor([[3.0, 0], [0, 3], [3, 3]])), 3)
        1.929
    """
    _check("features", features, least=1)
    values = torch.linalg.svdvals(features.detach().double())
    p = values / values.sum().where(values.any(), 1)
    return float(torch.special.entr(p).sum().exp())


def alignment(h0: torch.Tensor, h1: torch.Tensor, alpha: float = 2) -> float:
    """Return the mean ‖ĥ0 − ĥ1‖^α of positive pairs, with unit vectors ĥ (Wang & Isola, 2020).

    Args:
        h0: Features (N, D) of one view of each image.
        h1: Features (N, D) of another view of each image.
        alpha: The exponent α.

    Returns:
        0 if both views of every image are alike, at most 2^α.

    Example:
        >>> alignment(torch.tensor([[1.0, 0]]), torch.tensor([[-5.0, 0]]))
        4.0
    """
    positive_number("alpha", alpha)
    u0, u1 = _pairs(h0, h1, least=1)
    distance = torch.linalg.vector_norm(u0 - u1, dim=1)
    return float(distance.pow(alpha).mean())


def uniformity(h: torch.Tensor, t: float = 2) -> float:
    """Return log of the mean exp(−t‖ĥi − ĥj‖²) over i < j (Wang & Isola, 2020).

    Args:
        h: Features (N, D), N ≥ 2; ĥ are their unit vectors.
        t: The factor t.

    Returns:
        A number from −4t to 0: low if images differ.

    Example:
        >>> uniformity(torch.tensor([[1.0, 0], [0, 5]]))
        -4.0
    """
    positive_number("t", t)
    unit = _directions("h", h, least=2)
    sums = []
    for start, cosine in _similarities(unit, unit):
        exponent = (cosine - 1).clamp_(max=0).mul_(2 * t)  # ‖ĥi − ĥj‖² = 2 − 2 cos
        exponent.diagonal(start).fill_(-torch.inf)
        sums.append(float(exponent.logsumexp((0, 1))))
    n = len(unit)  # each pair is met twice
    return float(torch.tensor(sums, dtype=torch.float64).logsumexp(0)) - math.log(n * (n - 1))


def separation(h0: torch.Tensor, h1: torch.Tensor, bins: int = BINS) -> Separation:
    """Compare cosines of positive pairs (h0ᵢ, h1ᵢ) with those of negative ones (h0ᵢ, h1ⱼ), i ≠ j.

    Args:
        h0: Features (N, D) of one view of each image, N ≥ 2.
        h1: Features (N, D) of another view of each image.
        bins: Number of bins of the histograms on [−1, 1] whose overlap is measured.

    Returns:
        The measures and the histograms.

    Example:
        >>> separation(torch.eye(3), torch.eye(3))
        Separation(positive_similarity=1.0, negative_similarity=0.0, overlap=0.0, auroc=1.0)
    """
    u0, u1 = _pairs(h0, h1, least=2)
    # Without rounding, pairs that are equally alike would differ by the order of sums.
    positive = _rounded(torch.linalg.vecdot(u0, u1))
    blocks = ((start, _rounded(cosine)) for start, cosine in _similarities(u0, u1))
    return _separation(positive, blocks, bins, -1.0, 1.0)


def separation_of(similarity: torch.Tensor, bins: int = BINS) -> Separation:
    """Compare the diagonal of similarities (N, N) with the rest, such as s/τ after the heads.

    Args:
        similarity: Similarities (N, N), N ≥ 2; those of positive pairs are on the diagonal.
        bins: Number of bins between the least and the greatest similarity.

    Returns:
        The measures and the histograms.

    Example:
        >>> separation_of(torch.eye(4))
        Separation(positive_similarity=1.0, negative_similarity=0.0, overlap=0.0, auroc=1.0)
    """
    if similarity.ndim != 2 or similarity.shape[0] != similarity.shape[1] or len(similarity) < 2:
        raise ValueError(
            f"similarity must be (N, N) with N of 2 or more, got {tuple(similarity.shape)}."
        )
    values = similarity.detach().double()
    low = values.min().item()
    high = values.max().item()
    if low == high:
        low -= 0.5
        high += 0.5
    return _separation(values.diagonal().contiguous(), iter([(0, values)]), bins, low, high)


def _separation(
    positive: torch.Tensor,
    blocks: Iterator[tuple[int, torch.Tensor]],
    bins: int,
    low: float,
    high: float,
) -> Separation:
    """Compare positive pairs (N,) with all pairs, which come in blocks of rows of (N, N)."""
    whole_number("bins", bins)
    levels, counts = _levels(positive)
    less = counts.cumsum(0) - counts
    n = len(positive)
    total = 0.0
    lost = 0
    histogram = torch.zeros(bins, dtype=torch.float64, device=positive.device)
    for start, block in blocks:
        # Exactly the numbers that are subtracted again below.
        block.diagonal(start).copy_(positive[start : start + len(block)])
        total += float(block.sum())
        histogram += torch.histc(block, bins, low, high)
        level = torch.searchsorted(levels, block)
        # Twice the positive pairs that are less alike than each pair, and once those as alike.
        lost += int((2 * less[level] + counts[level] * (levels[level] == block)).sum())
    # All pairs were counted; without the positive ones, the negative ones remain.
    negatives = n * (n - 1)
    positive_histogram = torch.histc(positive, bins, low, high)
    histograms = Histograms(
        edges=torch.linspace(low, high, bins + 1, dtype=torch.float64),
        positive=(positive_histogram / n).cpu(),
        negative=((histogram - positive_histogram) / negatives).cpu(),
    )
    return Separation(
        positive_similarity=float(positive.mean()),
        negative_similarity=(total - float(positive.sum())) / negatives,
        overlap=float(torch.minimum(histograms.positive, histograms.negative).sum()),
        auroc=1 - (lost - n * n) / (2 * n * negatives),
        histograms=histograms,
    )


def _levels(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the distinct values, sorted, and their counts, with infinity and 0 at the end."""
    levels, counts = values.unique(return_counts=True)
    return torch.cat([levels, levels.new_tensor([torch.inf])]), torch.cat([counts, counts[:1] * 0])


def _similarities(u0: torch.Tensor, u1: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield the first row and the values of blocks of rows of u0 @ u1.T."""
    rows = max(_PAIRS // len(u1), 1)
    for start in range(0, len(u0), rows):
        yield start, u0[start : start + rows] @ u1.T


def _rounded(cosine: torch.Tensor) -> torch.Tensor:
    return (cosine * _RESOLUTION).round_().div_(_RESOLUTION).clamp_(-1, 1)


def _pairs(h0: torch.Tensor, h1: torch.Tensor, least: int) -> tuple[torch.Tensor, torch.Tensor]:
    if h0.shape != h1.shape:
        raise ValueError(
            f"h0 and h1 must have one shape, row by row two views of an image; got "
            f"{tuple(h0.shape)} and {tuple(h1.shape)}."
        )
    return _directions("h0", h0, least), _directions("h1", h1, least)


def _directions(name: str, features: torch.Tensor, least: int) -> torch.Tensor:
    """Return unit vectors (N, D + 1) in float64; features of zeros get an axis to themselves."""
    _check(name, features, least)
    unit = unit_rows(features.detach().double())
    return torch.cat([unit, ~unit.any(1, keepdim=True)], 1)


def _check(name: str, features: torch.Tensor, least: int) -> None:
    check_finite(name, features)
    if len(features) < least:
        raise ValueError(f"{name} must hold {least} or more images, got {len(features)}.")
