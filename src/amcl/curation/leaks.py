"""Images of one set that stand in another, exactly or nearly."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from amcl.progress import Progress

_ROWS = 1024
_COLUMNS = 8192


@dataclass(frozen=True)
class Leak:
    """An image of one set and its copy in the other."""

    row: int
    """Row of the image."""
    other: int
    """Row of its copy in the other set."""
    cosine: float
    """Cosine of their features."""
    kind: Literal["exact", "near"]
    """Whether their content is the same, or their features are similar."""


def find_leaks(
    x: torch.Tensor,
    others: torch.Tensor,
    threshold: float,
    contents: Sequence[tuple[Sequence[object], Sequence[object]]],
) -> list[Leak]:
    """Find all pairs of an image of one set and a copy of it in another.

    Args:
        x: Features (n, D) of unit length.
        others: Features (m, D) of the other set.
        threshold: Cosine from which two images are near copies.
        contents: For each kind of content, such as bytes, that of the images and of the others.

    Returns:
        The pairs by row, for each row exact copies first, then the most similar.

    Example:
        >>> x = torch.eye(3)
        >>> leaks = find_leaks(x, x[1:], 0.9, [(["a", "b", "c"], ["b", "d"])])
        >>> [(leak.row, leak.other, leak.kind) for leak in leaks]
        [(1, 0, 'exact'), (2, 1, 'near')]
    """
    exact: set[tuple[int, int]] = set()
    for ours, theirs in contents:
        where: dict[object, list[int]] = {}
        for j, content in enumerate(theirs):
            where.setdefault(content, []).append(j)
        exact |= {(i, j) for i, content in enumerate(ours) for j in where.get(content, ())}
    leaks = [Leak(i, j, float(x[i] @ others[j]), "exact") for i, j in exact]
    leaks += [
        Leak(i, j, cosine, "near")
        for i, j, cosine in _similar(x, others, threshold)
        if (i, j) not in exact
    ]
    return sorted(leaks, key=lambda leak: (leak.row, leak.kind, -leak.cosine, leak.other))


def leaks_csv(leaks: Sequence[Leak], paths: Sequence[str], others: Sequence[str]) -> str:
    """Return a table of leaks: path, other, cosine, kind.

    Args:
        leaks: The leaks.
        paths: Printable path of each row.
        others: Printable path of each row of the other set.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["path", "other", "cosine", "kind"])
    for leak in leaks:
        writer.writerow([paths[leak.row], others[leak.other], f"{leak.cosine:.6f}", leak.kind])
    return out.getvalue()


def _similar(
    x: torch.Tensor, others: torch.Tensor, threshold: float
) -> list[tuple[int, int, float]]:
    similar: list[tuple[int, int, float]] = []
    with Progress("comparing both sets", len(x)) as progress:
        for start in range(0, len(x), _ROWS):
            rows = x[start : start + _ROWS]
            for first in range(0, len(others), _COLUMNS):
                cosines = rows @ others[first : first + _COLUMNS].T
                i, j = (cosines >= threshold).nonzero(as_tuple=True)
                values = cosines[i, j].clamp(max=1).tolist()
                similar += zip((i + start).tolist(), (j + first).tolist(), values, strict=True)
            progress.advance(len(rows))
    return similar
