"""Contrast of pairs one by one: the sigmoid loss of SigLIP."""

import torch
from torch.nn.functional import logsigmoid

from amcl.functional.contrastive import OmegaPlace, OmegaSet, omega_outside
from amcl.functional.pair import pair_logit
from amcl.functional.temperature import Prior


def sigmoid_contrast(
    s_pos: torch.Tensor,
    tau_pos: torch.Tensor,
    s_neg: torch.Tensor,
    tau_neg: torch.Tensor,
    ignored: torch.Tensor | None = None,
    *,
    bias: torch.Tensor,
    beta: float = 0.0,
    prior_tau: Prior = 1.0,
    omega_place: OmegaPlace = "inside",
    omega_set: OmegaSet = "mean",
) -> torch.Tensor:
    """Return −log sigmoid(u⁺ + b) − Σ log sigmoid(−(u⁻ + b)), with u = s/τ − β Ω(τ) of each pair.

    SigLIP (arXiv 2303.15343, Eq. 1): each pair is classified as positive or negative by itself.

    Args:
        s_pos: Similarities (C, N, 1) of positive pairs.
        tau_pos: Temperatures of positive pairs; broadcast to s_pos.
        s_neg: Similarities (C, N, K) of negative pairs.
        tau_neg: Temperatures of negative pairs; broadcast to s_neg.
        ignored: True for what is no negative; broadcasts to s_neg.
        bias: The bias b; broadcasts to s_pos.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω.
        omega_place: "inside" makes βΩ(τ) a part of each logit, "outside" is Eq. 3.
        omega_set: Ω of the set {τ⁻} outside the logarithms, as in `omega_of_set`.

    Returns:
        The loss (C, N) of each anchor in each head.

    Example:
        >>> tau, bias = torch.tensor([0.5]), torch.tensor(-1.0)
        >>> s_pos, s_neg = torch.tensor([[[1.0]]]), torch.tensor([[[0.0, 0.5]]])
        >>> sigmoid_contrast(s_pos, tau, s_neg, tau, bias=bias)  # logits 1, −1 and 0
        tensor([[1.3197]])
    """
    if omega_place == "outside" and beta:
        plain = sigmoid_contrast(s_pos, tau_pos, s_neg, tau_neg, ignored, bias=bias)
        return plain + beta * omega_outside(tau_pos, tau_neg, s_neg, prior_tau, ignored, omega_set)
    positive = -logsigmoid(pair_logit(s_pos, tau_pos, beta, prior_tau) + bias)
    negative = -logsigmoid(-pair_logit(s_neg, tau_neg, beta, prior_tau) - bias)
    if ignored is not None:
        negative = negative.masked_fill(ignored, 0.0)
    return positive.squeeze(-1) + negative.sum(-1)
