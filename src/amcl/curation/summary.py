"""Counts, thresholds, histograms and pairs of similar images, and all of it in words."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import torch

from amcl.curation.columns import Similarity
from amcl.curation.duplicates import ROUNDING
from amcl.curation.lists import list_file
from amcl.curation.result import Curation, Histogram
from amcl.data.images import counted

MOST_PAIRS = 50_000
_BINS = 64
_EXAMPLES = 3


def histogram_of(similar: Similarity) -> Histogram:
    """Return a histogram of the nearest cosines, by the logarithm of 1 − cosine."""
    distances = torch.logspace(0, -6, _BINS, dtype=torch.float64)
    edges = torch.cat([torch.tensor([2.0]), distances, torch.tensor([0.0])])
    nearest = similar.cosines[:, :1].double().flatten().clamp(-1, 1 - ROUNDING / 2)
    edges = 1 - edges
    bins = torch.bucketize(nearest, edges[1:-1], right=True)
    return {"edges": edges.tolist(), "counts": bins.bincount(minlength=len(edges) - 1).tolist()}


def pairs_of(similar: Similarity, lowest: float) -> tuple[list[tuple[int, int, float]], int]:
    """Return pairs of rows that are at least as similar as a threshold, the most similar first.

    Args:
        similar: Copies and neighbors.
        lowest: The threshold.

    Returns:
        The pairs, and the number of less similar ones that are left out.
    """
    position, rank = (similar.cosines >= lowest).nonzero(as_tuple=True)
    first = similar.rows[position]
    second = similar.neighbors[position, rank]
    cosines = similar.cosines[position, rank]
    n = len(similar.position)
    # Each pair once, though it may stand in the lists of both images.
    keys = torch.minimum(first, second) * n + torch.maximum(first, second)
    keys, inverse = keys.unique(return_inverse=True)
    values = cosines.new_zeros(len(keys)).scatter_reduce_(0, inverse, cosines, "amax")
    order = values.argsort(descending=True, stable=True)[:MOST_PAIRS]
    rows = zip((keys[order] // n).tolist(), (keys[order] % n).tolist(), strict=True)
    pairs = [(i, j, c) for (i, j), c in zip(rows, values[order].tolist(), strict=True)]
    return pairs, len(keys) - len(order)


def summary(curation: Curation) -> str:
    """Return what was learned of the images, in a few lines.

    Args:
        curation: The curation.
    """
    info = curation.info
    counts = info["counts"]
    lines = [
        f"{counted(counts['images'], 'image')} in {info['data']['source']}",
        f"  {counted(counts['exact'], 'exact copy').replace('copys', 'copies')} and "
        f"{counts['near']:,} near (cosine {info['threshold']:.4f} and more), in "
        f"{counted(counts['groups'], 'group')}: {counts['keep']:,} left without them",
        f"  {counted(counts['outliers'], 'outlier')} far from all other images"
        + _examples(curation, "outlier_rank", lowest=True, flagged="outlier"),
    ]
    if counts["unreadable"]:
        lines.append(f"  {counted(counts['unreadable'], 'image')} cannot be read")
    for column, name in (("uncertainty", "uncertain"), ("ambiguity", "ambiguous")):
        if column in curation.table and (examples := _examples(curation, column)):
            lines.append(f"  most {name}{examples}")
    if "leaks" in counts:
        lines.append(
            f"  {counted(counts['leaks'], 'image')} also in {info['settings']['against']}: "
            f"{curation.folder / 'leaks.csv'}"
        )
    if any(info["histogram"]["counts"]):
        choices = (f"{each['cosine']:.4f} ({each['dropped']:,})" for each in info["thresholds"])
        lines.append(f"  left out as copies at each of five thresholds: {', '.join(choices)}")
    return "\n".join([*lines, *_next_steps(curation)])


def _examples(
    curation: Curation, column: str, *, lowest: bool = False, flagged: str | None = None
) -> str:
    rows = list(range(len(curation))) if flagged is None else curation.rows(flagged)
    values = [(curation[column][row], row) for row in rows if curation[column][row] is not None]
    best: Sequence[tuple[float, int]] = sorted(values, reverse=not lowest)[:_EXAMPLES]
    return f": {', '.join(curation['path'][row] for _, row in best)}" if best else ""


def _next_steps(curation: Curation) -> list[str]:
    folder = curation.folder

    def name(which: str) -> str:
        return str(list_file(folder, which))

    lines = [
        f"table: {folder / 'curation.csv'}",
        f"lists: {name('keep')}, drop.txt (copies to leave out), review.txt (to look at: odd or "
        "unreadable), label_first.txt (to label first)",
    ]
    if curation.info["counts"]["selected"]:
        lines.append(f"selected: {name('selected')}")
    lines.append(
        "Nothing was moved or deleted. Look at review.txt and at groups in the table, then use "
        f"keep.txt, or run again with --link NEW_FOLDER --out OTHER --reuse {_quoted(folder)}."
    )
    return lines


def _quoted(folder: Path) -> str:
    return shlex.quote(str(folder))
