"""The loss of VICReg for C heads and any temperature scheme."""

from typing import NamedTuple

import torch

from amcl import functional as F
from amcl.distributed import gather
from amcl.losses.base import (
    HeadLoss,
    HeadReduction,
    PairMatrix,
    PriorTau,
    full_precision,
    same_items,
)
from amcl.losses.statistics import LossStats, PairStats
from amcl.settings import non_negative
from amcl.temperature import Temperature
from amcl.temperature.base import Pairing


class _Views(NamedTuple):
    """Two views less the mean of both, here and of all processes, and τ of their pairs."""

    z0: torch.Tensor  # (C, N, D)
    z1: torch.Tensor  # (C, N, D)
    of_all_ranks: list[torch.Tensor]  # (C, W·N, D) each
    tau: torch.Tensor  # broadcasts to (C, N, ·), · as paired


class VICRegLoss(HeadLoss):
    """Pull two views together and keep channels varied and uncorrelated, in C heads (VICReg).

    The loss of a head is λ times the invariance of both views, plus µ times the mean variance hinge
    of the views, plus ν times the sum of their covariance terms (arXiv 2105.04906, with the factors
    of its code). Over several processes variances and covariances are those of the whole batch.

    A pair of views has a temperature, from the scheme's positive branch: its squared distance is
    the exponent of the Gaussian in Eq. 8, so that the invariance of an image is d/τ + β Ω(τ)
    (`functional.invariance`). Variance and covariance are not made of pairs and have none. τ = 1
    and β = 0 is VICReg. τ that is learned needs β > 0: without Ω, the higher τ, the lower the loss.
    The loss of VICReg is the same wherever the mean of all projections lies; so that temperatures
    are the same too, they are computed from projections less that mean.

    Args:
        num_heads: Number C of heads.
        temperature: Temperature scheme. One that depends on the anchor takes the first view for it.
        invariance_weight: Weight λ of the invariance.
        variance_weight: Weight µ of the variance.
        covariance_weight: Weight ν of the covariance.
        beta: Weight β of Ω, inside the invariance of each pair.
        prior_tau: Minimum τ₀ of Ω, or "literal" for the paper's 2/D.
        head_reduction: "mean" over heads keeps the learning rate of one head, "sum" is the paper.
        head_diversity: Weight of the penalty on heads that agree, see `HeadLoss`.
        validate: Check the input for NaN, which waits for the device once a call.

    Example:
        >>> from amcl.temperature import ConstantTemperature
        >>> z0, z1 = torch.randn(2, 3, 16, 32)
        >>> _, stats = VICRegLoss(3, ConstantTemperature(1.0))(z0, z1, return_stats=True)
        >>> sorted(stats.terms)
        ['covariance', 'invariance', 'omega_positive', 'variance']
    """

    def __init__(
        self,
        num_heads: int,
        temperature: Temperature,
        *,
        invariance_weight: float = 25.0,
        variance_weight: float = 25.0,
        covariance_weight: float = 1.0,
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
        off = "0 leaves the term out"
        self.invariance_weight = non_negative("invariance_weight", invariance_weight, off)
        self.variance_weight = non_negative("variance_weight", variance_weight, off)
        self.covariance_weight = non_negative("covariance_weight", covariance_weight, off)

    def forward(
        self, z0: torch.Tensor, z1: torch.Tensor, *, return_stats: bool = False
    ) -> torch.Tensor | tuple[torch.Tensor, LossStats]:
        """Compute the loss of two views.

        Args:
            z0: Projections (C, N, D) of the first view.
            z1: Projections (C, N, D) of the second view.
            return_stats: Return statistics too.

        Returns:
            The loss, or the loss and its statistics.
        """
        with full_precision(z0):
            z0, z1, views, tau = self._views(z0, z1, F.paired)
            if views[0].shape[1] < 2:
                raise ValueError("variances need at least 2 images, got 1: enlarge the batch.")
            prior_tau = self._prior_tau(z0.shape[-1], z0)
            invariance = F.invariance(z0, z1, tau, self.beta, prior_tau)
            variance = torch.stack([F.variance_hinge(view) for view in views]).mean(0)
            covariance = torch.stack([F.covariance(view) for view in views]).sum(0)
            terms = {
                "invariance": self.invariance_weight * self._over_images(invariance),
                "variance": self.variance_weight * self._over_heads(variance.sum()),
                "covariance": self.covariance_weight * self._over_heads(covariance.sum()),
            }
            loss = torch.stack(list(terms.values())).sum()
            if not return_stats:
                return self._result(loss, None, z0, z1)
            with torch.no_grad():
                omega = self.beta * F.omega(tau, prior_tau).expand_as(invariance)
                terms["omega_positive"] = self.invariance_weight * self._over_images(omega)
                terms["invariance"] = terms["invariance"] - terms["omega_positive"]
                terms = {name: term.detach() for name, term in terms.items()}
                s = F.paired(F.unit(z0), F.unit(z1))
                bounds = self.temperature.branch("positive").bounds()
                stats = LossStats(PairStats.of(s, tau, None, bounds), None, terms)
            return self._result(loss, stats, z0, z1)

    def pair_matrix(self, z0: torch.Tensor, z1: torch.Tensor) -> PairMatrix:
        """Return cosines and τ of each image of the first view with each of the second.

        Projections are taken from the mean of both views, as they are for temperatures. The loss
        itself sees positive pairs alone, by their squared distances: τ of the others is that of the
        positive branch.

        Args:
            z0: Projections (C, N, D) of the first view.
            z1: Projections (C, N, D) of the second view.

        Returns:
            Cosines and temperatures, (C, N, N) each, and the bounds of τ.
        """
        with full_precision(z0):
            z0, z1, _, tau = self._views(z0, z1, F.all_pairs)
            s = F.all_pairs(F.unit(z0), F.unit(z1))
            bounds = self.temperature.branch("positive").bounds()
            return PairMatrix(s, tau.expand_as(s), bounds, bounds)

    def extra_repr(self) -> str:
        weights = self.invariance_weight, self.variance_weight, self.covariance_weight
        return f"{super().extra_repr()}, weights={weights}"

    def _over_images(self, value: torch.Tensor) -> torch.Tensor:
        """Reduce (C, N, 1) to a scalar."""
        return self._over_heads(value.mean((1, 2)).sum())

    def _views(self, z0: torch.Tensor, z1: torch.Tensor, pairing: Pairing) -> _Views:
        z0, extra0 = self._split("z0", z0)
        z1, extra1 = self._split("z1", z1)
        same_items(z0, z1)
        views = [gather(z0), gather(z1, check=False)]
        mean = torch.cat(views, dim=1).mean(1, keepdim=True)
        z0 = z0 - mean
        z1 = z1 - mean
        scheme = self.temperature.branch("positive")
        scheme.observe(F.unit(z0), F.unit(z1))
        tau = scheme.tau(scheme.keys(z0, extra0), scheme.keys(z1, extra1), pairing)
        return _Views(z0, z1, [view - mean for view in views], tau)
