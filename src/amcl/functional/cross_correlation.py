"""The cross-correlation loss of Barlow Twins with a temperature for each pair of channels."""

import math
from typing import Literal

import torch

from amcl.functional.pair import pair_logit
from amcl.functional.temperature import Prior, omega

OmegaReduction = Literal["mean", "sum"]


def channels(z: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Return the channels of a batch as items: standardized over the batch and divided by √N.

    Dot products of the result are correlations: 𝒞_lm = Σ_n z_ln z⁺_mn / N (text under Table 1;
    the paper leaves standardization and 1/N to its reference).

    Args:
        z: Projections (C, N, D).
        eps: Added to the variance of a channel.

    Returns:
        Channels (C, D, N).

    Example:
        >>> z = torch.tensor([[[1.0, -5.0], [3.0, 5.0]]])  # one head, N = 2 images, D = 2
        >>> channels(z) @ channels(z).mT  # the correlations of the two channels
        tensor([[[1.0000, 1.0000],
                 [1.0000, 1.0000]]])
    """
    centered = z - z.mean(dim=1, keepdim=True)
    scale = torch.rsqrt(centered.square().mean(dim=1, keepdim=True) + eps)
    return (centered * scale).mT / math.sqrt(z.shape[1])


def cross_correlation(
    c_pos: torch.Tensor,
    tau_pos: torch.Tensor,
    c_neg: torch.Tensor,
    tau_neg: torch.Tensor,
    ignored: torch.Tensor | None,
    *,
    lam: float = 5e-3,
    beta: float = 0.0,
    prior_tau: Prior = 1.0,
    omega_reduction: OmegaReduction = "mean",
) -> torch.Tensor:
    """Return Eq. 2.3 for each row l of the correlation matrix and head, to be summed.

    An entry off the diagonal, λ𝒞²/τ − βΩ(τ), is the pair form of λ𝒞².

    Args:
        c_pos: Entries 𝒞_ll (C, L, 1) on the diagonal.
        tau_pos: Temperatures of these entries; broadcast to c_pos.
        c_neg: Rows 𝒞_lm (C, L, D).
        tau_neg: Temperatures of the entries of rows; broadcast to c_neg.
        ignored: (L, D), True where m = l; None where rows have no such entry.
        lam: Weight λ of entries off the diagonal.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω.
        omega_reduction: "mean" averages Ω over its entries. "sum" is the paper's: D = 2048 gives
            four million of them, which swamp the rest.

    Returns:
        The loss (C, L) of each row in each head.

    Example:
        >>> c = torch.tensor([[[1.0, 0.5], [0.5, 0.8]]])
        >>> diagonal = torch.eye(2, dtype=torch.bool)
        >>> one = torch.ones(1)
        >>> c_pos = c[:, diagonal].unsqueeze(-1)
        >>> cross_correlation(c_pos, one, c, one, diagonal, lam=0.1)  # (1 − 𝒞_ll)² + λ𝒞_lm²
        tensor([[0.0250, 0.0650]])
    """
    beta_pos, beta_neg = omega_weights(c_neg.shape[-1], beta, omega_reduction)
    loss = (1.0 - c_pos / tau_pos).square()
    if beta:
        loss = loss + beta_pos * omega(tau_pos, prior_tau)
    off_diagonal = pair_logit(lam * c_neg.square(), tau_neg, beta_neg, prior_tau)
    return loss.squeeze(-1) + row_sum(off_diagonal, ignored)


def omega_weights(dim: int, beta: float, reduction: OmegaReduction) -> tuple[float, float]:
    """Return β of each of the D entries of Ω⁺, and of each of the D(D − 1) of Ω⁻."""
    return (beta / dim, beta / (dim * (dim - 1))) if reduction == "mean" else (beta, beta)


def row_sum(entries: torch.Tensor, ignored: torch.Tensor | None) -> torch.Tensor:
    """Return the sum of each row without the ignored entries."""
    return (entries if ignored is None else entries.masked_fill(ignored, 0.0)).sum(-1)
