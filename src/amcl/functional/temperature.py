"""Temperatures of a pair, the regularizer Ω, and the two schedules the paper compares with."""

import math
from typing import Any

import torch

from amcl.functional.first_order import first_order_only


def sigma(r: torch.Tensor, eta: float, iota: float) -> torch.Tensor:
    """Return the pair-adaptive temperature τ = σ(r) = ι / (1 + exp(r)) + η (text under Eq. 3).

    It *decreases* in r: pairs that φ finds alike get a low temperature.

    Args:
        r: ⟨φ(z), φ(z')⟩ of any shape.
        eta: Lower bound η of τ.
        iota: Width ι of the range of τ.

    Returns:
        τ in [η, η + ι], of the same shape.

    Example:
        >>> sigma(torch.tensor([-100.0, 0.0, 100.0]), eta=0.25, iota=1.0)
        tensor([1.2500, 0.7500, 0.2500])
    """
    return _Sigma.apply(r, eta, iota)  # type: ignore[no-any-return]


def omega(tau: torch.Tensor, prior_tau: float) -> torch.Tensor:
    """Return the regularizer Ω(τ) = (1/τ₀) log τ + 1/τ (Eq. 4), minimal at τ = τ₀ (`prior_tau`).

    The paper has D/2 in place of 1/τ₀, which is τ₀ = 2/D (`literal_prior_tau`): with D = 128 a
    belief in τ = 0.016, below any floor at which training is stable. Naming the minimum lets it
    be chosen.

    Args:
        tau: Temperatures of any shape.
        prior_tau: Minimum τ₀.

    Returns:
        Ω of each temperature, of the same shape.

    Example:
        >>> omega(torch.tensor([0.25, 0.5, 1.0]), prior_tau=0.5)  # the least value is that of 0.5
        tensor([1.2274, 0.6137, 1.0000])
    """
    return tau.log() / prior_tau + tau.reciprocal()


def literal_prior_tau(dim: int) -> float:
    """Return the minimum of Ω as published in Eq. 4: τ₀ = 2/D.

    Args:
        dim: Width D of the projections.

    Returns:
        The temperature τ₀.

    Example:
        >>> literal_prior_tau(128)
        0.015625
    """
    return 2.0 / dim


def uncertainty_tau(score: torch.Tensor, scale: float) -> torch.Tensor:
    """Return TaU's τ_i = t / sigmoid(score_i), one temperature for each anchor, in (t, ∞).

    Scores are cut at −15, where τ is three million t: further out, float32 would make τ infinite
    and its gradient NaN.

    Args:
        score: An extra output of the projection head, of any shape.
        scale: The least temperature t.

    Returns:
        Temperatures of the same shape.

    Example:
        >>> uncertainty_tau(torch.tensor([0.0, 100.0]), scale=0.1)
        tensor([0.2000, 0.1000])
    """
    return scale / torch.sigmoid(score.clamp(min=-15.0))


def cosine_schedule_tau(
    epoch: torch.Tensor, tau_min: float, tau_max: float, period: float
) -> torch.Tensor:
    """Return TS's τ(e) = τ_min + ½ (τ_max − τ_min) (1 + cos(2πe/T)), with `period` T in epochs.

    Args:
        epoch: Epochs e since the start of training, of any shape; fractions count.
        tau_min: Least temperature τ_min.
        tau_max: Greatest temperature τ_max.
        period: Number T of epochs in which the temperature comes back.

    Returns:
        Temperatures of the same shape.

    Example:
        >>> cosine_schedule_tau(torch.tensor([0.0, 100.0, 200.0, 400.0]), 0.1, 1.0, 400)
        tensor([1.0000, 0.5500, 0.1000, 1.0000])
    """
    amplitude = 0.5 * (tau_max - tau_min)
    return tau_min + amplitude * (1.0 + torch.cos(2.0 * math.pi * epoch / period))


class _Sigma(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, r: torch.Tensor, eta: float, iota: float) -> torch.Tensor:
        share = r.neg().sigmoid_()
        ctx.save_for_backward(share)
        ctx.iota = iota
        return share.mul(iota).add_(eta)

    @staticmethod
    @first_order_only
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (share,) = ctx.saved_tensors
        return torch.ops.aten.sigmoid_backward(grad, share).mul_(-ctx.iota), None, None
