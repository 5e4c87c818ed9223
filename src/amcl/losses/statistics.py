"""Statistics of a loss: similarities and temperatures per head, and its terms."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch

_EDGE = 0.01  # a τ within this share of its range from a bound counts as at the bound
_MOST_AT_BOUND = 0.9  # share of pairs at a bound from which adaptivity is as good as lost
_ALIKE = 0.01  # spread of τ, as a share of its mean, below which all pairs have the same
_COLLAPSED = 0.95  # mean s⁻ from which a head no longer tells images apart
_REMEDIES = {
    "lower": "raise the temperature they vary around (prior_tau; --tau) or lower phi_scale",
    "upper": "lower the temperature they vary around (prior_tau; --tau) or lower phi_scale",
}


@dataclass(frozen=True)
class PairStats:
    """Means over the pairs of one sign that entered the loss. Every tensor is (C,).

    Args:
        count: Number of pairs.
        s: Mean similarity.
        tau: Mean temperature.
        tau_variance: Variance of the temperature.
        at_lower: Share of pairs whose τ is at its lower bound; None without bounds.
        at_upper: Share of pairs whose τ is at its upper bound; None without bounds.

    Example:
        >>> s = torch.tensor([[[0.2, 0.4]]])  # one head, one anchor, two candidates
        >>> PairStats.of(s, torch.tensor([0.1]), ignored=None, bounds=None).s
        tensor([0.3000])
    """

    count: torch.Tensor
    s: torch.Tensor
    tau: torch.Tensor
    tau_variance: torch.Tensor
    at_lower: torch.Tensor | None
    at_upper: torch.Tensor | None

    @property
    def tau_std(self) -> torch.Tensor:
        """Standard deviation of τ over the pairs."""
        return self.tau_variance.sqrt()

    @staticmethod
    def of(
        s: torch.Tensor,
        tau: torch.Tensor,
        ignored: torch.Tensor | None,
        bounds: tuple[float, float] | None,
    ) -> "PairStats":
        """Return the statistics of pairs.

        Args:
            s: Similarities (C, N, M).
            tau: Temperatures, which broadcast to s.
            ignored: True for what is no pair; broadcasts to s.
            bounds: Lower and upper limit of τ; None where it has none.

        Returns:
            Means over the pairs of each head.
        """
        s = s.detach()
        tau = tau.detach().expand_as(s)
        weight = torch.ones_like(s)
        if ignored is not None:
            weight = weight.masked_fill(ignored, 0.0)
        count = weight.sum((1, 2))

        def mean(x: torch.Tensor) -> torch.Tensor:
            return (x * weight).sum((1, 2)) / count.clamp(min=1.0)

        tau_mean = mean(tau)
        at_lower = at_upper = None
        if bounds is not None:
            edge = _EDGE * (bounds[1] - bounds[0])
            at_lower = mean((tau <= bounds[0] + edge).to(s.dtype))
            at_upper = mean((tau >= bounds[1] - edge).to(s.dtype))
        variance = mean((tau - tau_mean.view(-1, 1, 1)).square())
        return PairStats(count, mean(s), tau_mean, variance, at_lower, at_upper)

    @staticmethod
    def of_heads(groups: "list[PairStats]") -> "PairStats":
        """Join the statistics of several groups of heads."""

        def cat(name: str) -> Any:
            rows = [getattr(group, name) for group in groups]
            return None if rows[0] is None else torch.cat(rows)

        return PairStats(**{field.name: cat(field.name) for field in fields(PairStats)})

    def __add__(self, other: "PairStats") -> "PairStats":
        """Return the statistics of both sets of pairs together."""
        count = self.count + other.count
        share = other.count / count.clamp(min=1.0)

        def mix(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.lerp(a, b, share)

        def mix_optional(a: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor | None:
            return None if a is None or b is None else mix(a, b)

        between = (self.tau - other.tau).square() * share * (1.0 - share)
        return PairStats(
            count,
            mix(self.s, other.s),
            mix(self.tau, other.tau),
            mix(self.tau_variance, other.tau_variance) + between,
            mix_optional(self.at_lower, other.at_lower),
            mix_optional(self.at_upper, other.at_upper),
        )


@dataclass(frozen=True)
class LossStats:
    """Statistics of one call of a loss on this process.

    Args:
        positive: Statistics of positive pairs per head.
        negative: Statistics of negative pairs per head; None for a loss without negatives.
        terms: Scalars that sum to the loss.
        agreement: Mean correlation of the similarities of two heads, from −1 to 1; None with
            one head. It is that of all processes if the loss has a penalty on it.

    Example:
        >>> from amcl.losses import AMCLLoss
        >>> _, stats = AMCLLoss(2, 8)(*torch.randn(2, 2, 4, 8), return_stats=True)
        >>> sorted(stats.terms)
        ['negative', 'omega_positive', 'positive']
    """

    positive: PairStats
    negative: PairStats | None
    terms: dict[str, torch.Tensor]
    agreement: torch.Tensor | None = None

    @staticmethod
    def of_heads(groups: "list[LossStats]") -> "LossStats":
        """Join the statistics of several groups of heads; terms are (C,)."""
        negatives = [group.negative for group in groups if group.negative is not None]
        return LossStats(
            PairStats.of_heads([group.positive for group in groups]),
            PairStats.of_heads(negatives) if negatives else None,
            {name: torch.cat([group.terms[name] for group in groups]) for name in groups[0].terms},
        )

    def __add__(self, other: "LossStats") -> "LossStats":
        """Return the statistics of both parts of one call; terms are sums over anchors."""
        negative = self.negative
        if negative is not None and other.negative is not None:
            negative = negative + other.negative
        terms = {name: value + other.terms[name] for name, value in self.terms.items()}
        return LossStats(self.positive + other.positive, negative, terms)

    def reduce_terms(self, reduce: Callable[[torch.Tensor], torch.Tensor]) -> "LossStats":
        """Return the same with each term reduced as the loss is."""
        terms = {name: reduce(value) for name, value in self.terms.items()}
        return replace(self, terms=terms)

    def to_dict(self) -> dict[str, float]:
        """Return the statistics as numbers for a log.

        Returns:
            Numbers by name, heads counted from 1: `tau_positive/head1`, `term/positive`.

        Example:
            >>> from amcl.losses import AMCLLoss
            >>> _, stats = AMCLLoss(2, 8)(*torch.randn(2, 2, 4, 8), return_stats=True)
            >>> "tau_positive/head1" in stats.to_dict()
            True
        """
        out = {f"term/{name}": value.item() for name, value in self.terms.items()}
        if self.agreement is not None:
            out["head_agreement"] = self.agreement.item()
        for sign, stats in (("positive", self.positive), ("negative", self.negative)):
            if stats is None:
                continue
            rows = {
                "s": stats.s,
                "tau": stats.tau,
                "tau_std": stats.tau_std,
                "at_lower": stats.at_lower,
                "at_upper": stats.at_upper,
            }
            for name, row in rows.items():
                if row is not None:
                    for c, value in enumerate(row.tolist(), start=1):
                        out[f"{name}_{sign}/head{c}"] = value
        return out

    def advice(self) -> list[str]:
        """Return problems, each with its remedy; empty if there are none."""
        problems = []
        for sign, stats in (("positive", self.positive), ("negative", self.negative)):
            if stats is None or stats.at_lower is None or stats.at_upper is None:
                continue
            for side, shares in (("lower", stats.at_lower), ("upper", stats.at_upper)):
                if shares.max().item() > _MOST_AT_BOUND:
                    head = int(shares.argmax().item()) + 1
                    problems.append(
                        f"{shares.max().item():.0%} of the {sign} temperatures of head {head} are "
                        f"at the {side} bound, so τ no longer adapts: {_REMEDIES[side]} "
                        "(--phi-scale)."
                    )
        if self.negative is not None and self.negative.s.max().item() > _COLLAPSED:
            head = int(self.negative.s.argmax().item()) + 1
            problems.append(
                f"mean s⁻ of head {head} is {self.negative.s.max().item():.3f}: its projections "
                "are nearly all alike. Lower the learning rate (--lr), warm up for longer, or put "
                "batch norm on the projections (last_norm='plain' of the heads; "
                "--projector-last-norm plain)."
            )
        if any(not math.isfinite(term.item()) for term in self.terms.values()):
            problems.append(
                "a term of the loss is not finite: lower the learning rate (--lr) or raise the "
                "lower bound of τ (eta; --tau-lower)."
            )
        return problems or self._advice_on_phi()

    def _advice_on_phi(self) -> list[str]:
        """Return advice if all pairs share one τ: φ = 0 is a saddle where training stays."""
        signs = [stats for stats in (self.positive, self.negative) if stats is not None]
        adapts = all(stats.at_lower is not None for stats in signs)
        if not adapts or any((s.tau_std > _ALIKE * s.tau).any().item() for s in signs):
            return []
        return [
            f"every pair has the same temperature, {self.positive.tau.mean().item():.3g}. With a "
            "centered φ that means that projections of a head are too alike to tell pairs apart "
            "by: put batch norm on them (last_norm='plain' of the heads; --projector-last-norm "
            "plain). A plain φ has shrunk to 0: use phi_output='centered' (--phi-output centered)."
        ]
