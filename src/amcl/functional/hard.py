"""Contrast with hard negatives, corrected for negatives of the anchor's own class (HCL)."""

import math

import torch

from amcl.functional.contrastive import OmegaPlace, OmegaSet, contrast_logits, omega_outside
from amcl.functional.pair import pair_logit, pair_logsumexp
from amcl.functional.temperature import Prior


def hard_contrast(
    s_pos: torch.Tensor,
    tau_pos: torch.Tensor,
    s_neg: torch.Tensor,
    tau_neg: torch.Tensor,
    ignored: torch.Tensor | None = None,
    *,
    hard_beta: float = 1.0,
    debias: float = 0.1,
    positive_in_denominator: bool = True,
    beta: float = 0.0,
    prior_tau: Prior = 1.0,
    omega_place: OmegaPlace = "inside",
    omega_set: OmegaSet = "mean",
) -> torch.Tensor:
    """Return −log(exp(u⁺) / (exp(u⁺) + G)) of each anchor, where G stands for its K negatives.

    G = max((Σ w exp(u⁻) − t K exp(u⁺)) / (1 − t), Σ exp(u₋₁)), with weights w ∝ exp(h u⁻) of mean 1
    over the negatives. h = 0 is the debiased contrastive loss (arXiv 2007.00224), h > 0 that with
    hard negatives (arXiv 2010.04592), and h = t = 0 InfoNCE. As in the authors' code, the exponent
    is the logit, and the gradient flows through w. Their lower bound K exp(−1/τ) has one τ; here
    u₋₁ is the logit that each negative pair would have at s = −1, with its own τ. It is never
    reached if t = 0.

    Args:
        s_pos: Similarities (C, N, 1) of positive pairs.
        tau_pos: Temperatures of positive pairs; broadcast to s_pos.
        s_neg: Similarities (C, N, K) of negative pairs.
        tau_neg: Temperatures of negative pairs; broadcast to s_neg.
        ignored: True for what is no negative; broadcasts to s_neg.
        hard_beta: Concentration h on similar negatives (β in the paper).
        debias: Probability t that a negative is of the anchor's class (τ⁺ in the paper).
        positive_in_denominator: False leaves exp(u⁺) out of the denominator.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω.
        omega_place: "inside" makes βΩ(τ) a part of each logit, "outside" is Eq. 3.
        omega_set: Ω of the set {τ⁻} outside the logarithm, as in `omega_of_set`.

    Returns:
        The loss (C, N) of each anchor in each head.

    Example:
        >>> s_neg = torch.tensor([[[0.0, 0.5]]])
        >>> tau = torch.tensor([0.5])
        >>> one = torch.tensor([[[1.0]]])
        >>> hard_contrast(one, tau, s_neg, tau, hard_beta=0.0, debias=0.0)  # log(1 + e⁻² + e⁻¹)
        tensor([[0.4076]])
        >>> hard_contrast(one, tau, s_neg, tau, hard_beta=5.0, debias=0.0)  # near log(1 + 2 e⁻¹)
        tensor([[0.5496]])
    """
    if omega_place == "outside" and beta:
        plain = hard_contrast(
            *(s_pos, tau_pos, s_neg, tau_neg, ignored),
            hard_beta=hard_beta,
            debias=debias,
            positive_in_denominator=positive_in_denominator,
        )
        return plain + beta * omega_outside(tau_pos, tau_neg, s_neg, prior_tau, ignored, omega_set)
    u_pos = pair_logit(s_pos, tau_pos, beta, prior_tau).squeeze(-1)
    log_count = _log_count(s_neg, ignored)
    if hard_beta:  # h u is the pair form of h s with h β
        harder = 1.0 + hard_beta
        u_neg = (
            pair_logsumexp(harder * s_neg, tau_neg, ignored, harder * beta, prior_tau)
            - pair_logsumexp(hard_beta * s_neg, tau_neg, ignored, hard_beta * beta, prior_tau)
            + log_count
        )
    else:
        u_neg = pair_logsumexp(s_neg, tau_neg, ignored, beta, prior_tau)
    if debias:
        lowest = s_neg.new_tensor(-1.0).expand_as(s_neg)
        floor = pair_logsumexp(lowest, tau_neg, ignored, beta, prior_tau)
        u_neg = _without_share(u_neg, u_pos + log_count, debias, floor)
    return contrast_logits(u_pos, u_neg, positive_in_denominator)


def _log_count(s_neg: torch.Tensor, ignored: torch.Tensor | None) -> torch.Tensor:
    """Return log K of each anchor, which broadcasts to (C, N)."""
    if ignored is None:
        return s_neg.new_tensor(math.log(s_neg.shape[-1]))
    return (~ignored).to(s_neg).expand(*ignored.shape[:-1], s_neg.shape[-1]).sum(-1).log()


def _without_share(
    total: torch.Tensor, part: torch.Tensor, share: float, floor: torch.Tensor
) -> torch.Tensor:
    """Return log max((exp(total) − share·exp(part)) / (1 − share), exp(floor))."""
    difference = part + math.log(share) - total
    is_positive = difference < 0
    difference = difference.where(is_positive, -1.0)  # a finite gradient for what is not chosen
    rest = total + difference.expm1().neg().log() - math.log1p(-share)
    return torch.maximum(rest, floor).where(is_positive, floor)
