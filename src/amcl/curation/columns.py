"""The columns of the table, from what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from amcl.curation.clusters import default_clusters, kmeans
from amcl.curation.duplicates import (
    Groups,
    choose_threshold,
    five_thresholds,
    near_groups,
    number_groups,
    preference,
    same_content,
)
from amcl.curation.measure import Measurements
from amcl.curation.neighbors import nearest_images
from amcl.curation.result import ThresholdInfo
from amcl.curation.scores import ambiguity, outliers, ranks, typicality
from amcl.curation.settings import CurationSettings
from amcl.data import Images
from amcl.data.images import FileImages
from amcl.files import digest
from amcl.seeds import generator

_NEIGHBORS = 10  # at least, so that near copies are rarely more than the list has


@dataclass(frozen=True)
class Similarity:
    """Copies and neighbors of n images."""

    rows: torch.Tensor
    """Rows (m,) of images with different content, one of each."""
    position: torch.Tensor
    """For each image the position (n,) in `rows` of the one with its content."""
    cosines: torch.Tensor
    """Cosines (m, k) of their neighbors among them, the highest first."""
    neighbors: torch.Tensor
    """Rows (m, k) of these neighbors."""
    threshold: float
    """Cosine from which two images are near copies."""
    groups: Groups
    """Groups of exact and near copies."""
    thresholds: list[ThresholdInfo]
    """Five thresholds to choose from, ascending, with what each would mean."""


def find_similar(
    x: torch.Tensor,
    measured: Measurements,
    names: Sequence[str],
    images: Images,
    settings: CurationSettings,
) -> Similarity:
    """Find copies and neighbors.

    Args:
        x: Features (n, D) of unit length.
        measured: What was measured of the images.
        names: Names of the n images.
        images: All images, to decode those whose thumbnails are the same.
        settings: The threshold and the number of neighbors.
    """
    pixels = measured.shapes.prod(1).tolist()
    order = preference(pixels, measured.sizes.tolist(), names)
    contents: list[Sequence[object]] = [pixel_keys(measured, images)]
    if measured.files:
        contents.append(measured.files)
    same = same_content(contents, order)
    rows = same.unique()
    position = torch.searchsorted(rows, same)
    of_rows = x if len(rows) == len(x) else x[rows]
    cosines, neighbors = nearest_images(of_rows, max(settings.neighbors, _NEIGHBORS))
    threshold = choose_threshold(cosines) if settings.threshold is None else settings.threshold
    order_of_rows = position[order[same[order] == order]]
    ladder = five_thresholds(threshold)
    groups = [
        number_groups(rows[near_groups(of_rows, cosines, neighbors, order_of_rows, each)][position])
        for each in ladder
    ]
    nearest = cosines[:, :1]
    thresholds: list[ThresholdInfo] = [
        {
            "cosine": each,
            "images": int((nearest >= each).sum()),
            "dropped": int((~there.is_kept).sum()),
        }
        for each, there in zip(ladder, groups, strict=True)
    ]
    chosen = groups[ladder.index(threshold)]
    return Similarity(rows, position, cosines, rows[neighbors], threshold, chosen, thresholds)


def pixel_keys(measured: Measurements, images: Images) -> list[object]:
    """Return a key of each image that is equal where all decoded pixels are.

    Images are measured at the size of the canvas. Where two are the same there, and the files
    differ, they are compared in their full size.

    Args:
        measured: What was measured of n images.
        images: All images.
    """
    keys: list[object] = list(measured.pixels)
    if not isinstance(images, FileImages):
        return keys
    first: dict[bytes, set[bytes]] = {}
    for pixels, file in zip(measured.pixels, measured.files, strict=True):
        first.setdefault(pixels, set()).add(file)
    for row, pixels in enumerate(measured.pixels):
        if len(first[pixels]) > 1:
            height, width = measured.shapes[row].tolist()
            whole = images.decode_whole(int(measured.indices[row]), (height, width))
            keys[row] = (height, width, digest([whole.contiguous().numpy().data]))
    return keys


def make_columns(
    x: torch.Tensor,
    measured: Measurements,
    names: Sequence[str],
    similar: Similarity,
    settings: CurationSettings,
) -> dict[str, list[Any]]:
    """Return the columns by name.

    Args:
        x: Features (n, D) of unit length.
        measured: What was measured of the images.
        names: Printable names of the n images.
        similar: Their copies and neighbors.
        settings: Numbers of neighbors and clusters, and the seed.
    """
    typical = typicality(similar.cosines[:, : settings.neighbors])
    kept = similar.groups.is_kept
    odd = outliers(typical)[similar.position] & kept
    heights, widths = measured.shapes.T.tolist()
    columns: dict[str, list[Any]] = {"path": list(names), "width": widths, "height": heights}
    if measured.files:
        columns["bytes"] = measured.sizes.tolist()
    if measured.tau_differs:
        columns["uncertainty"] = measured.pairs["tau"].tolist()
        columns["uncertainty_spread"] = measured.pairs["tau_spread"].tolist()
    if "negative" in measured.pairs:
        columns["ambiguity"] = _ambiguities(measured, similar.groups.kept)
    columns |= _nearest(names, similar)
    columns |= _copies(x, measured, names, similar)
    columns["typicality"] = typical[similar.position].tolist()
    columns["outlier_rank"] = ranks(typical[similar.position]).tolist()
    columns["outlier"] = odd.tolist()
    columns["cluster"] = _clusters(x, similar, settings)
    columns["keep"] = kept.tolist()
    return columns


def _ambiguities(measured: Measurements, kept: torch.Tensor) -> list[float | None]:
    pairs = measured.pairs
    # Images of the bank by their rows: all of them could be read.
    other = torch.searchsorted(measured.indices, pairs["negative_index"])
    values = ambiguity(pairs["positive"], pairs["negative"], other, kept)
    return [None if value != value else value for value in values.tolist()]


def _nearest(names: Sequence[str], similar: Similarity) -> dict[str, list[Any]]:
    """Return the nearest other image, which for an exact copy is another one, and its cosine."""
    members: dict[int, list[int]] = {}
    for row, position in enumerate(similar.position.tolist()):
        members.setdefault(position, []).append(row)
    nearest: list[str] = []
    cosines: list[float | None] = []
    has_neighbors = similar.cosines.shape[1] > 0
    for row, position in enumerate(similar.position.tolist()):
        copies = [other for other in members[position][:2] if other != row]
        if copies:
            nearest.append(names[copies[0]])
            cosines.append(1.0)
        elif has_neighbors:
            nearest.append(names[int(similar.neighbors[position, 0])])
            cosines.append(float(similar.cosines[position, 0]))
        else:
            nearest.append("")
            cosines.append(None)
    return {"nearest": nearest, "nearest_cosine": cosines}


def _copies(
    x: torch.Tensor, measured: Measurements, names: Sequence[str], similar: Similarity
) -> dict[str, list[Any]]:
    """Return groups of copies, their kinds, and reasons in words."""
    group = similar.groups.group.tolist()
    kept = similar.groups.kept.tolist()
    members: dict[int, list[int]] = {}
    for row, number in enumerate(group):
        if number:
            members.setdefault(number, []).append(row)
    position = similar.position.tolist()
    kinds: list[str] = []
    reasons: list[str] = []
    for row, number in enumerate(group):
        best = kept[row]
        if not number:
            kinds.append("")
            reasons.append("")
        elif row == best:
            kinds.append("")
            reasons.append(_why_kept(row, members[number], measured))
        elif position[row] == position[best]:
            kinds.append("exact")
            reasons.append(f"exact copy of {names[best]}")
        else:
            kinds.append("near")
            cosine = float(x[row] @ x[best])
            reasons.append(f"near copy of {names[best]} (cosine {cosine:.4f})")
    numbers = [number or None for number in group]
    return {"duplicate_group": numbers, "duplicate_kind": kinds, "reason": reasons}


def _why_kept(row: int, members: Sequence[int], measured: Measurements) -> str:
    others = [other for other in members if other != row]
    pixels = measured.shapes.prod(1)
    if all(pixels[row] > pixels[other] for other in others):
        return f"largest of {len(members)} copies"
    largest = [other for other in others if pixels[other] == pixels[row]]
    if all(measured.sizes[row] > measured.sizes[other] for other in largest):
        return f"least compressed of {len(members)} copies"
    return f"first by name of {len(members)} copies"


def _clusters(x: torch.Tensor, similar: Similarity, settings: CurationSettings) -> list[int]:
    """Return the cluster of each image, from 1 for the largest."""
    n = len(similar.rows)
    points = x if n == len(x) else x[similar.rows]
    k = min(settings.clusters or default_clusters(n), n)
    random = generator(settings.seed, "curation", "clusters")
    labels, _ = kmeans(points, k, random, show_progress=True)
    by_size = labels.bincount(minlength=k).argsort(descending=True, stable=True).argsort()
    numbers: list[int] = (by_size[labels] + 1)[similar.position].tolist()
    return numbers
