"""The symmetric negative cosine of SimSiam for C heads and any temperature scheme."""

import torch

from amcl import functional as F
from amcl.losses.base import (
    HeadLoss,
    HeadReduction,
    PairMatrix,
    PriorTau,
    full_precision,
    same_items,
)
from amcl.losses.statistics import LossStats, PairStats
from amcl.temperature import Temperature
from amcl.temperature.base import Pairing


class NegativeCosineLoss(HeadLoss):
    """Predict one view's projection from the other's, in C heads (Eq. 2.2: SimSiam).

    z0, z1: (C, N, D) of the C predictors. h0, h1: the projections they predict, (N, D) of one
    shared projector (the paper, whose target has no head) or (C, N, D) of one a head. No gradient
    reaches the targets, but φ sees them and is trained through them.

    Settings: see `HeadLoss`. There are no negatives: the scheme's positive branch gives τ.

    >>> from amcl.temperature import ConstantTemperature
    >>> z0, z1 = torch.randn(2, 3, 16, 32)
    >>> h0, h1 = torch.randn(2, 16, 32)
    >>> NegativeCosineLoss(3, ConstantTemperature(1.0))(z0, z1, h0, h1).shape
    torch.Size([])
    """

    def __init__(
        self,
        num_heads: int,
        temperature: Temperature,
        *,
        beta: float = 0.0,
        prior_tau: PriorTau = 1.0,
        head_reduction: HeadReduction = "mean",
        validate: bool = True,
    ) -> None:
        super().__init__(
            num_heads,
            temperature,
            beta=beta,
            prior_tau=prior_tau,
            head_reduction=head_reduction,
            validate=validate,
        )

    def forward(
        self,
        z0: torch.Tensor,
        z1: torch.Tensor,
        h0: torch.Tensor,
        h1: torch.Tensor,
        *,
        return_stats: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, LossStats]:
        """The loss of two views; with statistics on request."""
        with full_precision(z0):
            forth = self._direction(("z0", z0), ("h1", h1), F.paired)
            back = self._direction(("z1", z1), ("h0", h0), F.paired)
            s, tau = torch.cat([forth[0], back[0]], dim=1), torch.cat([forth[1], back[1]], dim=1)
            prior_tau = self._prior_tau(h0.shape[-1])
            value = F.negative_cosine(s, tau, self.beta, prior_tau)
            loss = self._over_directions(value)
            if not return_stats:
                return loss
            with torch.no_grad():
                bounds = self.temperature.branch("positive").bounds()
                omega = self.beta * F.omega(tau, prior_tau).expand_as(s)
                terms = {
                    "positive": self._over_directions(-0.5 * s / tau),
                    "omega_positive": self._over_directions(omega),
                }
                return loss, LossStats(PairStats.of(s, tau, None, bounds), None, terms)

    def pair_matrix(self, z0: torch.Tensor, z1: torch.Tensor) -> PairMatrix:
        """s and τ of each prediction z0 (C, N, D) with each target z1 (N, D) or (C, N, D).

        The loss itself sees positive pairs alone: the others are given the τ that the positive
        branch would give them.
        """
        with full_precision(z0):
            s, tau = self._direction(("z0", z0), ("z1", z1), F.all_pairs)
            bounds = self.temperature.branch("positive").bounds()
            return PairMatrix(s, tau.expand_as(s), bounds, bounds)

    def _over_directions(self, value: torch.Tensor) -> torch.Tensor:
        """(C, 2N, 1) → scalar. The list holds both directions: twice its mean is their sum."""
        return self._over_heads(2.0 * value.mean((1, 2)).sum())

    def _direction(
        self,
        prediction: tuple[str, torch.Tensor],
        target: tuple[str, torch.Tensor],
        pairing: Pairing,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """s and τ of predictions with targets: (C, N, ·) and (C or 1, N, ·), · as paired."""
        z, extra = self._split(*prediction)
        name, h = target[0], target[1].detach()
        shared = h.ndim == 2 or (h.ndim == 3 and h.shape[0] == 1)
        h = self._checked(name, h, 1 if shared else self.num_heads)
        same_items(z, h)
        scheme = self.temperature.branch("positive")
        tau = scheme.tau(scheme.keys(z, extra), scheme.keys(h), pairing)
        return pairing(F.unit(z), F.unit(h)), tau
