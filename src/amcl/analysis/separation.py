"""How far positive pairs stand apart from negative ones, in heads and in the backbone."""

from dataclasses import dataclass

import torch

from amcl.analysis.pairs import PairSample, negatives, positives
from amcl.functional import pair_logit, unit
from amcl.settings import whole_number


@dataclass(frozen=True, kw_only=True, eq=False)
class PairSeparation:
    """Similarities of positive pairs beside those of negative pairs."""

    positive: float
    """Mean over positive pairs."""
    negative: float
    """Mean over negative pairs."""
    overlap: float
    """What the histograms of both share: 0 apart, 1 the same."""
    auroc: float
    """Probability that a positive pair is more alike than a negative one, ties half."""
    edges: torch.Tensor
    """Of the histograms' bins, (bins + 1,), from the least to the greatest similarity."""
    positive_shares: torch.Tensor
    """Of the positive pairs in each bin, (bins,)."""
    negative_shares: torch.Tensor
    """Of the negative pairs in each bin, (bins,)."""


def scaled(sample: PairSample) -> torch.Tensor:
    """Mean over heads of s/τ, the similarity the loss weighs (Fig. 1 and 3): (N, N).

    Where temperatures are not those of images, as in Barlow Twins, it is the mean of s.
    """
    if sample.s is None:
        raise ValueError("there are no heads: use backbone_similarity, which every method has.")
    u = sample.s if sample.tau is None else pair_logit(sample.s, sample.tau)
    return u.mean(0)


def backbone_similarity(sample: PairSample) -> torch.Tensor:
    """Cosine of the backbone's features of each first view with each second view: (N, N)."""
    # In float64, so that views that are equally alike come out equal in float32.
    return (unit(sample.h0.double()) @ unit(sample.h1.double()).T).float()


def separation_of(similarity: torch.Tensor, bins: int = 50) -> PairSeparation:
    """How far the diagonal of similarities (N, N) stands from the rest.

    >>> found = separation_of(torch.eye(4))
    >>> found.positive, found.negative, found.overlap, found.auroc
    (1.0, 0.0, 0.0, 1.0)
    """
    whole_number("bins", bins)
    if similarity.ndim != 2 or similarity.shape[0] != similarity.shape[1] or len(similarity) < 2:
        raise ValueError(
            f"similarity must be (N, N) with N of 2 or more, got {tuple(similarity.shape)}: give "
            "what scaled or backbone_similarity return."
        )
    own, others = (pick(similarity.double()).contiguous() for pick in (positives, negatives))
    low, high = similarity.min().item(), similarity.max().item()
    if low == high:
        low, high = low - 0.5, high + 0.5
    positive_shares, negative_shares = (
        torch.histc(values, bins, low, high) / len(values) for values in (own, others)
    )
    return PairSeparation(
        positive=own.mean().item(),
        negative=others.mean().item(),
        overlap=torch.minimum(positive_shares, negative_shares).sum().item(),
        auroc=_auroc(own, others),
        edges=torch.linspace(low, high, bins + 1, dtype=torch.float64),
        positive_shares=positive_shares,
        negative_shares=negative_shares,
    )


def _auroc(positive: torch.Tensor, negative: torch.Tensor) -> float:
    """The share of pairs of pairs in which the positive one is greater; equal ones count half."""
    ordered = negative.sort().values
    below = torch.searchsorted(ordered, positive)
    up_to = torch.searchsorted(ordered, positive, right=True)
    return int((below + up_to).sum()) / (2 * len(positive) * len(negative))
