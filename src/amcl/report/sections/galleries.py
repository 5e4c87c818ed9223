"""Sections of images: pairs, neighbors, and a map."""

from collections.abc import Callable, Sequence

import torch

from amcl.analysis import (
    Pair,
    PairSample,
    PlaneMethod,
    hard_negatives,
    neighbors,
    plane,
    uncertain_positives,
)
from amcl.report.blocks import Block, Gallery, Map, Paragraph, Picture, Section
from amcl.report.runs import Run, beside

PAIRS_HOW = (
    "Views as training draws them. An uncertain positive pair often shows too little of the image, "
    "or another part of it in each view: then a larger τ is right. A hard negative pair looks "
    "alike though it is of two images; if both are of one class, the loss pushes apart what "
    "belongs together, which a larger τ softens too."
)
NEIGHBORS_HOW = (
    "On the left some image, then those whose backbone features are the most like it. What they "
    "have in common is what the backbone has learned to see: shape, texture, or only color."
)
MAP_HOW = (
    "Each point is an image; images that the backbone finds alike lie near each other. Point at "
    "one to see it, or move with the arrow keys; point at a class to see where it lies."
)
_NAMES = {"pca": "PCA", "umap": "UMAP", "tsne": "t-SNE"}
_NEAREST = 6


def pairs(runs: Sequence[Run]) -> Section:
    """Return the most uncertain positives and the hardest negatives, with s and τ in each head."""
    count = 6 if len(runs) > 1 else 12
    return Section("Pairs", _of_each(runs, lambda s: pair_galleries(s, count)), PAIRS_HOW)


def nearest(runs: Sequence[Run]) -> Section:
    """Return images with their nearest neighbors."""
    blocks = _of_each(runs, lambda sample: _nearest(sample, len(runs) > 1))
    return Section("Nearest neighbors", blocks, NEIGHBORS_HOW)


def image_map(runs: Sequence[Run], method: PlaneMethod, seed: int) -> Section:
    """Return the images on a plane."""
    return Section("Map", _of_each(runs, lambda sample: _map(sample, method, seed)), MAP_HOW)


def _of_each(runs: Sequence[Run], make: Callable[[PairSample], list[Block]]) -> list[Block]:
    return beside(runs, lambda run: make(run.sample) if run.sample is not None else [])


def pair_galleries(sample: PairSample, count: int) -> list[Block]:
    """Return galleries of the most uncertain positive pairs and of the hardest negative ones."""
    reason = "the highest τ⁺" if sample.positives_differ else "the lowest similarity"
    return [
        Gallery(
            [_positive(sample, pair) for pair in uncertain_positives(sample, count)],
            f"The most uncertain positive pairs, by {reason}, the most uncertain first.",
            "view",
        ),
        Gallery(
            [_negative(sample, pair) for pair in hard_negatives(sample, count)],
            "The hardest negative pairs: different images that the method finds the most alike.",
            "view",
        ),
    ]


def _positive(sample: PairSample, pair: Pair) -> Picture:
    return Picture(_views(sample, pair), _numbers(pair), _class(sample, pair.i))


def _negative(sample: PairSample, pair: Pair) -> Picture:
    first = _class(sample, pair.i)
    second = _class(sample, pair.j)
    title = f"{first}, both" if first == second else f"{first} – {second}"
    return Picture(_views(sample, pair), _numbers(pair), title if first else "")


def _views(sample: PairSample, pair: Pair) -> list[torch.Tensor]:
    return [sample.views[0, pair.i], sample.views[1, pair.j]]


def _numbers(pair: Pair) -> list[str]:
    lines = []
    if pair.s:
        lines.append("s  " + "  ".join(_signed(s) for s in pair.s))
    if pair.tau is not None:
        lines.append("τ  " + "  ".join(f"{tau:.2f}" for tau in pair.tau))
    return [*lines, f"backbone {_signed(pair.backbone)}"]


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _class(sample: PairSample, index: int) -> str:
    return "" if sample.labels is None else sample.classes[int(sample.labels[index])]


def _nearest(sample: PairSample, narrow: bool) -> list[Block]:
    queries, rows = neighbors(sample.h, 6 if narrow else 10, 4 if narrow else _NEAREST)
    items = []
    for query, row in zip(queries.tolist(), rows.tolist(), strict=True):
        good: list[bool | None] = []
        if sample.labels is not None:
            good = [None, *(bool(sample.labels[i] == sample.labels[query]) for i in row)]
        images = [sample.images[i] for i in (query, *row)]
        items.append(Picture(images, title=_class(sample, query), good=good))
    caption = "Nearest first, by the cosine of the backbone's features."
    if sample.labels is not None:
        return [Gallery(items, f"{caption} ✓ of the same class, ✗ of another.")]
    note = Paragraph("There are no labels in use, and so none is called right.")
    return [Gallery(items, caption), note]


def _map(sample: PairSample, method: PlaneMethod, seed: int) -> list[Block]:
    labels = None
    if sample.labels is not None:
        labels = [sample.classes[i] for i in sample.labels.tolist()]
    name = _NAMES[method]
    caption = f"Backbone features of {len(sample)} images on a plane ({name})."
    if method == "pca":
        caption += " Images that differ in other directions than these two fall on one place."
    if labels is None:
        caption += " There are no labels in use, and so no colors of classes."
    points = plane(sample.h, method, seed)
    return [Map(points, sample.images, labels, caption, f"{name} map of {len(sample)} images")]
