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

    There are no negatives: the scheme's positive branch gives τ.

    Args:
        num_heads: Number C of heads.
        temperature: Temperature scheme.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω, or "literal" for the paper's 2/D, or one for each head.
        head_reduction: "mean" over heads keeps the learning rate of one head, "sum" is the paper.
        head_diversity: Weight of the penalty on heads whose predictions agree, see `HeadLoss`.
        validate: Check the input for NaN, which waits for the device once a call.

    Example:
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
        head_diversity: float = 0.0,
        validate: bool = True,
    ) -> None:
        super().__init__(
            num_heads,
            temperature,
            beta=beta,
            prior_tau=prior_tau,
            head_reduction=head_reduction,
            head_diversity=head_diversity,
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
        """Compute the loss of two views.

        No gradient reaches the targets, but φ sees them and is trained through them.

        Args:
            z0: Predictions (C, N, D) from the first view.
            z1: Predictions (C, N, D) from the second view.
            h0: Targets of the first view: projections (N, D) of one shared projector (the paper,
                whose target has no head) or (C, N, D) of one for each head.
            h1: Targets of the second view.
            return_stats: Return statistics too.

        Returns:
            The loss, or the loss and its statistics.
        """
        with full_precision(z0):
            view0 = self._split("z0", z0)
            view1 = self._split("z1", z1)
            s0, tau0 = self._direction(view0, ("h1", h1), F.paired)
            s1, tau1 = self._direction(view1, ("h0", h0), F.paired)
            s = torch.cat([s0, s1], dim=1)
            tau = torch.cat([tau0, tau1], dim=1)
            prior_tau = self._prior_tau(h0.shape[-1], s)
            value = F.negative_cosine(s, tau, self.beta, prior_tau)
            loss = self._over_directions(value)
            stats = self._stats(s, tau, prior_tau) if return_stats else None
            return self._result(loss, stats, view0[0], view1[0])

    def pair_matrix(self, z0: torch.Tensor, z1: torch.Tensor) -> PairMatrix:
        """Return s and τ of each prediction with each target.

        The loss itself sees positive pairs alone: τ of the others is that of the positive branch.

        Args:
            z0: Predictions (C, N, D) from the first view.
            z1: Targets (N, D) or (C, N, D) of the second view.

        Returns:
            Similarities and temperatures, (C, N, N) each, and the bounds of τ.
        """
        with full_precision(z0):
            s, tau = self._direction(self._split("z0", z0), ("z1", z1), F.all_pairs)
            bounds = self.temperature.branch("positive").bounds()
            return PairMatrix(s, tau.expand_as(s), bounds, bounds)

    @torch.no_grad()
    def _stats(self, s: torch.Tensor, tau: torch.Tensor, prior_tau: F.Prior) -> LossStats:
        bounds = self.temperature.branch("positive").bounds()
        omega = self.beta * F.omega(tau, prior_tau).expand_as(s)
        terms = {
            "positive": self._over_directions(-0.5 * s / tau),
            "omega_positive": self._over_directions(omega),
        }
        return LossStats(PairStats.of(s, tau, None, bounds), None, terms)

    def _over_directions(self, value: torch.Tensor) -> torch.Tensor:
        """Reduce (C, 2N, 1) to a scalar: twice the mean of both directions is their sum."""
        return self._over_heads(2.0 * value.mean((1, 2)).sum())

    def _direction(
        self,
        prediction: tuple[torch.Tensor, torch.Tensor | None],
        target: tuple[str, torch.Tensor],
        pairing: Pairing,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return s and τ of predictions with targets: (C, N, ·) and (C or 1, N, ·), · as paired."""
        z, extra = prediction
        name = target[0]
        h = target[1].detach()
        shared = h.ndim == 2 or (h.ndim == 3 and h.shape[0] == 1)
        h = self._checked(name, h, 1 if shared else self.num_heads)
        same_items(z, h)
        scheme = self.temperature.branch("positive")
        scheme.observe(F.unit(z), F.unit(h))
        tau = scheme.tau(scheme.keys(z, extra), scheme.keys(h), pairing)
        return pairing(F.unit(z), F.unit(h)), tau
