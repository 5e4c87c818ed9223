"""Training images that are held out to choose a value from a grid, for classifiers on features."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from amcl.data.split import hold_out
from amcl.settings import positive_number

BLOCK = 8192  # images that are computed at once
SMALL = 200  # a hold-out of fewer images does not choose: cross-validation does
MOST_FOLDS = 5
NEGLIGIBLE = 0.005  # gains of accuracy or loss below this are not worth a note


def check_labeled(what: str, x: torch.Tensor, labels: torch.Tensor, classes: int) -> None:
    """Raise an error unless x: (N, D) are finite features and labels: (N,) are in 0 … K−1."""
    if x.ndim != 2 or not len(x) or labels.shape != x.shape[:1]:
        raise ValueError(
            f"{what} features of shape {tuple(x.shape)} and labels of shape {tuple(labels.shape)}: "
            "give (N, D) and (N,), N at least 1."
        )
    if not all(block.isfinite().all() for block in x.split(BLOCK)):
        raise ValueError(
            f"some {what} features are not finite: the weights of the model that made them are "
            "damaged."
        )
    least = int(labels.min())
    most = int(labels.max())
    if labels.is_floating_point() or least < 0 or most >= classes:
        raise ValueError(
            f"{what} labels must be whole numbers from 0 to {classes - 1} for {classes} classes, "
            f"got {labels.dtype} from {least} to {most}."
        )


def check_grid(name: str, values: Sequence[float]) -> None:
    """Raise an error unless `values` are positive numbers that all differ."""
    for value in values:
        positive_number(name, value, "give numbers above 0")
    if not values or len(set(values)) < len(values):
        raise ValueError(f"{name} must be one or more different numbers, got {values}.")


def check_share(name: str, value: float) -> None:
    """Raise an error unless `value` lies between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must be above 0 and below 1, got {value}: 0.1 is usual.")


def hold_out_parts(
    grid: Sequence[float], labels: torch.Tensor, share: float, seed: int
) -> list[torch.Tensor]:
    """Return the training images that choose from a grid, as parts that are held out in turn.

    Usually there is one part, with each class by its share. Fewer than 200 images would choose by
    chance: then there are up to five parts, which together hold every image except those that are
    alone in their class (cross-validation). A single value needs no part, and there is none where
    every class has one image.

    Args:
        grid: Values to choose from.
        labels: Classes of the training images, (N,).
        share: Share of the images to hold out.
        seed: Seed of the choice of images.

    Returns:
        Indices of the images of each part.

    Example:
        >>> labels = torch.arange(2).repeat(15)
        >>> [len(part) for part in hold_out_parts((0.1, 1.0), labels, 0.2, seed=0)]
        [6, 6, 6, 6, 6]
        >>> labels = torch.arange(2).repeat(1500)
        >>> [len(part) for part in hold_out_parts((0.1, 1.0), labels, 0.2, seed=0)]
        [600]
    """
    if len(grid) == 1:
        return []
    count = max(round(share * len(labels)), 1)
    parts = [hold_out(labels, count, seed)[1]] if count >= SMALL else _folds(labels, share, seed)
    return [part for part in parts if len(part)]


def _folds(labels: torch.Tensor, share: float, seed: int) -> list[torch.Tensor]:
    """Return parts of about one size with all classes; no part has all images of a class."""
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    by_class = shuffled[labels[shuffled].argsort(stable=True)]
    _, class_index, sizes = labels.unique(return_inverse=True, return_counts=True)
    several = by_class[sizes[class_index[by_class]] > 1]
    number = min(max(round(1 / share), 2), MOST_FOLDS)
    return [several[start::number].sort().values for start in range(number)]


@dataclass(frozen=True)
class Choice:
    """The best value of a grid, with notes on the choice."""

    value: float
    notes: list[str]


@dataclass(frozen=True)
class GridScores:
    """Scores of each value of a grid on the images held out, image by image."""

    hits: dict[float, torch.Tensor]
    """Value → whether the predicted class is the true one."""
    losses: dict[float, torch.Tensor]
    """Value → cross-entropy."""
    by_loss: bool
    """True if the loss chooses: with few images it tells more than the hits."""

    def choose(self, name: str, grid: Sequence[float]) -> Choice:
        """Return the best value; of equals the largest by loss, the smallest by accuracy.

        At the edge of the grid it gets a note, if it is better than its neighbor by more than
        twice the standard error of their difference. Without any image, it is the middle of the
        grid.

        Example:
            >>> hits = {0.1: torch.tensor([0.0, 1.0]), 1.0: torch.tensor([1.0, 1.0])}
            >>> GridScores(hits, {}, by_loss=False).choose("cost", [0.1, 1.0]).value
            1.0
        """
        if not self.hits:
            return _middle(name, grid)
        scores = self.hits
        sign = -1
        if self.by_loss:
            scores = {value: -loss for value, loss in self.losses.items()}
            sign = 1
        means = _means(scores)
        best = max(means, key=lambda value: (means[value], sign * value))
        order = sorted(means)
        edges = {order[0]: (order[:2], "smallest"), order[-1]: (order[-2:], "largest")}
        neighbors, edge = edges.get(best, ([], ""))
        if not any(_clearly_better(scores[best], scores[v]) for v in neighbors if v != best):
            return Choice(best, [])
        return Choice(best, [f"the chosen {name}, {best:g}, is the {edge} of the grid: widen it."])

    def mean_top1(self, grid: Sequence[float]) -> dict[float, float | None]:
        """Return the accuracy of each value of the grid: None if it diverged, {} without images."""
        return _on_grid(self.hits, grid)

    def mean_loss(self, grid: Sequence[float]) -> dict[float, float | None]:
        """Return the same for the mean cross-entropy."""
        return _on_grid(self.losses, grid)


def by_name(values: Mapping[float, float | None]) -> dict[str, float | None]:
    """Return a mapping whose keys are text, as JSON has them.

    Example:
        >>> by_name({0.1: 0.5, 10.0: None})
        {'0.1': 0.5, '10': None}
    """
    return {f"{key:g}": value for key, value in values.items()}


def top_k(scores: torch.Tensor, truth: torch.Tensor, k: int) -> torch.Tensor:
    """Return whether the true class is among the k of highest score, (N,) bool.

    A class of score −∞ is never among them.

    Args:
        scores: Scores of the classes, (N, K).
        truth: True classes, (N,).
        k: Number of classes.

    Example:
        >>> top_k(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([2]), k=2)
        tensor([True])
    """
    values, indices = scores.topk(k, dim=1)
    return ((indices == truth[:, None]) & (values > -torch.inf)).any(1)


def _on_grid(
    scores: Mapping[float, torch.Tensor], grid: Sequence[float]
) -> dict[float, float | None]:
    means = _means(scores)
    return {value: means.get(value) for value in sorted(grid)} if scores else {}


def _means(scores: Mapping[float, torch.Tensor]) -> dict[float, float]:
    return {value: rows.double().mean().item() for value, rows in scores.items()}


def _middle(name: str, grid: Sequence[float]) -> Choice:
    value = sorted(grid)[len(grid) // 2]
    note = (
        f"every class has one training image, so none could choose the {name}: {value:g} is the "
        "middle of the grid."
    )
    return Choice(value, [note] if len(grid) > 1 else [])


def _clearly_better(better: torch.Tensor, worse: torch.Tensor) -> bool:
    """Return whether scores of the same images differ by over twice their standard error."""
    gain = better.double() - worse.double()
    error = gain.std(correction=0).item() / math.sqrt(len(gain))
    return gain.mean().item() > max(2 * error, NEGLIGIBLE)
