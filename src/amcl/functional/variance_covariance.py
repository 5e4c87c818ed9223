"""The three terms of VICReg (arXiv 2105.04906): invariance, variance and covariance."""

import torch

from amcl.functional.pair import pair_logit
from amcl.functional.temperature import Prior


def invariance(
    z0: torch.Tensor,
    z1: torch.Tensor,
    tau: torch.Tensor,
    beta: float = 0.0,
    prior_tau: Prior = 1.0,
) -> torch.Tensor:
    """Return d/τ + β Ω(τ) of each image, with d the mean of (z − z⁺)² over the D channels.

    At τ = 1 and β = 0 it is VICReg's invariance term. d is D times smaller than the squared
    distance of Eq. 8, as published, so that it is of order 1 for any D. Since d ≥ 0, Ω holds τ up
    for every pair: the term is least at τ* = τ₀ (1 + d/β).

    Args:
        z0: Projections (C, N, D) of the first view.
        z1: Projections (C, N, D) of the second view.
        tau: Temperatures, which broadcast to (C, N, 1).
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω.

    Returns:
        The term (C, N, 1) of each image in each head.

    Example:
        >>> z0, z1 = torch.zeros(1, 2, 4), torch.ones(1, 2, 4)
        >>> invariance(z0, z1, torch.tensor([2.0])).flatten()
        tensor([0.5000, 0.5000])
    """
    distance = (z0 - z1).square().mean(-1, keepdim=True)
    return -pair_logit(-distance, tau, beta, prior_tau)


def variance_hinge(z: torch.Tensor, gamma: float = 1.0, eps: float = 1e-4) -> torch.Tensor:
    """Return the mean over channels of max(0, γ − √(variance + ε)).

    Args:
        z: Projections (C, N, D) of one view, of two or more images.
        gamma: Standard deviation γ from which a channel costs nothing.
        eps: Added to the variance, which is that of N − 1 degrees of freedom.

    Returns:
        The term (C,) of each head.

    Example:
        >>> z = torch.tensor([[[0.0, -1.0], [0.0, 1.0]]])  # one channel is constant
        >>> variance_hinge(z, eps=0.0)
        tensor([0.5000])
    """
    return (gamma - (z.var(dim=1) + eps).sqrt()).relu().mean(-1)


def covariance(z: torch.Tensor) -> torch.Tensor:
    """Return the sum of squared covariances of different channels, divided by D.

    With fewer images than channels it is computed from the N × N matrix of dot products, which has
    the same sum of squares as the D × D one and is the smaller of the two. The diagonal is then
    subtracted; that loses no digits that matter, because the covariances of more channels than
    images cannot all be small.

    Args:
        z: Projections (C, N, D) of one view, of two or more images.

    Returns:
        The term (C,) of each head.

    Example:
        >>> z = torch.tensor([[[1.0, -1.0], [-1.0, 1.0]]])  # both covariances are −2
        >>> covariance(z)
        tensor([4.])
    """
    _, n, dim = z.shape
    centered = (z - z.mean(dim=1, keepdim=True)) / (n - 1) ** 0.5
    total: torch.Tensor
    if n < dim:
        variances = centered.square().sum(1)
        total = (centered @ centered.mT).square().sum((1, 2)) - variances.square().sum(1)
    else:
        diagonal = torch.eye(dim, dtype=torch.bool, device=z.device)
        total = (centered.mT @ centered).masked_fill(diagonal, 0.0).square().sum((1, 2))
    return total / dim
