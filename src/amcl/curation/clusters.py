"""Clusters of images by the cosine of their features: k-means, flat or in levels."""

import math

import torch

from amcl.progress import Progress

ITERATIONS = 20
RESAMPLINGS = 2  # rounds that let centers spread more evenly over the images
SHRINK = 8  # points below each center of a level
MOST = 4096  # centers of the lowest level
_ROWS = 4096  # images that are assigned at a time
_INITIAL = 16  # points for each center that the first centers are drawn from


def default_clusters(n: int) -> int:
    """Return the number of clusters of n images: √(n/2), at most 100.

    >>> default_clusters(200), default_clusters(100_000)
    (10, 100)
    """
    return max(1, min(100, round(math.sqrt(n / 2))))


def kmeans(
    x: torch.Tensor,
    k: int,
    generator: torch.Generator,
    *,
    centers: torch.Tensor | None = None,
    show_progress: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cluster points of unit length by their cosine.

    Args:
        x: Points (n, D) of unit length.
        k: Number of clusters, at most n.
        generator: Source of the first centers, drawn as k-means++ does from a part of the points.
        centers: First centers (k, D), instead.
        show_progress: Show a progress bar on a terminal.

    Returns:
        The cluster (n,) of each point, and the centers (k, D), of unit length.

    Example:
        >>> x = torch.eye(2).repeat(3, 1)
        >>> labels, centers = kmeans(x, 2, torch.Generator().manual_seed(0))
        >>> (labels[0] == labels[2]).item(), (labels[0] == labels[1]).item()
        (True, False)
    """
    centers = _first_centers(x, k, generator) if centers is None else centers
    labels = torch.full((len(x),), -1)
    with Progress("clusters", ITERATIONS, show_progress) as progress:
        for _ in range(ITERATIONS):
            before = labels
            labels, cosines = assign(x, centers)
            if torch.equal(labels, before):
                break
            centers = _centers_of(x, labels, cosines, k)
            progress.advance(1)
    return labels, centers


def assign(x: torch.Tensor, centers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the nearest center (n,) of each point, and the cosine (n,) with it.

    >>> assign(torch.eye(2), torch.eye(2))[0]
    tensor([0, 1])
    """
    labels = torch.empty(len(x), dtype=torch.long)
    cosines = x.new_empty(len(x))
    for start in range(0, len(x), _ROWS):
        rows = slice(start, start + _ROWS)
        cosines[rows], labels[rows] = (x[rows] @ centers.T).max(1)
    return labels, cosines


def hierarchy(x: torch.Tensor, generator: torch.Generator) -> list[torch.Tensor]:
    """Cluster points, their centers, the centers of those, and so on.

    Each level has an eighth of the centers below it. At each, points near the centers are clustered
    again, so that dense places do not take most of the centers (Vo et al., arXiv 2405.15613).

    Args:
        x: Points (n, D) of unit length.
        generator: Source of randomness.

    Returns:
        For each level, the cluster of each point of the level below, the images first.

    Example:
        >>> x = torch.nn.functional.normalize(torch.randn(640, 4), dim=1)
        >>> [len(labels) for labels in hierarchy(x, torch.Generator().manual_seed(0))]
        [640, 80, 10]
    """
    levels: list[torch.Tensor] = []
    points = x
    while len(points) >= SHRINK:
        k = min(len(points) // SHRINK, MOST)
        labels, centers = kmeans(points, k, generator, show_progress=not levels)
        for _ in range(RESAMPLINGS):
            near = _nearest_of_each(points, labels, centers, SHRINK // 2)
            _, centers = kmeans(points[near], k, generator, centers=centers)
            labels, _ = assign(points, centers)
        levels.append(labels)
        points = centers
    return levels or [torch.zeros(len(x), dtype=torch.long)]


def _nearest_of_each(
    x: torch.Tensor, labels: torch.Tensor, centers: torch.Tensor, count: int
) -> torch.Tensor:
    """Return the points nearest to the center of their cluster, at most `count` of each."""
    cosines = torch.linalg.vecdot(x, centers[labels])
    order = cosines.argsort(descending=True, stable=True)
    order = order[labels[order].argsort(stable=True)]
    sizes = labels.bincount(minlength=len(centers))
    starts = sizes.cumsum(0) - sizes
    position = torch.arange(len(x)) - starts[labels[order]]
    near: torch.Tensor = order[position < count]
    return near


def _first_centers(x: torch.Tensor, k: int, generator: torch.Generator) -> torch.Tensor:
    sample = torch.randperm(len(x), generator=generator)[: max(_INITIAL * k, 1024)]
    points = x[sample]
    chosen = [0]
    distances = (1 - points @ points[0]).clamp(min=0)
    while len(chosen) < k:
        # Points on chosen ones have no weight; where all have none, any will do.
        weights = distances if distances.sum() > 0 else torch.ones_like(distances)
        i = int(torch.multinomial(weights, 1, generator=generator))
        chosen.append(i)
        distances = torch.minimum(distances, (1 - points @ points[i]).clamp(min=0))
    return points[chosen]


def _centers_of(
    x: torch.Tensor, labels: torch.Tensor, cosines: torch.Tensor, k: int
) -> torch.Tensor:
    """Return the mean directions of clusters; an empty one moves to a point far from its center."""
    sums = x.new_zeros(k, x.shape[1]).index_add_(0, labels, x)
    empty = (labels.bincount(minlength=k) == 0).nonzero().squeeze(1)
    sums[empty] = x[cosines.argsort(stable=True)[: len(empty)]]
    return torch.nn.functional.normalize(sums, dim=1)
