"""The cross-correlation loss of Barlow Twins for C heads and any temperature scheme."""

import warnings
from typing import ClassVar, Literal

import torch

from amcl import functional as F
from amcl.distributed import gather
from amcl.functional.cross_correlation import omega_weights, row_sum
from amcl.losses.base import HeadReduction, PairMatrix, PriorTau, full_precision, same_items
from amcl.losses.pair_loss import PairLoss
from amcl.losses.pairs import Compared, Items, Pairs
from amcl.losses.statistics import LossStats
from amcl.settings import choose, non_negative
from amcl.temperature import Temperature

Projections = tuple[torch.Tensor, torch.Tensor | None]  # and extra outputs of the temperature

_LOW = 0.5  # temperatures below this train channels not to correlate


class CrossCorrelationLoss(PairLoss):
    """Decorrelate the channels of two views in C heads (Eq. 2.3: Barlow Twins).

    The items compared are channels: 𝒞_ll are the positive pairs, 𝒞_lm the negative ones, and each
    has its temperature. Over several processes the correlations are those of the whole batch.

    (1 − 𝒞_ll/τ)² is zero at τ = 𝒞_ll, so the range of τ should be around 1 and well above 0: for
    example `AdaptiveTemperature(dim, lower=0.5, upper=1.5, phi_scale=1.0)`. With φ on samples r is
    ρ times a correlation, so τ reaches only the middle 46 % of that range (0.77 to 1.23) at ρ = 1,
    as statistics account for.

    Args:
        num_heads: Number C of heads.
        temperature: Temperature scheme.
        lam: Weight λ of the off-diagonal part.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω, or "literal" for the paper's 2/D, or one for each head.
        omega_reduction: "mean" over the entries of each Ω, or the paper's "sum".
        phi_on: "samples" (φ on each image's D-vector, its channels then correlated over the batch)
            or "channels" (the paper: φ on the N values of a channel, made with dim = N).
        standardize: Standardize channels over the batch and divide 𝒞 by N, as in Barlow Twins;
            False is 𝒞_lm = Σ z_ln z⁺_mn as published, of which φ on channels then reads the raw
            values (with ``phi_input="raw"``).
        head_reduction: "mean" over heads keeps the learning rate of one head, "sum" is the paper.
        head_diversity: Weight of the penalty on heads that agree, see `HeadLoss`.
        max_pairs: Greatest number of pairs in memory at a time, see `PairLoss`.
        validate: Check the input for NaN, which waits for the device once a call.

    Example:
        >>> from amcl.temperature import ConstantTemperature
        >>> z0, z1 = torch.randn(2, 3, 16, 32)
        >>> CrossCorrelationLoss(3, ConstantTemperature(1.0))(z0, z1).shape
        torch.Size([])
    """

    items: ClassVar[Literal["images", "channels"]] = "channels"

    def __init__(
        self,
        num_heads: int,
        temperature: Temperature,
        *,
        lam: float = 5e-3,
        beta: float = 0.0,
        prior_tau: PriorTau = 1.0,
        omega_reduction: F.OmegaReduction = "mean",
        phi_on: Literal["samples", "channels"] = "samples",
        standardize: bool = True,
        head_reduction: HeadReduction = "mean",
        head_diversity: float = 0.0,
        max_pairs: int | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__(
            num_heads,
            temperature,
            max_pairs=max_pairs,
            beta=beta,
            prior_tau=prior_tau,
            head_reduction=head_reduction,
            head_diversity=head_diversity,
            validate=validate,
        )
        choose("omega_reduction", omega_reduction, ("mean", "sum"))
        choose("phi_on", phi_on, ("samples", "channels"))
        non_negative("lam", lam, "λ weighs the off-diagonal part, usually 0.005")
        self.lam = float(lam)
        self.omega_reduction = omega_reduction
        self.phi_on = phi_on
        self.standardize = standardize
        bounds = self._bounds(temperature.branch("positive"))
        if bounds is not None and bounds[1] < _LOW:
            warnings.warn(
                f"τ⁺ of at most {bounds[1]:.3g} is the correlation that each channel is trained "
                "toward, so that perfectly correlated views cost much. Choose a range around 1, as "
                "in AdaptiveTemperature(dim, lower=0.5, upper=1.5, phi_scale=1.0).",
                stacklevel=2,
            )

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
            view0 = self._split("z0", z0)
            view1 = self._split("z1", z1)
            rows, columns = self._channels(view0, view1)
            dim = rows.vectors.shape[1]
            diagonal = torch.arange(dim, device=z0.device).unsqueeze(1)
            pairs = Pairs(rows, columns.as_positives(), columns.as_candidates(), ignore=diagonal)
            prior_tau = self._prior_tau(dim, rows.vectors)
            total, stats = self._sum_over_blocks(pairs, prior_tau, return_stats)
            if stats is not None:
                stats = stats.reduce_terms(lambda term: self._over_heads(term.sum()))
            return self._result(self._over_heads(total), stats, view0[0], view1[0])

    def pair_matrix(self, z0: torch.Tensor, z1: torch.Tensor) -> PairMatrix:
        """Return correlations 𝒞_lm and τ_lm of the channels of two views.

        Args:
            z0: Projections (C, N, D) of the first view.
            z1: Projections (C, N, D) of the second view.

        Returns:
            Correlations and temperatures, (C, D, D) each, and the bounds of τ.
        """
        with full_precision(z0):
            return self._matrix(*self._channels(self._split("z0", z0), self._split("z1", z1)))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, lam={self.lam:.4g}, phi_on={self.phi_on!r}"

    def _bounds(self, scheme: Temperature) -> tuple[float, float] | None:
        return scheme.channel_bounds(literal=self.phi_on == "channels")

    def _channels(self, view0: Projections, view1: Projections) -> tuple[Items, Items]:
        """Return the channels of both views, over the whole batch of all processes."""
        same_items(view0[0], view1[0])
        views = [_gathered(*view) for view in (view0, view1)]
        vectors = [F.channels(z) if self.standardize else z.mT for z, _ in views]
        self.temperature.observe(vectors[0], vectors[1], shared=True)
        rows, columns = (
            self._view(z, extra, each) for (z, extra), each in zip(views, vectors, strict=True)
        )
        return rows, columns

    def _view(self, z: torch.Tensor, extra: torch.Tensor | None, vectors: torch.Tensor) -> Items:
        channels = vectors if self.phi_on == "channels" else None
        return self._items(vectors, lambda scheme: scheme.channel_keys(z, extra, channels=channels))

    def _contrast(self, pairs: Compared, prior_tau: F.Prior) -> tuple[torch.Tensor, Compared]:
        loss = F.cross_correlation(
            *pairs[:5],
            lam=self.lam,
            beta=self.beta,
            prior_tau=prior_tau,
            omega_reduction=self.omega_reduction,
        )
        return loss, pairs

    def _terms(
        self, loss: torch.Tensor, pairs: Compared, prior_tau: F.Prior
    ) -> dict[str, torch.Tensor]:
        off_diagonal = pairs.s_neg.square() / pairs.tau_neg
        terms = {
            "positive": (1.0 - pairs.s_pos / pairs.tau_pos).square().squeeze(-1),
            "negative": self.lam * row_sum(off_diagonal, pairs.ignored),
        }
        if self.beta:
            dim = pairs.s_neg.shape[-1]
            beta_pos, beta_neg = omega_weights(dim, self.beta, self.omega_reduction)
            omega_pos = F.omega(pairs.tau_pos, prior_tau).expand_as(pairs.s_pos).squeeze(-1)
            omega_neg = F.omega(pairs.tau_neg, prior_tau).expand_as(pairs.s_neg)
            terms["omega_positive"] = beta_pos * omega_pos
            terms["omega_negative"] = -beta_neg * row_sum(omega_neg, pairs.ignored)
        return terms


def _gathered(z: torch.Tensor, extra: torch.Tensor | None) -> Projections:
    """Return the projections of all processes."""
    z = gather(z)
    if z.shape[1] < 2 or z.shape[2] < 2:
        raise ValueError(
            f"correlations need at least 2 images and 2 channels, got (N, D) = "
            f"{tuple(z.shape[1:])}."
        )
    return z, None if extra is None else gather(extra, check=False)
