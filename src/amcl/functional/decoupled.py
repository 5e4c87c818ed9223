"""Weights of positive pairs in the weighted decoupled contrastive loss (DCLW)."""

import torch


def mises_fisher_weights(s_pos: torch.Tensor, sigma: float = 0.5) -> torch.Tensor:
    """Return w = 2 − exp(s⁺/σ) / E[exp(s⁺/σ)], with E the mean over positive pairs of a head.

    It is the negative von Mises–Fisher weighting of DCLW (arXiv 2110.06848, under Eq. 6): pairs
    that are farther apart than others count for more. Weights have a mean of 1. Differentiable,
    though DCLW passes no gradient through them.

    Args:
        s_pos: Similarities (C, N, 1) of all positive pairs.
        sigma: Width σ.

    Returns:
        Weights of the same shape.

    Example:
        >>> mises_fisher_weights(torch.tensor([[[0.5], [0.5]], [[0.0], [1.0]]])).squeeze()
        tensor([[1.0000, 1.0000],
                [1.7616, 0.2384]])
    """
    return 2.0 - s_pos.shape[1] * (s_pos / sigma).softmax(dim=1)
