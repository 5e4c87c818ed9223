"""NT-Xent and InfoNCE over pairs with their own temperatures.

A form is a choice of negatives and a way to weigh them: all of them or the κ most similar of the
head; by softmax or by their plain mean.
"""

from typing import Literal

import torch
from torch.nn.functional import logsigmoid

from amcl.functional.pair import pair_logit, pair_logsumexp

OmegaSet = Literal["mean", "literal"]


def most_similar(s: torch.Tensor, kappa: int, ignored: torch.Tensor | None = None) -> torch.Tensor:
    """n*: the κ most similar candidates of each anchor, per head (TopMax-κ, §4.3).

    s: (C, N, M); `ignored` (True for no candidate) broadcasts to it. Returns indices (C, N, κ).
    The print drops the head from n*; each head has its own.
    """
    with torch.no_grad():
        ranked = s if ignored is None else s.masked_fill(ignored, -torch.inf)
        return ranked.topk(kappa, dim=-1, sorted=False).indices


def let_positive_compete(
    s_pos: torch.Tensor, tau_pos: torch.Tensor, s_neg: torch.Tensor, tau_neg: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The κ most similar of κ negatives and the positive: n = 1 … N+1 in Eq. 2.4.

    s_pos: (C, N, 1), s_neg: (C, N, κ). Returns s and τ of the chosen, and where the positive
    stands, which is in the place of the least similar negative or nowhere.
    """
    with torch.no_grad():
        least = s_neg.min(dim=-1, keepdim=True)
        is_positive = torch.zeros_like(s_neg, dtype=torch.bool)
        is_positive.scatter_(-1, least.indices, s_pos > least.values)
    s = torch.where(is_positive, s_pos, s_neg)
    return s, torch.where(is_positive, tau_pos, tau_neg), is_positive


def softmax_contrast(
    s_pos: torch.Tensor,
    tau_pos: torch.Tensor,
    s_neg: torch.Tensor,
    tau_neg: torch.Tensor,
    ignored: torch.Tensor | None = None,
    *,
    positive_in_denominator: bool = True,
    beta: float = 0.0,
    prior_tau: float = 1.0,
) -> torch.Tensor:
    """−u⁺ + log Σ exp(u) over the denominator, with u = s/τ − β Ω(τ) of each pair.

    InfoNCE (Eq. 1.4 and 9) with the positive in the denominator, NT-Xent as printed (Eq. 1.1, 6
    and 7) without. s_pos: (C, N, 1), s_neg: (C, N, K), the rest broadcasts. Returns (C, N).
    """
    u_pos = pair_logit(s_pos, tau_pos, beta, prior_tau).squeeze(-1)
    u_neg = pair_logsumexp(s_neg, tau_neg, ignored, beta, prior_tau)
    if positive_in_denominator:
        return -logsigmoid(u_pos - u_neg)  # log(1 + exp(u⁻ − u⁺)), exact where u⁺ ≫ u⁻ too
    return u_neg - u_pos


def mean_contrast(
    s_pos: torch.Tensor,
    tau_pos: torch.Tensor,
    s_neg: torch.Tensor,
    tau_neg: torch.Tensor,
    *,
    beta: float = 0.0,
    prior_tau: float = 1.0,
    omega_set: OmegaSet = "mean",
) -> torch.Tensor:
    """−u⁺ + (1/κ) Σ u over the κ chosen negatives (Eq. 2.1 and 2.4 with TopMax-κ; max is κ = 1).

    s_pos: (C, N, 1), s_neg: (C, N, κ), temperatures broadcast. Returns (C, N). `omega_set` is the
    regulariser of the chosen set: the mean of Ω, or the print's sum without D/2.
    """
    u_pos = pair_logit(s_pos, tau_pos, beta, prior_tau).squeeze(-1)
    if omega_set == "literal":
        kappa = s_neg.shape[-1]
        return pair_logit(s_neg / kappa, tau_neg, beta, prior_tau=1.0).sum(-1) - u_pos
    return pair_logit(s_neg, tau_neg, beta, prior_tau).mean(-1) - u_pos
