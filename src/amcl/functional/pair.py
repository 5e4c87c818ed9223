"""The pair form u = s/τ − β Ω(τ), from which every similarity loss is made."""

from typing import Any

import torch
from torch.autograd.function import once_differentiable


class _PairLogit(torch.autograd.Function):
    """u and its derivative in closed form: keeps s and τ alone, where autograd would keep five."""

    @staticmethod
    def forward(
        ctx: Any, s: torch.Tensor, tau: torch.Tensor, beta: float, prior_tau: float
    ) -> torch.Tensor:
        ctx.save_for_backward(s, tau)
        ctx.beta, ctx.prior_tau = beta, prior_tau
        u = (s - beta) / tau
        return u.sub_(tau.log(), alpha=beta / prior_tau) if beta else u

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None]:
        s, tau = ctx.saved_tensors
        grad_s = grad / tau
        grad_tau = None
        if ctx.needs_input_grad[1]:
            slope = ((ctx.beta - s) / tau).sub_(ctx.beta / ctx.prior_tau)
            grad_tau = slope.mul_(grad_s).sum_to_size(tau.shape)
        return grad_s.sum_to_size(s.shape), grad_tau, None, None


def pair_logit(
    s: torch.Tensor, tau: torch.Tensor, beta: float = 0.0, prior_tau: float = 1.0
) -> torch.Tensor:
    """u = s/τ − β Ω(τ) with Ω(τ) = (1/τ₀) log τ + 1/τ (Eq. 3 and 4, one pair and head).

    At β = 1 and τ₀ = 2/D it is the log of the Gaussian of Eq. 8 up to a constant. s and tau have
    shapes that broadcast together; β = 0 leaves s/τ, the logit of every contrastive loss. The
    derivative is written out (first order only), which halves the memory of a pair matrix.

    >>> pair_logit(torch.tensor([0.5]), torch.tensor([0.1]))
    tensor([5.])
    """
    return _PairLogit.apply(s, tau, beta, prior_tau)  # type: ignore[no-any-return]
