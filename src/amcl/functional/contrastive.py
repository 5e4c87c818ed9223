"""NT-Xent and InfoNCE over pairs with their own temperatures.

A form is a choice of negatives and a way to weigh them: all of them or the κ most similar of the
head; by softmax or by their plain mean.
"""

from typing import Literal

import torch
from torch.nn.functional import logsigmoid

from amcl.functional.pair import pair_logit, pair_logsumexp
from amcl.functional.temperature import omega

OmegaSet = Literal["mean", "literal"]
OmegaPlace = Literal["inside", "outside"]
Similarity = Literal["relative", "plain"]


def most_similar(s: torch.Tensor, kappa: int, ignored: torch.Tensor | None = None) -> torch.Tensor:
    """Return n*, the κ most similar candidates of each anchor, per head (TopMax-κ, §4.3).

    s: (C, N, M); `ignored` (True for no candidate) broadcasts to it. Returns indices (C, N, κ).
    The paper drops the head from n*; each head has its own.
    """
    with torch.no_grad():
        ranked = s if ignored is None else s.masked_fill(ignored, -torch.inf)
        return ranked.topk(kappa, dim=-1, sorted=False).indices


def negative_level(
    s_neg: torch.Tensor, prior_tau: float, ignored: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the level b of an anchor's hard negatives: the mean of s⁻ by softmax(4 s⁻/τ₀).

    s_neg: (C, N, K); `ignored` (True for no negative) broadcasts to it. Returns (C, N, 1). The
    weights are those of InfoNCE at a quarter of τ₀, so that the hardest few set the level.

    A temperature that scales s − b instead of s cannot tell pairs apart where similarities do
    not: where an anchor's pairs have the same s, s − b is 0 and so are their logits, whatever
    their temperatures. With one τ for all pairs of an anchor, b cancels.
    """
    logits = s_neg * (4.0 / prior_tau)
    if ignored is not None:
        logits = logits.masked_fill(ignored, -torch.inf)
    return (logits.softmax(-1) * s_neg).sum(-1, keepdim=True)


def let_positive_compete(
    s_pos: torch.Tensor, tau_pos: torch.Tensor, s_neg: torch.Tensor, tau_neg: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the κ most similar of κ negatives and the positive: n = 1 … N+1 in Eq. 2.4.

    s_pos: (C, N, 1), s_neg: (C, N, κ). Returns s and τ of the chosen, and True for the positive,
    which replaces the least similar negative or is not chosen.
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
    omega_place: OmegaPlace = "inside",
    omega_set: OmegaSet = "mean",
) -> torch.Tensor:
    """Return −u⁺ + log Σ exp(u) over the denominator, with u = s/τ − β Ω(τ) of each pair.

    InfoNCE (Eq. 1.4 and 9) with the positive in the denominator, NT-Xent as published (Eq. 1.1, 6
    and 7) without. s_pos: (C, N, 1), s_neg: (C, N, K), the rest broadcasts. Returns (C, N).

    `omega_place="outside"` is Eq. 3: the softmax of s/τ alone, then + β Ω(τ⁺) − β Ω({τ⁻}), where Ω
    of the set is as in `omega_of_set`.
    """
    if omega_place == "outside" and beta:
        plain = softmax_contrast(
            s_pos, tau_pos, s_neg, tau_neg, ignored, positive_in_denominator=positive_in_denominator
        )
        negatives = omega_of_set(tau_neg.expand_as(s_neg), prior_tau, ignored, omega_set)
        return plain + beta * (omega(tau_pos, prior_tau).squeeze(-1) - negatives)
    u_pos = pair_logit(s_pos, tau_pos, beta, prior_tau).squeeze(-1)
    u_neg = pair_logsumexp(s_neg, tau_neg, ignored, beta, prior_tau)
    if positive_in_denominator:
        return -logsigmoid(u_pos - u_neg)  # log(1 + exp(u⁻ − u⁺)), exact where u⁺ ≫ u⁻ too
    return u_neg - u_pos


def omega_of_set(
    tau: torch.Tensor,
    prior_tau: float,
    ignored: torch.Tensor | None = None,
    omega_set: OmegaSet = "mean",
) -> torch.Tensor:
    """Return Ω({τ⁻}) of the negatives of each anchor. tau: (C, N, K). Returns (C, N).

    The mean of Ω, or the paper's set form (under Eq. 5), log Π τ + Σ 1/τ, which lacks D/2.
    """
    each = omega(tau, prior_tau if omega_set == "mean" else 1.0)
    weight = torch.ones_like(each) if ignored is None else (~ignored).to(each).expand_as(each)
    total = (each * weight).sum(-1)
    return total / weight.sum(-1) if omega_set == "mean" else total


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
    """Return −u⁺ + (1/κ) Σ u over the κ chosen negatives (Eq. 2.1, 2.4 with TopMax-κ; max: κ = 1).

    s_pos: (C, N, 1), s_neg: (C, N, κ), temperatures broadcast. Returns (C, N). `omega_set` is the
    regularizer of the chosen set: the mean of Ω, or the paper's sum without D/2.
    """
    u_pos = pair_logit(s_pos, tau_pos, beta, prior_tau).squeeze(-1)
    if omega_set == "literal":
        kappa = s_neg.shape[-1]
        return pair_logit(s_neg / kappa, tau_neg, beta, prior_tau=1.0).sum(-1) - u_pos
    return pair_logit(s_neg, tau_neg, beta, prior_tau).mean(-1) - u_pos
