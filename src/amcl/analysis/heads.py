"""Agreement between heads, and retrieval by each of them."""

from dataclasses import dataclass

import torch

from amcl.analysis.pairs import PairSample, negatives
from amcl.analysis.separation import backbone_similarity
from amcl.settings import whole_number


@dataclass(frozen=True, kw_only=True, eq=False)
class Agreement:
    """Agreement between heads, (C, C) each: 1 on the diagonal, NaN with a head that collapsed."""

    correlation: torch.Tensor
    """Of the similarities of negative pairs, from −1 to 1."""
    neighbors: torch.Tensor
    """Mean overlap (Jaccard) of the k nearest other images, from 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """Shares of views that are retrieved by similarity."""

    name: str
    """head 1, head 2, …; mean of heads; backbone."""
    own_image: float
    """Share of first views whose most similar second view is of their own image."""
    same_class: float | None
    """Share of first views whose most similar second view of another image is of their class."""


def agreement(sample: PairSample, k: int = 10) -> Agreement:
    """Measure how far heads agree about which images are similar.

    Args:
        sample: Two views of some images, with heads.
        k: Number of nearest images to compare, at most N − 1.

    Returns:
        The correlation of their similarities, and the overlap of their neighbors.

    Raises:
        ValueError: If the method has no heads.

    Example:
        >>> h = torch.eye(3)
        >>> first = torch.tensor([[0.9, 0.7, 0.1], [0.7, 0.9, 0.3], [0.1, 0.3, 0.9]])
        >>> second = torch.tensor([[0.9, 0.2, 0.6], [0.5, 0.9, 0.4], [0.2, 0.6, 0.9]])
        >>> s = torch.stack([first, second])
        >>> views = torch.zeros(2, 3, 3, 8, 8, dtype=torch.uint8)
        >>> absent = dict.fromkeys(
        ...     ["tau", "channel_tau", "positive_bounds", "negative_bounds", "labels"]
        ... )
        >>> sample = PairSample(
        ...     h=h, h0=h, h1=h, s=s, views=views, images=views[0], classes=(), **absent
        ... )
        >>> agreement(sample, k=1).neighbors
        tensor([[1.0000, 0.6667],
                [0.6667, 1.0000]])
        >>> agreement(sample, k=1).correlation
        tensor([[ 1.0000, -0.1862],
                [-0.1862,  1.0000]])
    """
    if sample.s is None:
        raise ValueError("there are no heads, and so nothing that could agree.")
    k = min(whole_number("k", k), len(sample) - 1)
    heads = sample.num_heads
    correlation = torch.corrcoef(negatives(sample.s.double())).view(heads, heads)
    nearest = _without_diagonal(sample.s).topk(k, dim=-1).indices
    member = torch.zeros_like(sample.s).scatter_(-1, nearest, 1.0)
    common = torch.einsum("aij,bij->abi", member, member)
    return Agreement(
        correlation=correlation.float(), neighbors=(common / (2 * k - common)).mean(-1)
    )


def retrieval(sample: PairSample) -> list[Retrieval]:
    """Measure retrieval by each head, by the mean of several heads, and by the backbone.

    Args:
        sample: Two views of some images. Without labels, there is no share of the same class.

    Returns:
        The shares by each head, by the mean of heads if there are several, and by the backbone.

    Example:
        >>> h = torch.eye(2)
        >>> s = torch.tensor([[[0.9, 0.1], [0.8, 0.3]]])
        >>> views = torch.zeros(2, 2, 3, 8, 8, dtype=torch.uint8)
        >>> absent = dict.fromkeys(
        ...     ["tau", "channel_tau", "positive_bounds", "negative_bounds", "labels"]
        ... )
        >>> sample = PairSample(
        ...     h=h, h0=h, h1=h, s=s, views=views, images=views[0], classes=(), **absent
        ... )
        >>> [(row.name, row.own_image) for row in retrieval(sample)]
        [('head 1', 0.5), ('backbone', 1.0)]
    """
    by_name: dict[str, torch.Tensor] = {}
    if sample.s is not None:
        by_name |= {f"head {c}": s for c, s in enumerate(sample.s, start=1)}
        if sample.num_heads > 1:
            by_name["mean of heads"] = sample.s.mean(0)
    by_name["backbone"] = backbone_similarity(sample)
    return [_retrieval(name, s, sample.labels) for name, s in by_name.items()]


def _retrieval(name: str, s: torch.Tensor, labels: torch.Tensor | None) -> Retrieval:
    hits = s.argmax(1) == torch.arange(len(s))
    same_class = None
    if labels is not None:
        same_class = _share(labels[_without_diagonal(s).argmax(1)] == labels)
    return Retrieval(name=name, own_image=_share(hits), same_class=same_class)


def _without_diagonal(s: torch.Tensor) -> torch.Tensor:
    """Return similarities (…, N, N) with −∞ between each image and itself."""
    diagonal = torch.eye(s.shape[-1], dtype=torch.bool)
    return s.masked_fill(diagonal, -torch.inf)


def _share(hits: torch.Tensor) -> float:
    return hits.double().mean().item()
