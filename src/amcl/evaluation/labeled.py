"""What classifiers on frozen features share: checks, a hold-out that chooses, top-k."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from amcl.data.split import hold_out
from amcl.settings import positive_number

BLOCK = 8192  # images that are looked at at once
SMALL = 200  # a hold-out of fewer images does not choose: cross-validation does
MOST_FOLDS = 5
TRIFLE = 0.005  # of accuracy or loss: gains below it are nobody's concern


def check_labeled(what: str, x: torch.Tensor, labels: torch.Tensor, classes: int) -> None:
    """Raise an error unless x: (N, D) are finite features and labels: (N,) are in 0 … K−1."""
    if x.ndim != 2 or not len(x) or labels.shape != x.shape[:1]:
        raise ValueError(
            f"{what} features of shape {tuple(x.shape)} and labels of shape {tuple(labels.shape)}: "
            "give (N, D) and (N,), N at least 1."
        )
    if not all(block.isfinite().all() for block in x.split(BLOCK)):
        raise ValueError(f"some {what} features are not finite: the model that made them is ill.")
    least, most = int(labels.min()), int(labels.max())
    if labels.is_floating_point() or least < 0 or most >= classes:
        raise ValueError(
            f"{what} labels must be whole numbers from 0 to {classes - 1} for {classes} classes, "
            f"got {labels.dtype} from {least} to {most}."
        )


def check_grid(name: str, values: Sequence[float]) -> None:
    """Raise an error unless `values` are positive numbers, each given once."""
    for value in values:
        positive_number(name, value, "give numbers above 0")
    if not values or len(set(values)) < len(values):
        raise ValueError(f"{name} must be one or more different numbers, got {values}.")


def check_share(name: str, value: float) -> None:
    """Raise an error unless `value` lies between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must be above 0 and below 1, got {value}: 0.1 is usual.")


def choosing(
    grid: Sequence[float], labels: torch.Tensor, share: float, seed: int
) -> list[torch.Tensor]:
    """Indices of the training images that choose from a grid: parts, each held out in turn.

    Usually one part, with each class by its share. Where that would be fewer than 200 images, the
    choice would be one of chance: then up to five parts, which together hold every image but those
    that are alone in their class (cross-validation). No part for a single value, and none where
    every class has one image. labels: (N,).

    >>> [len(part) for part in choosing((0.1, 1.0), torch.arange(2).repeat(15), 0.2, seed=0)]
    [6, 6, 6, 6, 6]
    >>> [len(part) for part in choosing((0.1, 1.0), torch.arange(2).repeat(1500), 0.2, seed=0)]
    [600]
    """
    if len(grid) == 1:
        return []
    count = max(round(share * len(labels)), 1)
    parts = [hold_out(labels, count, seed)[1]] if count >= SMALL else _folds(labels, share, seed)
    return [part for part in parts if len(part)]


def _folds(labels: torch.Tensor, share: float, seed: int) -> list[torch.Tensor]:
    """Parts of about one size, each class spread over them; no part has all images of a class."""
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    by_class = shuffled[labels[shuffled].argsort(stable=True)]
    _, of_class, sizes = labels.unique(return_inverse=True, return_counts=True)
    several = by_class[sizes[of_class[by_class]] > 1]
    number = min(max(round(1 / share), 2), MOST_FOLDS)
    return [several[start::number].sort().values for start in range(number)]


@dataclass(frozen=True)
class Chosen:
    """The best value of a grid, and what is to be known of the choice."""

    value: float
    notes: list[str]


@dataclass(frozen=True)
class Tried:
    """What each value of a grid does on the images held out, image by image."""

    hits: dict[float, torch.Tensor]
    losses: dict[float, torch.Tensor]
    by_loss: bool
    """Whether the loss chooses: it tells more of few images than whether they are hit."""

    def choose(self, name: str, grid: Sequence[float]) -> Chosen:
        """The value that does best; of equals the largest by loss, the smallest by accuracy.

        At the edge of the grid it gets a note, if it is better than its neighbor by more than
        twice the standard error of their difference. Without any image, the middle of the grid.

        >>> hits = {0.1: torch.tensor([0.0, 1.0]), 1.0: torch.tensor([1.0, 1.0])}
        >>> Tried(hits, {}, by_loss=False).choose("cost", [0.1, 1.0]).value
        1.0
        """
        if not self.hits:
            return _middle(name, grid)
        scores = {value: -loss for value, loss in self.losses.items()}
        scores = scores if self.by_loss else self.hits
        means, sign = self.means(scores), 1 if self.by_loss else -1
        value = max(means, key=lambda value: (means[value], sign * value))
        order = sorted(means)
        edges = {order[0]: (order[:2], "smallest"), order[-1]: (order[-2:], "largest")}
        near, which = edges.get(value, ([], ""))
        if not any(_clearly(scores[value], scores[one]) for one in near if one != value):
            return Chosen(value, [])
        told = f"the chosen {name}, {value:g}, is the {which} of the grid: widen it."
        return Chosen(value, [told])

    @staticmethod
    def means(values: Mapping[float, torch.Tensor]) -> dict[float, float]:
        """Value of the grid → mean over the images."""
        return {value: rows.double().mean().item() for value, rows in values.items()}


def _middle(name: str, grid: Sequence[float]) -> Chosen:
    value = sorted(grid)[len(grid) // 2]
    told = f"every class has one training image, so none could choose the {name}: {value:g} is "
    return Chosen(value, [told + "the middle of the grid."] if len(grid) > 1 else [])


def _clearly(better: torch.Tensor, worse: torch.Tensor) -> bool:
    """Return whether scores of the same images differ by over twice their standard error, and more
    than a trifle."""
    gain = better.double() - worse.double()
    error = gain.std(correction=0).item() / math.sqrt(len(gain))
    return gain.mean().item() > max(2 * error, TRIFLE)


def top_k(scores: torch.Tensor, truth: torch.Tensor, k: int) -> torch.Tensor:
    """Whether the true class is among the k of highest score. scores: (N, K). Returns (N,), bool.

    A class of score −∞ is never among them.

    >>> top_k(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([2]), k=2)
    tensor([True])
    """
    values, places = scores.topk(k, dim=1)
    return ((places == truth[:, None]) & (values > -torch.inf)).any(1)
