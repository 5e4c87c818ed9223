"""Losses over all pairs of anchors and candidates, in blocks when there are many."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from amcl.distributed import gather
from amcl.functional import Prior, all_pairs, most_similar, paired, unit
from amcl.functional.first_order import first_order_only
from amcl.losses.base import HeadLoss, PairMatrix, same_items
from amcl.losses.statistics import LossStats, PairStats
from amcl.settings import whole_number
from amcl.temperature import Temperature
from amcl.temperature.base import Pairing

_CPU_PAIRS = 2**19  # measured: blocks that fit the cache
_CPU_ROWS = 128  # measured: fewer rows are slower
_GPU_PAIRS = 2**25


class Partners(NamedTuple):
    """Items that anchors are compared with: vectors whose dot product is s, and keys for τ."""

    vectors: torch.Tensor  # (C, N, D)
    keys: torch.Tensor  # (C or 1, N, ·)

    def concat(self, other: "Partners") -> "Partners":
        """Return these items followed by others."""
        return Partners(*(torch.cat(both, dim=1) for both in zip(self, other, strict=True)))


class Items(NamedTuple):
    """Vectors, and the keys that τ is computed from in positive and in negative pairs."""

    vectors: torch.Tensor  # (C, N, D)
    positive_keys: torch.Tensor  # (C or 1, N, ·)
    negative_keys: torch.Tensor  # (C or 1, N, ·)

    def concat(self, other: "Items") -> "Items":
        """Return these items followed by others."""
        return Items(*(torch.cat(both, dim=1) for both in zip(self, other, strict=True)))

    def as_positives(self) -> Partners:
        """Return the items as positives of anchors."""
        return Partners(self.vectors, self.positive_keys)

    def as_candidates(self) -> Partners:
        """Return the items as candidates for negatives of anchors."""
        return Partners(self.vectors, self.negative_keys)

    def as_candidates_of_all_ranks(self) -> Partners:
        """Return the items of all processes as candidates, with gradient."""
        return Partners(gather(self.vectors), gather(self.negative_keys, check=False))

    def of_all_ranks(self) -> "Items":
        """Return the items of all processes, with gradient."""
        vectors, negative_keys = self.as_candidates_of_all_ranks()
        if self.positive_keys is self.negative_keys:
            return Items(vectors, negative_keys, negative_keys)
        return Items(vectors, gather(self.positive_keys, check=False), negative_keys)


class Compared(NamedTuple):
    """Similarities and temperatures of anchors with their positives and with their negatives."""

    s_pos: torch.Tensor  # (C, N, 1)
    tau_pos: torch.Tensor  # broadcasts to s_pos
    s_neg: torch.Tensor  # (C, N, K)
    tau_neg: torch.Tensor  # broadcasts to s_neg
    ignored: torch.Tensor | None  # bool, broadcasts to s_neg: entries that are not negatives
    value: torch.Tensor | None = None  # broadcasts to s_pos: that of `Pairs`

    @property
    def anchor_value(self) -> torch.Tensor:
        """The value that a form computed of each anchor; an error if it computed none."""
        if self.value is None:
            raise ValueError("these pairs have no values: return them from Form.anchor_values.")
        return self.value

    def minus(self, level: torch.Tensor) -> "Compared":
        """Subtract a level (C, N, 1) from all similarities."""
        return self._replace(s_pos=self.s_pos - level, s_neg=self.s_neg - level)


@dataclass(frozen=True)
class Pairs:
    """Anchors with one positive each, and candidates for all of them."""

    anchors: Items  # N of them
    positives: Partners  # N of them
    candidates: Partners  # M of them
    ignore: torch.Tensor  # (N, ·): for each anchor, the candidates that are no negatives of it
    value: torch.Tensor | None = None  # (C or 1, N, 1): computed from all anchors, before blocks
    heads: slice = field(default_factory=lambda: slice(None))  # those of the loss that are here

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All vectors, keys and values, which gradients flow to."""
        value = () if self.value is None else (self.value,)
        return *self.anchors, *self.positives, *self.candidates, *value

    @property
    def num_negatives(self) -> int:
        """Number K of negatives of an anchor."""
        return self.candidates.vectors.shape[1] - self.ignore.shape[1]

    def with_tensors(self, tensors: Sequence[torch.Tensor]) -> "Pairs":
        """Return the same pairs with other vectors, keys and values."""
        return replace(
            self,
            anchors=Items(*tensors[:3]),
            positives=Partners(*tensors[3:5]),
            candidates=Partners(*tensors[5:7]),
            value=tensors[7] if tensors[7:] else None,
        )

    def cut(self, heads: slice, rows: slice) -> "Pairs":
        """Return some heads and some anchors with all candidates, without a copy."""
        return Pairs(
            Items(*(_select_heads(x, heads)[:, rows] for x in self.anchors)),
            Partners(*(_select_heads(x, heads)[:, rows] for x in self.positives)),
            Partners(*(_select_heads(x, heads) for x in self.candidates)),
            self.ignore[rows],
            None if self.value is None else _select_heads(self.value, heads)[:, rows],
            heads,
        )

    def ignored(self) -> torch.Tensor | None:
        """Return True where a candidate is no negative of an anchor, (N, M); None if all are."""
        n, count = self.ignore.shape
        if not count:
            return None
        mask = self.ignore.new_zeros(n, self.candidates.vectors.shape[1], dtype=torch.bool)
        return mask.scatter_(1, self.ignore, True)

    def blocks(self, max_pairs: int | None) -> list[tuple[slice, slice]]:
        """Return heads and rows of blocks of up to `max_pairs` pairs, at least one row each."""
        num_heads, n, _ = self.anchors.vectors.shape
        row_length = self.candidates.vectors.shape[1]
        if max_pairs is None:
            on_cpu = self.anchors.vectors.device.type == "cpu"
            max_pairs = max(_CPU_PAIRS, _CPU_ROWS * row_length) if on_cpu else _GPU_PAIRS
        heads = min(num_heads, max(1, max_pairs // (n * row_length)))
        rows = min(n, max(1, max_pairs // (heads * row_length)))
        return list(itertools.product(_slices(num_heads, heads), _slices(n, rows)))


@dataclass(frozen=True, kw_only=True)
class LabeledPairs(Pairs):
    """Anchors and candidates with labels: those of an anchor's label are its positives.

    `positives` are all M candidates once more, with the keys that they have in positive pairs;
    `ignore` holds each anchor itself.
    """

    anchor_labels: torch.Tensor  # (N,)
    labels: torch.Tensor  # (M,), those of candidates

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All vectors and keys, those of candidates once."""
        return *self.anchors, *self.candidates, self.positives.keys

    def with_tensors(self, tensors: Sequence[torch.Tensor]) -> "LabeledPairs":
        candidates = Partners(*tensors[3:5])
        return replace(
            self,
            anchors=Items(*tensors[:3]),
            candidates=candidates,
            positives=Partners(candidates.vectors, tensors[5]),
        )

    def cut(self, heads: slice, rows: slice) -> "LabeledPairs":
        return replace(
            self,
            anchors=Items(*(_select_heads(x, heads)[:, rows] for x in self.anchors)),
            positives=Partners(*(_select_heads(x, heads) for x in self.positives)),
            candidates=Partners(*(_select_heads(x, heads) for x in self.candidates)),
            ignore=self.ignore[rows],
            heads=heads,
            anchor_labels=self.anchor_labels[rows],
        )

    def same_label(self) -> torch.Tensor:
        """Return True where anchor and candidate have one label, (N, M); also for itself."""
        return self.anchor_labels.unsqueeze(1) == self.labels


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

        total: torch.Tensor = _Blocks.apply(
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


def _select_heads(x: torch.Tensor, heads: slice) -> torch.Tensor:
    """Return some heads of x, or x where all heads share one."""
    return x if x.shape[0] == 1 else x[heads]


def _slices(length: int, at_most: int) -> list[slice]:
    """Return slices of nearly equal length that cover `length`."""
    step = math.ceil(length / math.ceil(length / at_most))
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


class _Blocks(torch.autograd.Function):
    """Sum of a value over blocks of pairs, which takes each block's gradient at once.

    The results of a block are dropped before the next one starts, so that memory is that of one
    block, and nothing is computed twice. It can be done because blocks are only ever summed.
    """

    @staticmethod
    def forward(
        ctx: Any,
        block: Callable[[Pairs], torch.Tensor],
        on_gradients: Callable[[Pairs], None],
        pairs: Pairs,
        max_pairs: int | None,
        *tensors: torch.Tensor,
    ) -> torch.Tensor:
        wanted = [k for k, needed in enumerate(ctx.needs_input_grad[4:]) if needed]
        grads = [x.new_zeros(()).expand_as(x) for x in tensors]  # takes no memory
        for k in wanted:
            grads[k] = torch.zeros_like(tensors[k])
        total = tensors[0].new_zeros(())
        for heads, rows in pairs.blocks(max_pairs):
            piece = pairs.cut(heads, rows)
            leaves = [x.detach() for x in piece.tensors]
            inputs = [leaves[k].requires_grad_() for k in wanted]
            with torch.set_grad_enabled(bool(wanted)):
                value = block(piece.with_tensors(leaves))
            total += value.detach()
            if wanted:
                grads_of_block = pairs.with_tensors(grads).cut(heads, rows).tensors
                new_grads = torch.autograd.grad(value, inputs, allow_unused=True)
                for k, grad in zip(wanted, new_grads, strict=True):
                    if grad is not None:
                        grads_of_block[k].add_(grad)
        if wanted:
            on_gradients(pairs.with_tensors(grads))
        ctx.wanted = wanted
        ctx.num_inputs = len(tensors)
        ctx.save_for_backward(*(grads[k] for k in wanted))
        return total

    @staticmethod
    @first_order_only
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scaled: dict[int, torch.Tensor] = {
            k: saved * grad for k, saved in zip(ctx.wanted, ctx.saved_tensors, strict=True)
        }
        return None, None, None, None, *(scaled.get(k) for k in range(ctx.num_inputs))
