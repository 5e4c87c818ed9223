"""Selection of images to label or to train on, by one of four rules."""

import math
from typing import Literal, get_args

import torch

from amcl.curation.clusters import assign, hierarchy, kmeans
from amcl.progress import Progress
from amcl.seeds import generator
from amcl.settings import choose, whole_number

Rule = Literal["diverse", "typical", "uncertain", "balanced"]
RULES: tuple[Rule, ...] = get_args(Rule)
NO_UNCERTAINTIES = (
    "--by uncertain needs uncertainties, and the model has none: use a run whose temperatures "
    "adapt, or --by diverse, typical or balanced"
)


def select(
    rule: Rule,
    count: int,
    x: torch.Tensor,
    *,
    typicality: torch.Tensor,
    uncertainty: torch.Tensor | None = None,
    seed: int = 0,
) -> torch.Tensor:
    """Select images.

    - "diverse": greedily the image farthest from all selected ones (k-center), after a first one
      that is drawn: no image is more than twice as far from a selected one as it has to be;
    - "typical": the most typical image of each of `count` clusters, that of the largest cluster
      first (as TypiClust, arXiv 2202.02794);
    - "uncertain": the images with the highest uncertainty;
    - "balanced": as many of each cluster of a hierarchy as of the others, as far as it has them, at
      every level; within a cluster, they are drawn (as in arXiv 2405.15613).

    Args:
        rule: The rule.
        count: Number of images; all where there are fewer.
        x: Features (n, D) of unit length.
        typicality: Typicality (n,) of the images.
        uncertainty: Uncertainty (n,) of the images, if they have one.
        seed: Seed of everything that is drawn.

    Returns:
        Indices of the images in the order of selection.

    Example:
        >>> x = torch.eye(3)[[0, 0, 1, 1, 2]]
        >>> selected = select("diverse", 3, x, typicality=torch.ones(5))
        >>> sorted(x[selected].argmax(1).tolist())
        [0, 1, 2]
    """
    choose("by", rule, RULES)
    count = min(whole_number("select", count), len(x))
    random = generator(seed, "curation", rule)
    if rule == "diverse":
        return _diverse(x, count, random)
    if rule == "typical":
        return _typical(x, count, typicality, random)
    if rule == "balanced":
        return _balanced(x, count, random)
    if uncertainty is None:
        raise ValueError(f"{NO_UNCERTAINTIES}.")
    return uncertainty.argsort(descending=True, stable=True)[:count]


def _diverse(x: torch.Tensor, count: int, random: torch.Generator) -> torch.Tensor:
    chosen = [int(torch.randint(len(x), (), generator=random))]
    nearest = x @ x[chosen[0]]
    with Progress("selecting", count) as progress:
        while len(chosen) < count:
            nearest[chosen[-1]] = math.inf  # images may have the same features
            chosen.append(int(nearest.argmin()))
            nearest = torch.maximum(nearest, x @ x[chosen[-1]])
            progress.advance(1)
    return torch.tensor(chosen)


def _typical(
    x: torch.Tensor, count: int, typicality: torch.Tensor, random: torch.Generator
) -> torch.Tensor:
    _, centers = kmeans(x, count, random, show_progress=True)
    labels, _ = assign(x, centers)
    order = typicality.argsort(descending=True, stable=True)
    sizes = labels.bincount(minlength=count)
    # The best image of each cluster comes first, that of the largest one before all; then the rest.
    best = torch.full((count,), len(x)).scatter_reduce_(
        0, labels[order], torch.arange(len(x)), "amin"
    )
    clusters = sizes.argsort(descending=True, stable=True)
    first = order[best[clusters[sizes[clusters] > 0]]]
    rest = order[~torch.isin(order, first)]
    return torch.cat([first, rest])[:count]


def _balanced(x: torch.Tensor, count: int, random: torch.Generator) -> torch.Tensor:
    levels = hierarchy(x, random)
    members = [torch.randperm(len(x), generator=random)]  # images of each cluster, as drawn
    budgets = [count]
    for level in range(len(levels), 0, -1):
        cluster = torch.arange(len(x))
        for labels in levels[:level]:
            cluster = labels[cluster]
        parts: list[torch.Tensor] = []
        shares: list[int] = []
        for images, budget in zip(members, budgets, strict=True):
            inside = _by_cluster(images, cluster[images])
            parts += inside
            shares += share_evenly(budget, [len(part) for part in inside])
        members, budgets = parts, shares
    return torch.cat([images[:budget] for images, budget in zip(members, budgets, strict=True)])


def _by_cluster(images: torch.Tensor, cluster: torch.Tensor) -> list[torch.Tensor]:
    order = cluster.argsort(stable=True)
    sizes = cluster.unique(return_counts=True)[1].tolist()
    return list(images[order].split(sizes))


def share_evenly(total: int, room: list[int]) -> list[int]:
    """Share a number among parts as evenly as their room allows; the first get what is left over.

    Args:
        total: The number, at most the sum of all room.
        room: The most that each part can take.

    Returns:
        The share of each part.

    Example:
        >>> share_evenly(10, [1, 20, 20])
        [1, 5, 4]
    """
    shares = [0] * len(room)
    while total > 0:
        open_parts = [i for i, most in enumerate(room) if shares[i] < most]
        each = max(1, min(total // len(open_parts), min(room[i] - shares[i] for i in open_parts)))
        for i in open_parts[:total]:
            shares[i] += each
            total -= each
    return shares
