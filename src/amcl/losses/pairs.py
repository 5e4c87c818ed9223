"""Anchors, their positives and candidates for their negatives, and how they are cut into blocks."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch

from amcl.distributed import gather

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


def _select_heads(x: torch.Tensor, heads: slice) -> torch.Tensor:
    """Return some heads of x, or x where all heads share one."""
    return x if x.shape[0] == 1 else x[heads]


def _slices(length: int, at_most: int) -> list[slice]:
    """Return slices of nearly equal length that cover `length`."""
    step = math.ceil(length / math.ceil(length / at_most))
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]
