"""NT-Xent and InfoNCE over pairs with their own temperatures.

A form is a choice of negatives and a way to weigh them: all of them or the κ most similar of the
head; by softmax or by their plain mean.
"""

from typing import Literal

import torch
from torch.nn.functional import logsigmoid

from amcl.functional.pair import pair_logit, pair_logsumexp
from amcl.functional.temperature import Prior, omega

OmegaSet = Literal["mean", "literal"]
OmegaPlace = Literal["inside", "outside"]
Similarity = Literal["relative", "plain"]


def most_similar(s: torch.Tensor, kappa: int, ignored: torch.Tensor | None = None) -> torch.Tensor:
    """Return n*, the κ most similar candidates of each anchor, per head (TopMax-κ, §4.3).

    The paper drops the head from n*; each head has its own.

    Args:
        s: Similarities (C, N, M) of anchors and candidates.
        kappa: Number κ of candidates to choose, at most M.
        ignored: True for what is no candidate; broadcasts to s.

    Returns:
        Indices (C, N, κ) of candidates, in any order.

    Example:
        >>> s = torch.tensor([[[0.9, 0.1, 0.5]]])
        >>> most_similar(s, kappa=1)
        tensor([[[0]]])
        >>> most_similar(s, kappa=1, ignored=torch.tensor([True, False, False]))
        tensor([[[2]]])
    """
    with torch.no_grad():
        ranked = s if ignored is None else s.masked_fill(ignored, -torch.inf)
        return ranked.topk(kappa, dim=-1, sorted=False).indices


def negative_level(
    s_neg: torch.Tensor, prior_tau: Prior, ignored: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the level b of an anchor's hard negatives: the mean of s⁻ by softmax(4 s⁻/τ₀).

    The weights are those of InfoNCE at a quarter of τ₀, so that the hardest few set the level.

    A temperature that scales s − b instead of s cannot tell pairs apart where similarities do
    not: where an anchor's pairs have the same s, s − b is 0 and so are their logits, whatever
    their temperatures. With one τ for all pairs of an anchor, b cancels.

    Args:
        s_neg: Similarities (C, N, K) of anchors and negatives.
        prior_tau: Temperature τ₀.
        ignored: True for what is no negative; broadcasts to s_neg.

    Returns:
        Levels (C, N, 1).

    Example:
        >>> negative_level(torch.tensor([[[0.8, 0.0, -0.5]]]), prior_tau=0.1)
        tensor([[[0.8000]]])
    """
    logits = s_neg * (4.0 / prior_tau)
    if ignored is not None:
        logits = logits.masked_fill(ignored, -torch.inf)
    return (logits.softmax(-1) * s_neg).sum(-1, keepdim=True)


def let_positive_compete(
    s_pos: torch.Tensor, tau_pos: torch.Tensor, s_neg: torch.Tensor, tau_neg: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the κ most similar of κ negatives and the positive: n = 1 … N+1 in Eq. 2.4.

    Args:
        s_pos: Similarities (C, N, 1) of positive pairs.
        tau_pos: Temperatures of positive pairs; broadcast to s_pos.
        s_neg: Similarities (C, N, κ) of negative pairs.
        tau_neg: Temperatures of negative pairs; broadcast to s_neg.

    Returns:
        s and τ of the chosen pairs, and True for the positive, each (C, N, κ). The positive
        replaces the least similar negative or is not chosen.

    Example:
        >>> tau = torch.tensor([0.1])
        >>> s_neg = torch.tensor([[[0.5, 0.2]]])
        >>> s, _, is_positive = let_positive_compete(torch.tensor([[[0.9]]]), tau, s_neg, tau)
        >>> s, is_positive
        (tensor([[[0.5000, 0.9000]]]), tensor([[[False,  True]]]))
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
    positive_weight: torch.Tensor | None = None,
    beta: float = 0.0,
    prior_tau: Prior = 1.0,
    omega_place: OmegaPlace = "inside",
    omega_set: OmegaSet = "mean",
) -> torch.Tensor:
    """Return −w u⁺ + log Σ exp(u) over the denominator, with u = s/τ − β Ω(τ) of each pair.

    InfoNCE (Eq. 1.4 and 9) with the positive in the denominator, NT-Xent as published (Eq. 1.1, 6
    and 7) without, which is the decoupled contrastive loss, DCL (arXiv 2110.06848, Eq. 5). DCL with
    weights w of positives is DCLW (Eq. 6 there); w is 1 otherwise.

    Args:
        s_pos: Similarities (C, N, 1) of positive pairs.
        tau_pos: Temperatures of positive pairs; broadcast to s_pos.
        s_neg: Similarities (C, N, K) of negative pairs.
        tau_neg: Temperatures of negative pairs; broadcast to s_neg.
        ignored: True for what is no negative; broadcasts to s_neg.
        positive_in_denominator: True is InfoNCE, False NT-Xent as published, which is DCL.
        positive_weight: Weights w (C, N, 1) of positives in DCLW, such as `mises_fisher_weights`;
            only without the positive in the denominator.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω.
        omega_place: "inside" makes βΩ(τ) a part of each logit. "outside" is Eq. 3: the softmax of
            s/τ alone, then + β Ω(τ⁺) − β Ω({τ⁻}).
        omega_set: Ω of the set {τ⁻} outside the softmax, as in `omega_of_set`.

    Returns:
        The loss (C, N) of each anchor in each head.

    Example:
        >>> s_neg = torch.tensor([[[0.0, 0.5]]])
        >>> tau = torch.tensor([0.5])
        >>> softmax_contrast(torch.tensor([[[1.0]]]), tau, s_neg, tau)  # log(1 + e⁻² + e⁻¹)
        tensor([[0.4076]])
    """
    if positive_in_denominator and positive_weight is not None:
        raise ValueError(
            "weights of positives belong to the decoupled loss: use positive_in_denominator=False."
        )
    if omega_place == "outside" and beta:
        plain = softmax_contrast(
            *(s_pos, tau_pos, s_neg, tau_neg, ignored),
            positive_in_denominator=positive_in_denominator,
            positive_weight=positive_weight,
        )
        return plain + beta * omega_outside(tau_pos, tau_neg, s_neg, prior_tau, ignored, omega_set)
    u_pos = pair_logit(s_pos, tau_pos, beta, prior_tau)
    if positive_weight is not None:
        u_pos = positive_weight * u_pos
    u_neg = pair_logsumexp(s_neg, tau_neg, ignored, beta, prior_tau)
    return contrast_logits(u_pos.squeeze(-1), u_neg, positive_in_denominator)


def contrast_logits(
    u_pos: torch.Tensor, u_neg: torch.Tensor, positive_in_denominator: bool
) -> torch.Tensor:
    """Return the loss of logits u⁺ of positives and log-sums u⁻ of the negatives of each anchor."""
    if positive_in_denominator:
        return -logsigmoid(u_pos - u_neg)  # log(1 + exp(u⁻ − u⁺)), exact where u⁺ ≫ u⁻ too
    return u_neg - u_pos


def omega_outside(
    tau_pos: torch.Tensor,
    tau_neg: torch.Tensor,
    s_neg: torch.Tensor,
    prior_tau: Prior,
    ignored: torch.Tensor | None,
    omega_set: OmegaSet,
) -> torch.Tensor:
    """Return Ω(τ⁺) − Ω({τ⁻}) of each anchor, (C, N): what Eq. 3 adds to a loss of s/τ."""
    negatives = omega_of_set(tau_neg.expand_as(s_neg), prior_tau, ignored, omega_set)
    return omega(tau_pos, prior_tau).squeeze(-1) - negatives


def supervised_contrast(
    s: torch.Tensor,
    tau: torch.Tensor,
    positive: torch.Tensor,
    ignored: torch.Tensor | None = None,
    *,
    beta: float = 0.0,
    prior_tau: Prior = 1.0,
) -> torch.Tensor:
    """Return the mean over positives of −u + log Σ exp(u) over all pairs of an anchor.

    It is L_out of SupCon (arXiv 2004.11362, Eq. 2) with u = s/τ − β Ω(τ) for each pair, and with
    one positive it is `softmax_contrast`.

    Args:
        s: Similarities (C, N, M) of anchors and candidates.
        tau: Temperatures, which broadcast to s.
        positive: True for the positives of an anchor, at least one; broadcasts to s.
        ignored: True for what is no candidate of an anchor, such as the anchor itself; broadcasts
            to s.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω.

    Returns:
        The loss (C, N) of each anchor in each head.

    Example:
        >>> s = torch.tensor([[[1.0, 0.5, 0.0]]])
        >>> positive = torch.tensor([True, True, False])
        >>> supervised_contrast(s, torch.tensor([0.5]), positive)  # log(e² + e + 1) − (2 + 1)/2
        tensor([[0.9076]])
    """
    share = positive.to(s.dtype) / positive.sum(-1, keepdim=True)
    u = pair_logit(s, tau, beta, prior_tau)
    return pair_logsumexp(s, tau, ignored, beta, prior_tau) - (share * u).sum(-1)


def omega_of_set(
    tau: torch.Tensor,
    prior_tau: Prior,
    ignored: torch.Tensor | None = None,
    omega_set: OmegaSet = "mean",
) -> torch.Tensor:
    """Return Ω({τ⁻}) of the negatives of each anchor.

    Args:
        tau: Temperatures (C, N, K) of negative pairs.
        prior_tau: Minimum τ₀ of Ω; the literal form does not use it.
        ignored: True for what is no negative; broadcasts to tau.
        omega_set: "mean" is the mean of Ω, "literal" the paper's set form (under Eq. 5),
            log Π τ + Σ 1/τ, which lacks D/2.

    Returns:
        Ω of each set, (C, N).

    Example:
        >>> tau = torch.tensor([[[1.0, 1.0]]])
        >>> omega_of_set(tau, prior_tau=0.1), omega_of_set(tau, 0.1, omega_set="literal")
        (tensor([[1.]]), tensor([[2.]]))
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
    prior_tau: Prior = 1.0,
    omega_set: OmegaSet = "mean",
) -> torch.Tensor:
    """Return −u⁺ + (1/κ) Σ u over the κ chosen negatives (Eq. 2.1, 2.4 with TopMax-κ; max: κ = 1).

    Args:
        s_pos: Similarities (C, N, 1) of positive pairs.
        tau_pos: Temperatures of positive pairs; broadcast to s_pos.
        s_neg: Similarities (C, N, κ) of the chosen negative pairs.
        tau_neg: Temperatures of negative pairs; broadcast to s_neg.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω.
        omega_set: The regularizer of the chosen set: the "mean" of Ω, or the paper's sum without
            D/2 ("literal").

    Returns:
        The loss (C, N) of each anchor in each head.

    Example:
        >>> s_neg = torch.tensor([[[0.0, 0.5]]])
        >>> tau = torch.tensor([0.5])
        >>> mean_contrast(torch.tensor([[[1.0]]]), tau, s_neg, tau)  # −2 + (0 + 1)/2
        tensor([[-1.5000]])
    """
    u_pos = pair_logit(s_pos, tau_pos, beta, prior_tau).squeeze(-1)
    if omega_set == "literal":
        kappa = s_neg.shape[-1]
        return pair_logit(s_neg / kappa, tau_neg, beta, prior_tau=1.0).sum(-1) - u_pos
    return pair_logit(s_neg, tau_neg, beta, prior_tau).mean(-1) - u_pos
