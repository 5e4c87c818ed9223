"""Temperatures of pairs by the rules of all schemes, and the regularizer Ω."""

import math
from typing import Any

import torch

from amcl.functional.first_order import first_order_only

Prior = float | torch.Tensor
"""A temperature of all heads, or one for each head, (C, 1, 1)."""


def sigma(r: torch.Tensor, eta: Prior, iota: Prior) -> torch.Tensor:
    """Return the pair-adaptive temperature τ = σ(r) = ι / (1 + exp(r)) + η (text under Eq. 3).

    It *decreases* in r: pairs that φ finds alike get a low temperature.

    Args:
        r: ⟨φ(z), φ(z')⟩ of any shape.
        eta: Lower bound η of τ; a tensor that broadcasts to r where heads have their own.
        iota: Width ι of the range of τ, as `eta`.

    Returns:
        τ in [η, η + ι], of the same shape.

    Example:
        >>> sigma(torch.tensor([-100.0, 0.0, 100.0]), eta=0.25, iota=1.0)
        tensor([1.2500, 0.7500, 0.2500])
    """
    return _Sigma.apply(r, eta, iota)  # type: ignore[no-any-return]


def omega(tau: torch.Tensor, prior_tau: Prior) -> torch.Tensor:
    """Return the regularizer Ω(τ) = (1/τ₀) log τ + 1/τ (Eq. 4), minimal at τ = τ₀ (`prior_tau`).

    The paper has D/2 in place of 1/τ₀, which is τ₀ = 2/D (`literal_prior_tau`): with D = 128 a
    belief in τ = 0.016, below any floor at which training is stable. Naming the minimum lets it
    be chosen.

    Args:
        tau: Temperatures of any shape.
        prior_tau: Minimum τ₀; a tensor that broadcasts with tau where heads have their own.

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


def alignment_tau(
    alignment: torch.Tensor, tau: float, alpha: float, baseline: float = 0.0
) -> torch.Tensor:
    """Return MACL's τ = τ₀ (1 + α (A − A₀)): it rises as positive pairs grow alike.

    (Huang et al., ICML 2023, arXiv 2207.07874.)

    Args:
        alignment: Mean cosine A of positive pairs, of any shape.
        tau: Temperature τ₀ at A = A₀.
        alpha: Strength α of the change, from 0 to 1.
        baseline: Alignment A₀.

    Returns:
        Temperatures of the same shape.

    Example:
        >>> alignment_tau(torch.tensor([0.0, 1.0]), tau=0.1, alpha=0.5)
        tensor([0.1000, 0.1500])
    """
    return tau * (1.0 + alpha * (alignment - baseline))


def similarity_tau(s: torch.Tensor, tau_min: float, tau_max: float) -> torch.Tensor:
    """Return DySTreSS's τ = τ_min + ½ (τ_max − τ_min)(1 + cos(π(1 + s))), least at s = 0.

    (Manna et al., 2025, arXiv 2308.01140.)

    Args:
        s: Similarities of any shape.
        tau_min: Temperature τ_min of pairs with s = 0.
        tau_max: Temperature τ_max of pairs with s = 1 or −1.

    Returns:
        Temperatures of the same shape.

    Example:
        >>> similarity_tau(torch.tensor([-1.0, 0.0, 0.5, 1.0]), tau_min=0.1, tau_max=0.2)
        tensor([0.2000, 0.1000, 0.1500, 0.2000])
    """
    return tau_min + 0.5 * (tau_max - tau_min) * (1.0 + torch.cos(math.pi * (1.0 + s)))


def artanh_tau(s: torch.Tensor, eps: float = 1e-4) -> torch.Tensor:
    """Return τ = s / (2 artanh s), with which s/τ is the logit 2 artanh(s) without temperature.

    (Kim and Kim, 2025, arXiv 2501.17683.) τ is ½ at s = 0 and falls to 0 at s = ±1; its gradient
    is part of that of the logit, so that it must reach s.

    Args:
        s: Similarities of any shape.
        eps: s is cut at ±(1 − eps), where the logit is ±9.9 for the default.

    Returns:
        Temperatures of the same shape.

    Example:
        >>> s = torch.tensor([0.0, 0.5, 0.9])
        >>> s / artanh_tau(s), torch.log((1 + s) / (1 - s))
        (tensor([0.0000, 1.0986, 2.9444]), tensor([0.0000, 1.0986, 2.9444]))
    """
    bounded = s.clamp(-1.0 + eps, 1.0 - eps)
    near_zero = bounded.abs() < 0.02
    # 0/0 at s = 0: there the first terms of the series, exact to 1e-14.
    square = bounded.square()
    series = 0.5 - square * (1.0 / 6.0 + square * (2.0 / 45.0 + square * (22.0 / 945.0)))
    away = torch.where(near_zero, 0.5, bounded)
    return torch.where(near_zero, series, away / (2.0 * torch.atanh(away)))


class _Sigma(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, r: torch.Tensor, eta: Prior, iota: Prior) -> torch.Tensor:
        share = r.neg().sigmoid_()
        ctx.save_for_backward(share)
        ctx.iota = iota
        return share.mul(iota).add_(eta)

    @staticmethod
    @first_order_only
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (share,) = ctx.saved_tensors
        return torch.ops.aten.sigmoid_backward(grad, share).mul_(-ctx.iota), None, None
