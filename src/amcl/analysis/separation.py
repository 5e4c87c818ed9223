"""Similarities of pairs after the heads and after the backbone."""

import torch

from amcl.analysis.pairs import PairSample
from amcl.functional import pair_logit, unit
from amcl.metrics.unlabeled import Separation, separation, separation_of


def scaled(sample: PairSample) -> torch.Tensor:
    """Return the mean over heads of s/τ, the similarity the loss weighs (Fig. 1 and 3): (N, N).

    Where temperatures are not those of images, as in Barlow Twins, it is the mean of s.

    Args:
        sample: Two views of some images, with heads.

    Returns:
        The matrix, whose diagonal holds the positive pairs.

    Raises:
        ValueError: If the method has no heads.

    Example:
        >>> h = torch.eye(2)
        >>> s = torch.tensor([[[0.8, 0.2], [0.4, 0.6]]])
        >>> views = torch.zeros(2, 2, 3, 8, 8, dtype=torch.uint8)
        >>> tau = torch.full_like(s, 0.5)
        >>> absent = dict.fromkeys(["channel_tau", "positive_bounds", "negative_bounds", "labels"])
        >>> sample = PairSample(
        ...     h=h, h0=h, h1=h, s=s, tau=tau, views=views, images=views[0], classes=(), **absent
        ... )
        >>> scaled(sample)
        tensor([[1.6000, 0.4000],
                [0.8000, 1.2000]])
    """
    if sample.s is None:
        raise ValueError("there are no heads: use backbone_similarity, which every method has.")
    u = sample.s if sample.tau is None else pair_logit(sample.s, sample.tau)
    return u.mean(0)


def backbone_similarity(sample: PairSample) -> torch.Tensor:
    """Return the cosine of the backbone's features of each first and second view: (N, N).

    Args:
        sample: Two views of some images.

    Returns:
        The matrix, whose diagonal holds the positive pairs.

    Example:
        >>> h = torch.eye(2)
        >>> s = torch.tensor([[[0.8, 0.2], [0.4, 0.6]]])
        >>> views = torch.zeros(2, 2, 3, 8, 8, dtype=torch.uint8)
        >>> absent = dict.fromkeys(
        ...     ["tau", "channel_tau", "positive_bounds", "negative_bounds", "labels"]
        ... )
        >>> sample = PairSample(
        ...     h=h, h0=h, h1=h, s=s, views=views, images=views[0], classes=(), **absent
        ... )
        >>> backbone_similarity(sample)
        tensor([[1., 0.],
                [0., 1.]])
    """
    # In float64, so that views that are equally alike come out equal in float32.
    return (unit(sample.h0.double()) @ unit(sample.h1.double()).T).float()


def separations(sample: PairSample) -> dict[str, Separation]:
    """Measure how far positive pairs are separated from negative ones.

    Args:
        sample: Two views of some images.

    Returns:
        The separation after the "heads", where there are some, and after the "backbone", where it
        is measured as `amcl evaluate` does.

    Example:
        >>> h = torch.eye(2)
        >>> s = torch.tensor([[[0.3, 0.2], [0.4, 0.6]]])
        >>> views = torch.zeros(2, 2, 3, 8, 8, dtype=torch.uint8)
        >>> tau = torch.full_like(s, 0.5)
        >>> absent = dict.fromkeys(["channel_tau", "positive_bounds", "negative_bounds", "labels"])
        >>> sample = PairSample(
        ...     h=h, h0=h, h1=h, s=s, tau=tau, views=views, images=views[0], classes=(), **absent
        ... )
        >>> {part: measured.auroc for part, measured in separations(sample).items()}
        {'heads': 0.75, 'backbone': 1.0}
    """
    heads = {} if sample.s is None else {"heads": separation_of(scaled(sample))}
    return heads | {"backbone": separation(sample.h0, sample.h1)}
