"""Losses over all pairs of anchors and candidates, in blocks when there are many."""

from collections.abc import Callable
from typing import Any

import torch

from amcl.functional import Prior, all_pairs, most_similar, paired, unit
from amcl.losses.base import HeadLoss, PairMatrix, same_items
from amcl.losses.blocks import SumOverBlocks
from amcl.losses.pairs import Compared, Items, Pairs
from amcl.losses.statistics import LossStats, PairStats
from amcl.settings import whole_number
from amcl.temperature import Temperature
from amcl.temperature.base import Pairing


class PairLoss(HeadLoss):
    """A loss that compares each anchor with its positive and with many candidates.

    `max_pairs` bounds the block of the (C, N, M) pair matrix that is held at once (one row of one
    head at least): the same value and gradients for a bounded memory. The default is chosen for
    speed: on a CPU, whose cache wants small blocks, half a million pairs or 128 rows of one head,
    whichever is more; elsewhere 32 million.
    """

    def __init__(
        self, num_heads: int, temperature: Temperature, *, max_pairs: int | None, **settings: Any
    ) -> None:
        super().__init__(num_heads, temperature, **settings)
        if max_pairs is not None:
            whole_number("max_pairs", max_pairs, "None chooses for the device")
        self.max_pairs = max_pairs

    @property
    def kappa(self) -> int | None:
        """Number of negatives of each anchor that count, the most similar ones; None for all."""
        return None

    def _level(self, pairs: Compared, prior_tau: Prior) -> torch.Tensor | None:
        """Return the level from which similarities of each anchor count, (C, N, 1); None: 0."""
        return None

    def _contrast(self, pairs: Compared, prior_tau: Prior) -> tuple[torch.Tensor, Compared]:
        """Return the loss of each anchor and head, (C, N), and the pairs that entered it."""
        raise NotImplementedError

    def _terms(
        self, loss: torch.Tensor, pairs: Compared, prior_tau: Prior
    ) -> dict[str, torch.Tensor]:
        """Return the terms (C, N) that sum to the loss, from the pairs that entered it."""
        raise NotImplementedError

    def _bounds(self, scheme: Temperature) -> tuple[float, float] | None:
        """Return the bounds of τ that statistics compare with."""
        return scheme.bounds()

    def _views(self, z0: torch.Tensor, z1: torch.Tensor) -> tuple[Items, Items]:
        """Return the projections of two views of the same images as items."""
        z0, extra0 = self._split("z0", z0)
        z1, extra1 = self._split("z1", z1)
        same_items(z0, z1)
        self.temperature.observe(unit(z0), unit(z1))
        return self._projections(z0, extra0), self._projections(z1, extra1)

    def _projections(
        self, z: torch.Tensor, extra: torch.Tensor | None, shared: bool = False
    ) -> Items:
        return self._items(unit(z), lambda scheme: scheme.keys(z, extra, shared))

    def _items(
        self, vectors: torch.Tensor, keys_by: Callable[[Temperature], torch.Tensor]
    ) -> Items:
        positive = self.temperature.branch("positive")
        negative = self.temperature.branch("negative")
        keys = keys_by(negative)
        return Items(vectors, keys if positive is negative else keys_by(positive), keys)

    def _matrix(self, rows: Items, columns: Items) -> PairMatrix:
        """Pair each row with each column: on the diagonal as positives, elsewhere as negatives."""
        positive = self.temperature.branch("positive")
        negative = self.temperature.branch("negative")
        s = all_pairs(rows.vectors, columns.vectors)
        tau = negative.tau(rows.negative_keys, columns.negative_keys, all_pairs)
        diagonal = positive.tau(rows.positive_keys, columns.positive_keys, paired).squeeze(-1)
        tau = tau.expand_as(s).diagonal_scatter(diagonal.expand(s.shape[:2]), dim1=1, dim2=2)
        return PairMatrix(s, tau, self._bounds(positive), self._bounds(negative))

    def _sum_over_blocks(
        self, pairs: Pairs, prior_tau: Prior, with_stats: bool
    ) -> tuple[torch.Tensor, LossStats | None]:
        """Return the loss summed over anchors and heads, and its statistics with terms (C,)."""
        stats_of_heads: dict[int, LossStats] = {}  # by the first head of a block
        losses: dict[int, list[torch.Tensor]] = {}  # likewise
        num_negatives = self.kappa or pairs.num_negatives
        scheme = self.temperature.branch("negative")

        def block(piece: Pairs) -> torch.Tensor:
            loss, stats = self._block(piece, prior_tau, with_stats)
            objective = scheme.objective(loss, piece.anchors.negative_keys, num_negatives)
            first_head = piece.heads.start
            losses.setdefault(first_head, []).append(loss.detach())
            if stats is not None:
                if objective is not loss:
                    stats.terms["objective"] = (objective - loss).detach().sum(1)
                if first_head in stats_of_heads:
                    stats = stats_of_heads[first_head] + stats
                stats_of_heads[first_head] = stats
            return objective.sum()

        def on_gradients(gradients: Pairs) -> None:
            if not self.training:
                return
            by_heads = torch.cat([torch.cat(parts, dim=1) for parts in losses.values()])
            keys = gradients.anchors.negative_keys
            if scheme is self.temperature.branch("positive"):
                keys = keys + gradients.anchors.positive_keys
            scheme.update(by_heads, keys, num_negatives)

        total: torch.Tensor = SumOverBlocks.apply(
            block, on_gradients, pairs, self.max_pairs, *pairs.tensors
        )
        if not stats_of_heads:
            return total, None
        return total, LossStats.of_heads(list(stats_of_heads.values()))

    def _block(
        self, pairs: Pairs, prior_tau: Prior, with_stats: bool
    ) -> tuple[torch.Tensor, LossStats | None]:
        """Return the loss (C, N) of anchors whose pairs are all in memory, and statistics."""
        positive = self.temperature.branch("positive").for_heads(pairs.heads)
        negative = self.temperature.branch("negative").for_heads(pairs.heads)
        if isinstance(prior_tau, torch.Tensor):
            prior_tau = prior_tau[pairs.heads]
        anchors, positives, candidates = pairs.anchors, pairs.positives, pairs.candidates
        s_pos = paired(anchors.vectors, positives.vectors)
        tau_pos = positive.tau(anchors.positive_keys, positives.keys, paired)
        s_neg = all_pairs(anchors.vectors, candidates.vectors)
        pairing: Pairing = all_pairs
        ignored = pairs.ignored()
        if self.kappa is not None:
            chosen = most_similar(s_neg, self.kappa, ignored)
            s_neg = s_neg.gather(-1, chosen)
            pairing = _pairs_at(chosen)
            ignored = None
        tau_neg = negative.tau(anchors.negative_keys, candidates.keys, pairing)
        compared = Compared(s_pos, tau_pos, s_neg, tau_neg, ignored, pairs.value)
        level = self._level(compared, prior_tau)
        relative = compared if level is None else compared.minus(level)
        loss, entered = self._contrast(relative, prior_tau)
        if not with_stats:
            return loss, None
        with torch.no_grad():
            terms = self._terms(loss, entered, prior_tau)
            entered = entered if level is None else entered.minus(-level)
            stats = LossStats(
                PairStats.of(s_pos, tau_pos, None, self._bounds(positive)),
                PairStats.of(
                    entered.s_neg, entered.tau_neg, entered.ignored, self._bounds(negative)
                ),
                {name: term.sum(1) for name, term in terms.items()},
            )
        return loss, stats


def _pairs_at(chosen: torch.Tensor) -> Pairing:
    """Return `all_pairs` at the chosen candidates alone: (C, N, κ)."""

    def pairing(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return all_pairs(a, b).expand(chosen.shape[0], -1, -1).gather(-1, chosen)

    return pairing
