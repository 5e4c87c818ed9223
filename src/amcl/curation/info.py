"""The content of curation.json: counts, thresholds, a histogram, pairs of similar images."""

import os
from collections.abc import Mapping
from typing import Any

import torch

from amcl.curation.columns import Similarity
from amcl.curation.duplicates import ROUNDING
from amcl.curation.measure import Measurements
from amcl.curation.result import FORMAT, Histogram, Info
from amcl.curation.uncertainty import Absent
from amcl.curation.work import MeasuredSet, Work
from amcl.methods import HeadMethod
from amcl.printable import printable

MOST_PAIRS = 50_000
_BINS = 64


def make_info(
    work: Work,
    images: MeasuredSet,
    similar: Similarity,
    table: Mapping[str, list[Any]],
    label_first: list[int],
) -> Info:
    """Return the content of `curation.json`.

    Args:
        work: The model and what the curation depends on.
        images: The images.
        similar: Their copies and neighbors.
        table: Their columns.
        label_first: Rows to label first.
    """
    pairs, pairs_left_out = pairs_of(similar, similar.thresholds[0]["cosine"])
    request = work.request
    settings = request.settings
    names = images.all.names
    return {
        "format": FORMAT,
        "settings": {
            "threshold": settings.threshold,
            "pairs": settings.pairs,
            "neighbors": settings.neighbors,
            "clusters": settings.clusters,
            "label_first": settings.label_first,
            "select": settings.select,
            "by": settings.by,
            "seed": settings.seed,
            "against": request.against,
            "link": request.link,
            "export": list(request.export),
        },
        "model": {
            "name": work.model.name,
            "fingerprint": request.model,
            "image_size": work.model.backbone.image_size,
        },
        "data": {
            "source": work.source,
            "fingerprint": request.images,
            "images": len(names),
            "unreadable": [(printable(names[i]), why) for i, why in images.facts.unreadable],
        },
        "left_out": left_out(work.method, images.facts, table),
        "counts": {
            "images": len(names),
            "unreadable": len(images.facts.unreadable),
            "exact": table["duplicate_kind"].count("exact"),
            "near": table["duplicate_kind"].count("near"),
            "groups": int(similar.groups.group.max()),
            "outliers": sum(table["outlier"]),
            "keep": sum(table["keep"]),
            "selected": sum(rank is not None for rank in table.get("selected", ())),
        },
        "threshold": similar.threshold,
        "thresholds": similar.thresholds,
        "histogram": histogram_of(similar),
        "pairs": pairs,
        "pairs_left_out": pairs_left_out,
        "label_first": label_first,
        "measured": os.path.relpath(work.measured, work.out),
        "features": str(images.file.absolute()),
    }


def left_out(
    method: HeadMethod | Absent, measured: Measurements, table: Mapping[str, Any]
) -> dict[str, str]:
    """Return the columns that there are not, with the reason.

    Args:
        method: The method, or the reason why there is none.
        measured: What was measured of the images.
        table: The columns that there are.
    """
    reasons: dict[str, str] = {}
    if not measured.tau_differs:
        reason = "the temperature is the same for all images"
        if isinstance(method, Absent):
            reason = method.reason
        elif "tau" not in measured.pairs:
            reason = f"{type(method.settings).title} has no temperatures of pairs of any images"
        reasons |= dict.fromkeys(("uncertainty", "uncertainty_spread"), reason)
    if isinstance(method, Absent):
        reasons["ambiguity"] = method.reason
    if "bytes" not in table:
        reasons["bytes"] = "the images are no files"
    return reasons


def by_reason(missing: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the columns that are left out for each reason.

    >>> by_reason({"uncertainty": "no heads", "ambiguity": "no heads", "bytes": "no files"})
    {'no heads': ['uncertainty', 'ambiguity'], 'no files': ['bytes']}
    """
    names: dict[str, list[str]] = {}
    for name, reason in missing.items():
        names.setdefault(reason, []).append(name)
    return names


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
