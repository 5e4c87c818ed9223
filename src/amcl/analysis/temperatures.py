"""Statistics of the temperatures of a sample, in each head and between heads."""

from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch

from amcl.analysis.pairs import PairSample, negatives, positives
from amcl.losses import PairStats
from amcl.temperature.base import Sign

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, kw_only=True)
class HeadTemperatures:
    """τ of the pairs of one sign in one head."""

    head: int
    """Number of the head, from 1."""
    sign: Sign
    """Sign of the pairs."""
    mean: float
    """Mean of τ."""
    std: float
    """Standard deviation of τ."""
    at_lower: float | None
    """Share of pairs at the lower bound; None where there is none."""
    at_upper: float | None
    """Share of pairs at the upper bound; None where there is none."""
    quantiles: tuple[float, ...]
    """Quantiles of τ at `QUANTILES`."""


@dataclass(frozen=True, kw_only=True)
class Temperatures:
    """τ in each head and for each sign, of pairs of images (Barlow Twins: of channels)."""

    heads: tuple[HeadTemperatures, ...]
    """Positive pairs of every head, then negative ones."""
    between_positive: float
    """Mean over positive pairs of the variance of τ over heads."""
    between_negative: float
    """Mean over negative pairs of the variance of τ over heads."""

    def of(self, sign: Sign) -> tuple[HeadTemperatures, ...]:
        """Return the statistics of one sign, head by head."""
        return tuple(row for row in self.heads if row.sign == sign)


def temperatures(sample: PairSample) -> Temperatures:
    """Compute statistics of the temperatures of a sample.

    Args:
        sample: Two views of some images.

    Returns:
        Statistics of each head and sign, and the variance between heads.

    Raises:
        ValueError: If the method has no temperatures.

    Example:
        >>> h = torch.eye(2)
        >>> s = torch.tensor([[[0.8, 0.2], [0.4, 0.6]]])
        >>> views = torch.zeros(2, 2, 3, 8, 8, dtype=torch.uint8)
        >>> tau = 1 - s / 2
        >>> absent = dict.fromkeys(["channel_tau", "positive_bounds", "negative_bounds", "labels"])
        >>> sample = PairSample(
        ...     h=h, h0=h, h1=h, s=s, tau=tau, views=views, images=views[0], classes=(), **absent
        ... )
        >>> [(row.sign, round(row.mean, 2)) for row in temperatures(sample).heads]
        [('positive', 0.65), ('negative', 0.85)]
    """
    tau = sample.channel_tau if sample.tau is None else sample.tau
    if tau is None:
        raise ValueError("there are no heads, and so no temperatures to look at.")
    tau = tau.double()
    return Temperatures(
        heads=tuple(row for sign in get_args(Sign) for row in _rows(sample, tau, sign)),
        between_positive=_between(positives(tau)),
        between_negative=_between(negatives(tau)),
    )


def _rows(sample: PairSample, tau: torch.Tensor, sign: Sign) -> list[HeadTemperatures]:
    positive = sign == "positive"
    values = (positives(tau) if positive else negatives(tau)).unsqueeze(-1)  # (C, pairs, 1)
    bounds = sample.positive_bounds if positive else sample.negative_bounds
    stats = PairStats.of(values, values, None, bounds)
    return [
        HeadTemperatures(
            head=c + 1,
            sign=sign,
            mean=stats.tau[c].item(),
            std=stats.tau_std[c].item(),
            at_lower=None if stats.at_lower is None else stats.at_lower[c].item(),
            at_upper=None if stats.at_upper is None else stats.at_upper[c].item(),
            quantiles=tuple(np.quantile(values[c].numpy(), QUANTILES).tolist()),
        )
        for c in range(len(tau))
    ]


def _between(tau: torch.Tensor) -> float:
    """Return the mean over pairs of the variance over heads. tau: (C, pairs)."""
    return tau.var(0, correction=0).mean().item()
