"""Losses over all pairs of anchors and candidates, in blocks when there are many."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from amcl.distributed import gather
from amcl.functional import all_pairs, most_similar, paired
from amcl.functional.first_order import first_order_only
from amcl.losses.base import HeadLoss, PairMatrix
from amcl.losses.statistics import LossStats, PairStats
from amcl.settings import whole_number
from amcl.temperature import Temperature
from amcl.temperature.base import Pairing

_CPU_PAIRS, _CPU_ROWS = 2**19, 128  # measured: blocks that fit the cache, of rows that pay
_GPU_PAIRS = 2**25


class Others(NamedTuple):
    """What anchors are compared with: vectors whose dot product is s, and keys for τ."""

    vectors: torch.Tensor  # (C, N, D)
    keys: torch.Tensor  # (C or 1, N, ·)

    def then(self, other: "Others") -> "Others":
        """These followed by others."""
        return Others(*(torch.cat(both, dim=1) for both in zip(self, other, strict=True)))


class Items(NamedTuple):
    """Vectors, with the keys that their temperature is judged by in pairs of either sign."""

    vectors: torch.Tensor  # (C, N, D)
    positive_keys: torch.Tensor  # (C or 1, N, ·)
    negative_keys: torch.Tensor  # (C or 1, N, ·)

    def then(self, other: "Items") -> "Items":
        """These followed by others."""
        return Items(*(torch.cat(both, dim=1) for both in zip(self, other, strict=True)))

    def as_positives(self) -> Others:
        """As the positives of anchors."""
        return Others(self.vectors, self.positive_keys)

    def as_candidates(self) -> Others:
        """As negatives of anchors."""
        return Others(self.vectors, self.negative_keys)

    def as_candidates_of_all_ranks(self) -> Others:
        """As negatives of anchors, together with those of all other processes, with gradient."""
        return Others(gather(self.vectors), gather(self.negative_keys))


class Compared(NamedTuple):
    """Similarities and temperatures of anchors with their positives and with their negatives."""

    s_pos: torch.Tensor  # (C, N, 1)
    tau_pos: torch.Tensor  # broadcasts to s_pos
    s_neg: torch.Tensor  # (C, N, K)
    tau_neg: torch.Tensor  # broadcasts to s_neg
    ignored: torch.Tensor | None  # bool, broadcasts to s_neg: entries that are not negatives

    def less(self, level: torch.Tensor) -> "Compared":
        """The same with similarities measured from a level. level: (C, N, 1)."""
        return self._replace(s_pos=self.s_pos - level, s_neg=self.s_neg - level)


@dataclass(frozen=True)
class Pairs:
    """Anchors with one positive each, and candidates for all of them."""

    anchors: Items  # N of them
    positives: Others  # N of them
    candidates: Others  # M of them
    ignore: torch.Tensor  # (N, few): for each anchor, the candidates that are no negatives of it

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All vectors and keys."""
        return *self.anchors, *self.positives, *self.candidates

    @property
    def negatives_each(self) -> int:
        """K: how many negatives an anchor has."""
        return self.candidates.vectors.shape[1] - self.ignore.shape[1]

    def with_tensors(self, tensors: Sequence[torch.Tensor]) -> "Pairs":
        """The same pairs of other vectors and keys."""
        return Pairs(Items(*tensors[:3]), Others(*tensors[3:5]), Others(*tensors[5:]), self.ignore)

    def cut(self, heads: slice, rows: slice) -> "Pairs":
        """Some heads and some anchors, as views, with all candidates."""

        def of_heads(x: torch.Tensor) -> torch.Tensor:
            return x if x.shape[0] == 1 else x[heads]

        return Pairs(
            Items(*(of_heads(x)[:, rows] for x in self.anchors)),
            Others(*(of_heads(x)[:, rows] for x in self.positives)),
            Others(*(of_heads(x) for x in self.candidates)),
            self.ignore[rows],
        )

    def ignored(self) -> torch.Tensor | None:
        """True where a candidate is no negative of an anchor, (N, M); None if all are."""
        n, few = self.ignore.shape
        if not few:
            return None
        mask = self.ignore.new_zeros(n, self.candidates.vectors.shape[1], dtype=torch.bool)
        return mask.scatter_(1, self.ignore, True)

    def blocks(self, max_pairs: int | None) -> list[tuple[slice, slice]]:
        """Heads and rows of blocks of at most `max_pairs` pairs, one row of one head at least."""
        num_heads, n, _ = self.anchors.vectors.shape
        pairs_each = self.candidates.vectors.shape[1]
        if max_pairs is None:
            on_cpu = self.anchors.vectors.device.type == "cpu"
            max_pairs = max(_CPU_PAIRS, _CPU_ROWS * pairs_each) if on_cpu else _GPU_PAIRS
        heads = min(num_heads, max(1, max_pairs // (n * pairs_each)))
        rows = min(n, max(1, max_pairs // (heads * pairs_each)))
        return list(itertools.product(_slices(num_heads, heads), _slices(n, rows)))


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
        """Number of negatives of each anchor count, the most similar ones; None for all."""
        return None

    def _level(self, pairs: Compared, prior_tau: float) -> torch.Tensor | None:
        """What the similarities of each anchor are measured from, (C, N, 1); None: from 0."""
        return None

    def _contrast(self, pairs: Compared, prior_tau: float) -> tuple[torch.Tensor, Compared]:
        """The loss of each anchor and head, (C, N), and the pairs that entered it."""
        raise NotImplementedError

    def _terms(
        self, loss: torch.Tensor, pairs: Compared, prior_tau: float
    ) -> dict[str, torch.Tensor]:
        """What `loss` is the sum of, (C, N) each, from the pairs that entered it."""
        raise NotImplementedError

    def _bounds(self, scheme: Temperature) -> tuple[float, float] | None:
        """The limits of τ that statistics compare with."""
        return scheme.bounds()

    def _items(
        self, vectors: torch.Tensor, keys_by: Callable[[Temperature], torch.Tensor]
    ) -> Items:
        positive = self.temperature.branch("positive")
        negative = self.temperature.branch("negative")
        keys = keys_by(negative)
        return Items(vectors, keys if positive is negative else keys_by(positive), keys)

    def _matrix(self, rows: Items, columns: Items) -> PairMatrix:
        """Each row with each column: on the diagonal as its positive, elsewhere as a negative."""
        positive = self.temperature.branch("positive")
        negative = self.temperature.branch("negative")
        s = all_pairs(rows.vectors, columns.vectors)
        tau = negative.tau(rows.negative_keys, columns.negative_keys, all_pairs)
        own = positive.tau(rows.positive_keys, columns.positive_keys, paired).squeeze(-1)
        tau = tau.expand_as(s).diagonal_scatter(own.expand(s.shape[:2]), dim1=1, dim2=2)
        return PairMatrix(s, tau, self._bounds(positive), self._bounds(negative))

    def _walk(
        self, pairs: Pairs, prior_tau: float, with_stats: bool
    ) -> tuple[torch.Tensor, LossStats | None]:
        """The loss summed over anchors and heads, and its statistics with terms (C,)."""
        found: dict[int, LossStats] = {}  # by the first head of a block

        def block(piece: Pairs, first_head: int) -> torch.Tensor:
            value, stats = self._block(piece, prior_tau, with_stats)
            if stats is not None:
                found[first_head] = found[first_head] + stats if first_head in found else stats
            return value

        total: torch.Tensor = _Blocks.apply(block, pairs, self.max_pairs, *pairs.tensors)
        return total, LossStats.of_heads(list(found.values())) if found else None

    def _block(
        self, pairs: Pairs, prior_tau: float, with_stats: bool
    ) -> tuple[torch.Tensor, LossStats | None]:
        """`_walk` for pairs that are held all at once."""
        positive = self.temperature.branch("positive")
        negative = self.temperature.branch("negative")
        anchors, positives, candidates = pairs.anchors, pairs.positives, pairs.candidates
        s_pos = paired(anchors.vectors, positives.vectors)
        tau_pos = positive.tau(anchors.positive_keys, positives.keys, paired)
        s_neg = all_pairs(anchors.vectors, candidates.vectors)
        pairing: Pairing = all_pairs
        ignored = pairs.ignored()
        if self.kappa is not None:
            chosen = most_similar(s_neg, self.kappa, ignored)
            s_neg, pairing, ignored = s_neg.gather(-1, chosen), _pairs_at(chosen), None
        tau_neg = negative.tau(anchors.negative_keys, candidates.keys, pairing)
        compared = Compared(s_pos, tau_pos, s_neg, tau_neg, ignored)
        level = self._level(compared, prior_tau)
        relative = compared if level is None else compared.less(level)
        loss, entered = self._contrast(relative, prior_tau)
        if not with_stats:
            return loss.sum(), None
        with torch.no_grad():
            terms = self._terms(loss, entered, prior_tau)
            entered = entered if level is None else entered.less(-level)
            stats = LossStats(
                PairStats.of(s_pos, tau_pos, None, self._bounds(positive)),
                PairStats.of(
                    entered.s_neg, entered.tau_neg, entered.ignored, self._bounds(negative)
                ),
                {name: term.sum(1) for name, term in terms.items()},
            )
        return loss.sum(), stats


def _pairs_at(chosen: torch.Tensor) -> Pairing:
    """`all_pairs` at the chosen candidates alone: (C, N, κ)."""

    def pairing(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return all_pairs(a, b).expand(chosen.shape[0], -1, -1).gather(-1, chosen)

    return pairing


def _slices(length: int, at_most: int) -> list[slice]:
    """Slices of nearly equal length that cover `length`."""
    step = math.ceil(length / math.ceil(length / at_most))
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


class _Blocks(torch.autograd.Function):
    """The sum of a value over blocks of pairs, which takes each block's gradient at once.

    What a block computed is dropped before the next one starts, so that memory is that of one
    block, and nothing is computed twice. It can be done because blocks are only ever summed.
    """

    @staticmethod
    def forward(
        ctx: Any,
        block: Callable[[Pairs, int], torch.Tensor],
        pairs: Pairs,
        max_pairs: int | None,
        *tensors: torch.Tensor,
    ) -> torch.Tensor:
        wanted = [k for k, needed in enumerate(ctx.needs_input_grad[3:]) if needed]
        grads = [x.new_zeros(()).expand_as(x) for x in tensors]  # takes no memory
        for k in wanted:
            grads[k] = torch.zeros_like(tensors[k])
        total = tensors[0].new_zeros(())
        for heads, rows in pairs.blocks(max_pairs):
            piece = pairs.cut(heads, rows)
            leaves = [x.detach() for x in piece.tensors]
            asked = [leaves[k].requires_grad_() for k in wanted]
            with torch.set_grad_enabled(bool(wanted)):
                value = block(piece.with_tensors(leaves), heads.start)
            total += value.detach()
            if wanted:
                here = pairs.with_tensors(grads).cut(heads, rows).tensors
                found = torch.autograd.grad(value, asked, allow_unused=True)
                for k, grad in zip(wanted, found, strict=True):
                    if grad is not None:
                        here[k].add_(grad)
        ctx.wanted, ctx.inputs = wanted, len(tensors)
        ctx.save_for_backward(*(grads[k] for k in wanted))
        return total

    @staticmethod
    @first_order_only
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scaled: dict[int, torch.Tensor] = {
            k: saved * grad for k, saved in zip(ctx.wanted, ctx.saved_tensors, strict=True)
        }
        return None, None, None, *(scaled.get(k) for k in range(ctx.inputs))
