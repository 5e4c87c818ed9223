"""The pair form u = s/τ − β Ω(τ), from which every similarity loss is made.

Value and derivative are written out once, in closed form, and shared by two operations: u itself,
and its log-sum-exp over candidates. Pair matrices take most of the time and memory of these losses;
autograd would keep twice as many of them.
"""

from typing import Any

import torch

from amcl.functional.first_order import first_order_only
from amcl.functional.temperature import Prior

_Gradients = tuple[torch.Tensor | None, ...]


def pair_logit(
    s: torch.Tensor, tau: torch.Tensor, beta: float = 0.0, prior_tau: Prior = 1.0
) -> torch.Tensor:
    """Return u = s/τ − β Ω(τ) with Ω(τ) = (1/τ₀) log τ + 1/τ (Eq. 3 and 4, one pair and head).

    At β = 1 and τ₀ = 2/D it is the log of the Gaussian of Eq. 8 up to a constant. β = 0 leaves
    s/τ, the logit of every contrastive loss. Differentiable once.

    Args:
        s: Similarities of any shape.
        tau: Temperatures, which broadcast together with s.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω; a tensor that broadcasts to s where heads have their own.

    Returns:
        Logits u, in the shape that s and tau broadcast to.

    Example:
        >>> pair_logit(torch.tensor([0.5]), torch.tensor([0.1]))
        tensor([5.])
    """
    return _PairLogit.apply(s, tau, beta, prior_tau)  # type: ignore[no-any-return]


def pair_logsumexp(
    s: torch.Tensor,
    tau: torch.Tensor,
    ignored: torch.Tensor | None = None,
    beta: float = 0.0,
    prior_tau: Prior = 1.0,
) -> torch.Tensor:
    """Return log Σ exp(u) over the last dimension, without `ignored` pairs (Eq. 6, 7, 9).

    Differentiable once.

    Args:
        s: Similarities (…, M).
        tau: Temperatures, which broadcast to (…, M).
        ignored: True for pairs that do not count; broadcasts to (…, M).
        beta: Weight β of Ω in u.
        prior_tau: Minimum τ₀ of Ω, as in `pair_logit`.

    Returns:
        One value for each anchor, (…).

    Example:
        >>> pair_logsumexp(torch.tensor([0.1, 0.1]), torch.tensor([0.1]))  # 1 + log 2
        tensor(1.6931)
    """
    return _PairLogSumExp.apply(s, tau, ignored, beta, prior_tau)  # type: ignore[no-any-return]


def _value(s: torch.Tensor, tau: torch.Tensor, beta: float, prior_tau: Prior) -> torch.Tensor:
    if not beta:
        return s / tau
    u = (s - beta) / tau
    if isinstance(prior_tau, torch.Tensor):
        return u.sub_(tau.log() * (beta / prior_tau))
    return u.sub_(tau.log(), alpha=beta / prior_tau)


def _grad_tau(
    grad_s: torch.Tensor, s: torch.Tensor, tau: torch.Tensor, beta: float, prior_tau: Prior
) -> torch.Tensor:
    """Return the gradient of τ from that of s: ∂u/∂s = 1/τ and ∂u/∂τ = ((β − s)/τ − β/τ₀)/τ."""
    slope = ((beta - s) / tau).sub_(beta / prior_tau)
    return slope.mul_(grad_s).sum_to_size(tau.shape)


class _PairLogit(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, s: torch.Tensor, tau: torch.Tensor, beta: float, prior_tau: Prior
    ) -> torch.Tensor:
        ctx.save_for_backward(s, tau)
        ctx.omega = (beta, prior_tau)
        return _value(s, tau, beta, prior_tau)

    @staticmethod
    @first_order_only
    def backward(ctx: Any, grad: torch.Tensor) -> _Gradients:
        s, tau = ctx.saved_tensors
        grad_s = grad / tau
        grad_tau = _grad_tau(grad_s, s, tau, *ctx.omega) if ctx.needs_input_grad[1] else None
        return grad_s.sum_to_size(s.shape), grad_tau, None, None


class _PairLogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        s: torch.Tensor,
        tau: torch.Tensor,
        ignored: torch.Tensor | None,
        beta: float,
        prior_tau: Prior,
    ) -> torch.Tensor:
        u = _value(s, tau, beta, prior_tau)
        if ignored is not None:
            u.masked_fill_(ignored, -torch.inf)
        largest = u.amax(-1, keepdim=True)
        weights = u.sub_(largest).exp_()
        total = weights.sum(-1, keepdim=True)
        ctx.save_for_backward(s, tau, weights.div_(total))
        ctx.omega = (beta, prior_tau)
        return (largest + total.log()).squeeze(-1)

    @staticmethod
    @first_order_only
    def backward(ctx: Any, grad: torch.Tensor) -> _Gradients:
        s, tau, weights = ctx.saved_tensors
        grad_s = (weights * grad.unsqueeze(-1)).div_(tau)
        grad_tau = _grad_tau(grad_s, s, tau, *ctx.omega) if ctx.needs_input_grad[1] else None
        return grad_s.sum_to_size(s.shape), grad_tau, None, None, None
