"""The contrastive loss with adaptive temperatures, as one thing to put in place of another loss."""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from amcl.losses.base import PriorTau, check_priors
from amcl.losses.contrastive import ContrastiveLoss
from amcl.temperature import AdaptiveTemperature, prior_inside, range_around

_TAU = 0.1  # default τ₀
_RENAMED = {
    "tau": "the temperature that pairs vary around is prior_tau",
    "temperature": "it always has an AdaptiveTemperature around prior_tau; for another scheme use "
    "ContrastiveLoss(num_heads, temperature)",
}


class AMCLLoss(ContrastiveLoss):
    """InfoNCE over C heads with a learned temperature for each pair in each head.

    It is a `ContrastiveLoss` with an `AdaptiveTemperature`, and replaces a contrastive loss in
    other code. φ is part of the loss: give `loss.parameters()` to the optimizer too. The range is
    what holds τ: Ω pulls pairs with s < β toward τ₀ and has no minimum inside the range for the
    others.

    Args:
        num_heads: Number C of heads.
        dim: Width D of the projections.
        eta: Lower bound η of τ; by default τ₀/2.
        iota: Width ι of the range of τ; by default τ₀, so that the upper bound is 3τ₀/2.
        lower: Lower bound of τ, with `upper` in place of `eta` and `iota`.
        upper: Upper bound of τ.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω; by default 0.1 if that is in the range, else its center. One
            for each head, such as (0.05, 0.1, 0.2), has heads at several scales, whose
            temperatures vary around them.
        settings: Settings of `AdaptiveTemperature` if they begin with `phi_`, else of
            `ContrastiveLoss`.

    Example:
        >>> import torch
        >>> z0, z1 = torch.randn(2, 3, 16, 128)
        >>> loss = AMCLLoss(num_heads=3, dim=128)(z0, z1)
        >>> loss.shape
        torch.Size([])
    """

    def __init__(
        self,
        num_heads: int = 3,
        dim: int = 128,
        *,
        eta: float | None = None,
        iota: float | None = None,
        lower: float | Sequence[float] | None = None,
        upper: float | Sequence[float] | None = None,
        beta: float = 0.1,
        prior_tau: PriorTau | None = None,
        **settings: Any,
    ) -> None:
        _check_names(settings)
        if isinstance(prior_tau, Sequence) and not isinstance(prior_tau, str):
            if not (eta is iota is lower is upper is None):
                raise ValueError(
                    f"prior_tau={tuple(prior_tau)} gives each head a range of its own, half of its "
                    "τ₀ to either side: leave out eta, iota, lower and upper."
                )
            check_priors(prior_tau, num_heads)
            ranges = [range_around(each, dim) for each in prior_tau]
            lower = tuple(lowest for lowest, _ in ranges)
            upper = tuple(highest for _, highest in ranges)
        elif lower is upper is None:
            lowest, highest = range_around(_TAU if prior_tau is None else prior_tau, dim)
            eta = lowest if eta is None else eta
            iota = round(highest - lowest, 12) if iota is None else iota
        phi_settings = {
            name: settings.pop(name) for name in tuple(settings) if name.startswith("phi_")
        }
        temperature = AdaptiveTemperature(
            dim, eta=eta, iota=iota, lower=lower, upper=upper, **phi_settings
        )
        bounds = temperature.eta, temperature.eta + temperature.iota
        if prior_tau is None:
            prior_tau = prior_inside(_TAU, *bounds)
        elif isinstance(prior_tau, float | int) and not bounds[0] < prior_tau < bounds[1]:
            raise ValueError(
                f"prior_tau={prior_tau} lies outside the range of τ, {bounds[0]:.4g} to "
                f"{bounds[1]:.4g}: choose one inside, or leave it out."
            )
        super().__init__(num_heads, temperature, beta=beta, prior_tau=prior_tau, **settings)


def _check_names(settings: Mapping[str, object]) -> None:
    """Raise an error that lists the settings of `AMCLLoss` if one of these names is none."""
    accepted = {
        name
        for cls in (AMCLLoss, ContrastiveLoss, AdaptiveTemperature)
        for name in signature(cls).parameters
    } - {"settings", "temperature"}
    for name in settings:
        if name not in accepted:
            hint = _RENAMED.get(name) or f"accepted are {', '.join(sorted(accepted))}"
            raise TypeError(f"AMCLLoss has no setting {name!r}: {hint}.")
