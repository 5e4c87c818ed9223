"""The cross-correlation loss of Barlow Twins with a temperature for each pair of channels."""

import math
from typing import Literal

import torch

from amcl.functional.temperature import omega

OmegaReduction = Literal["mean", "sum"]


def channels(z: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """The channels of a batch as items: standardised over the batch and divided by √N.

    z: (C, N, D). Returns (C, D, N), whose dot products are correlations: 𝒞_lm = Σ_n z_ln z⁺_mn / N
    (text under Table 1; the print leaves standardisation and 1/N to its reference).
    """
    centred = z - z.mean(dim=1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(dim=1, keepdim=True) + eps)
    return (centred * scale).mT / math.sqrt(z.shape[1])


def cross_correlation(
    c_pos: torch.Tensor,
    tau_pos: torch.Tensor,
    c_neg: torch.Tensor,
    tau_neg: torch.Tensor,
    ignored: torch.Tensor | None,
    *,
    lam: float = 5e-3,
    beta: float = 0.0,
    prior_tau: float = 1.0,
    omega_reduction: OmegaReduction = "mean",
) -> dict[str, torch.Tensor]:
    """The terms of Eq. 2.3, one value for each row l of the correlation matrix and head.

    c_pos: 𝒞_ll (C, L, 1), c_neg: rows 𝒞_lm (C, L, D), temperatures broadcast to them, ignored:
    (L, D) True where m = l. The loss is the sum over all terms and rows. Ω is averaged over its
    entries by default: as the print's sum, D = 2048 gives four million of them, which swamp the
    rest. λ is `lam`.
    """
    dim = c_neg.shape[-1]
    terms = {
        "positive": (1.0 - c_pos / tau_pos).square().squeeze(-1),
        "negative": lam * _row_sum(c_neg.square() / tau_neg, ignored),
    }
    if beta:
        pos_entries, neg_entries = (dim, dim * (dim - 1)) if omega_reduction == "mean" else (1, 1)
        omega_pos = omega(tau_pos, prior_tau).expand_as(c_pos).squeeze(-1)
        omega_neg = _row_sum(omega(tau_neg, prior_tau).expand_as(c_neg), ignored)
        terms["omega_positive"] = beta * omega_pos / pos_entries
        terms["omega_negative"] = -beta * omega_neg / neg_entries
    return terms


def _row_sum(entries: torch.Tensor, ignored: torch.Tensor | None) -> torch.Tensor:
    return (entries if ignored is None else entries.masked_fill(ignored, 0.0)).sum(-1)
