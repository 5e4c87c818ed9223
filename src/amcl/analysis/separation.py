"""Similarities of pairs after the heads and after the backbone."""

import torch

from amcl.analysis.pairs import PairSample
from amcl.functional import pair_logit, unit
from amcl.metrics.unlabeled import Separation, separation, separation_of


def scaled(sample: PairSample) -> torch.Tensor:
    """Return the mean over heads of s/τ, the similarity the loss weighs (Fig. 1 and 3): (N, N).

    Where temperatures are not those of images, as in Barlow Twins, it is the mean of s.
    """
    if sample.s is None:
        raise ValueError("there are no heads: use backbone_similarity, which every method has.")
    u = sample.s if sample.tau is None else pair_logit(sample.s, sample.tau)
    return u.mean(0)


def backbone_similarity(sample: PairSample) -> torch.Tensor:
    """Return the cosine of the backbone's features of each first and second view: (N, N)."""
    # In float64, so that views that are equally alike come out equal in float32.
    return (unit(sample.h0.double()) @ unit(sample.h1.double()).T).float()


def separations(sample: PairSample) -> dict[str, Separation]:
    """Measure how far positive pairs are separated from negative ones.

    Args:
        sample: Two views of some images.

    Returns:
        The separation after the "heads", where there are some, and after the "backbone", where it
        is measured as `amcl evaluate` does.
    """
    heads = {} if sample.s is None else {"heads": separation_of(scaled(sample))}
    return heads | {"backbone": separation(sample.h0, sample.h1)}
