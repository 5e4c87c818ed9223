"""Losses over all pairs of anchors and candidates, in blocks when there are many."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils.checkpoint import checkpoint

from amcl.distributed import gather
from amcl.functional import Contrast, all_pairs, paired
from amcl.losses.base import HeadLoss
from amcl.losses.statistics import LossStats, PairStats
from amcl.temperature import Temperature

MAX_PAIRS = 2**24
"""Pairs held at once by default: 64 MiB for each float32 matrix of them."""


class Items(NamedTuple):
    """Vectors whose dot product is s, and the keys their temperatures are judged by."""

    vectors: torch.Tensor  # (C, N, D)
    positive_keys: torch.Tensor  # (C or 1, N, ·), for pairs with a positive
    negative_keys: torch.Tensor  # (C or 1, N, ·), for pairs with a negative

    def rows(self, part: slice) -> "Items":
        """Some of the items."""
        return Items(*(tensor[:, part] for tensor in self))

    def then(self, other: "Items") -> "Items":
        """These items followed by others."""
        return Items(*(torch.cat(both, dim=1) for both in zip(self, other, strict=True)))

    def gathered(self) -> "Items":
        """The items of all ranks, with gradient."""
        keys = gather(self.negative_keys)
        same = self.positive_keys is self.negative_keys
        return Items(gather(self.vectors), keys if same else gather(self.positive_keys), keys)


@dataclass(frozen=True)
class Pairs:
    """Anchors with one positive each, and candidates for all of them."""

    anchors: Items  # N of them
    positives: Items  # N of them
    candidates: Items  # M of them
    ignore: torch.Tensor  # (N, few): for each anchor, the candidates that are no negatives of it

    @property
    def negatives_each(self) -> int:
        """K: how many negatives an anchor has."""
        return self.candidates.vectors.shape[1] - self.ignore.shape[1]


class PairLoss(HeadLoss):
    """A loss that compares each anchor with its positive and with many candidates.

    `max_pairs` bounds the block of the (C, N, M) pair matrix held at once, in whole rows (one at
    least). Above it the matrix is walked in blocks, each computed again in the backward pass: the
    same value and gradients for a bounded memory.
    """

    def __init__(
        self, num_heads: int, temperature: Temperature, *, max_pairs: int, **settings: Any
    ) -> None:
        super().__init__(num_heads, temperature, **settings)
        if max_pairs < 1:
            raise ValueError(f"max_pairs must be at least 1, got {max_pairs}.")
        self.max_pairs = max_pairs

    def _contrast(
        self,
        s_pos: torch.Tensor,
        tau_pos: torch.Tensor,
        s_neg: torch.Tensor,
        tau_neg: torch.Tensor,
        ignored: torch.Tensor | None,
        prior_tau: float,
    ) -> Contrast:
        """The loss of some anchors, (C, rows), from their pairs."""
        raise NotImplementedError

    def _terms(
        self, s_pos: torch.Tensor, tau_pos: torch.Tensor, made: Contrast, prior_tau: float
    ) -> dict[str, torch.Tensor]:
        """What `made.loss` is the sum of, (C, rows) each."""
        raise NotImplementedError

    def _items(
        self, vectors: torch.Tensor, keys_by: Callable[[Temperature], torch.Tensor]
    ) -> Items:
        positive = self.temperature.branch("positive")
        negative = self.temperature.branch("negative")
        keys = keys_by(negative)
        return Items(vectors, keys if positive is negative else keys_by(positive), keys)

    def _walk(
        self, pairs: Pairs, prior_tau: float, with_stats: bool
    ) -> tuple[torch.Tensor, LossStats | None]:
        """The loss summed over anchors, (C,), and its statistics with terms of the same shape."""
        num_heads, n, _ = pairs.anchors.vectors.shape
        pairs_each = pairs.candidates.vectors.shape[1] + 1  # and the positive
        rows = max(1, self.max_pairs // (num_heads * pairs_each))
        if rows >= n:
            return self._block(pairs, slice(0, n), prior_tau, with_stats)
        total, stats = pairs.anchors.vectors.new_zeros(num_heads), None
        for start in range(0, n, rows):
            part = slice(start, min(start + rows, n))
            value, part_stats = _forgetful(self._block, pairs, part, prior_tau, with_stats)
            total = total + value
            stats = part_stats if stats is None or part_stats is None else stats + part_stats
        return total, stats

    def _block(
        self, pairs: Pairs, part: slice, prior_tau: float, with_stats: bool
    ) -> tuple[torch.Tensor, LossStats | None]:
        """`_walk` for some of the anchors."""
        positive = self.temperature.branch("positive")
        negative = self.temperature.branch("negative")
        anchors, positives = pairs.anchors.rows(part), pairs.positives.rows(part)
        s_pos = paired(anchors.vectors, positives.vectors)
        tau_pos = positive.tau(anchors.positive_keys, positives.positive_keys, paired)
        s_neg = all_pairs(anchors.vectors, pairs.candidates.vectors)
        tau_neg = negative.tau(anchors.negative_keys, pairs.candidates.negative_keys, all_pairs)
        ignored = None
        if pairs.ignore.shape[1]:
            ignored = torch.zeros(s_neg.shape[1:], dtype=torch.bool, device=s_neg.device)
            ignored.scatter_(1, pairs.ignore[part], True)
        made = self._contrast(s_pos, tau_pos, s_neg, tau_neg, ignored, prior_tau)
        value = made.loss.sum(1)
        if not with_stats:
            return value, None
        with torch.no_grad():
            terms = self._terms(s_pos, tau_pos, made, prior_tau)
            return value, LossStats(
                PairStats.of(s_pos, tau_pos, None, positive.bounds()),
                PairStats.of(made.s_neg, made.tau_neg, made.ignored, negative.bounds()),
                {name: term.sum(1) for name, term in terms.items()},
            )


def _forgetful(block: Callable[..., Any], *args: object) -> Any:
    """Run a block without keeping what it computed; the backward pass computes it again."""
    if not torch.is_grad_enabled():
        return block(*args)
    return checkpoint(block, *args, use_reentrant=False, preserve_rng_state=False)
