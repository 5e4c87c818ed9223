"""What classifiers on frozen features share: checks, a hold-out that chooses, top-k."""

from collections.abc import Collection, Sequence

import torch

from amcl.data.split import hold_out
from amcl.settings import positive_number

BLOCK = 8192  # so many images are looked at at once


def check_labelled(what: str, x: torch.Tensor, labels: torch.Tensor, classes: int) -> None:
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
    name: str, grid: Sequence[float], labels: torch.Tensor, share: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices of the images to train on, and of those that choose from a grid: none for one value.

    Each class has its share in both. labels: (N,).
    """
    if len(grid) == 1:
        return torch.arange(len(labels)), torch.empty(0, dtype=torch.long)
    kept, held = hold_out(labels, max(round(share * len(labels)), 1), seed)
    if not len(held):
        raise ValueError(
            f"{len(labels)} training images, one a class, leave none to choose from "
            f"{name}={tuple(grid)}: give a single one of these, or more images."
        )
    return kept, held


def edge_notes(name: str, chosen: float, grid: Collection[float]) -> list[str]:
    """A note where the best of a grid lies at its edge: beyond it may be better."""
    for edge, which in ((min, "smallest"), (max, "largest")):
        if len(grid) > 1 and chosen == edge(grid):
            return [f"the chosen {name}, {chosen:g}, is the {which} of the grid: widen it."]
    return []


def top_k(scores: torch.Tensor, truth: torch.Tensor, k: int) -> torch.Tensor:
    """Whether the true class is among the k of highest score. scores: (N, K). Returns (N,), bool.

    A class of score −∞ is never among them.

    >>> top_k(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([2]), k=2)
    tensor([True])
    """
    values, places = scores.topk(k, dim=1)
    return ((places == truth[:, None]) & (values > -torch.inf)).any(1)
