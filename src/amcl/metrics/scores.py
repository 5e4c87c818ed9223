"""Predicted against true classes: balanced accuracy, accuracy by class, confusion, intervals."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

UNEVEN = 2.0  # classes whose sizes differ by more than this factor make plain accuracy misleading
MATRIX = 100  # classes up to which the whole confusion matrix is kept
PAIRS = 20  # confused pairs that are kept
FEW = 30  # images below which accuracies come with a note
_Z = 1.959963984540054  # of the normal distribution, for 95 %


def wilson(share: float, images: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of `images` by Wilson's score, within 0 and 1.

    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    >>> [round(end, 3) for end in wilson(1.0, 10)]
    [0.722, 1.0]
    """
    center = share + _Z**2 / (2 * images)
    half_width = _Z * math.sqrt(share * (1 - share) / images + _Z**2 / (4 * images**2))
    scale = 1 + _Z**2 / images
    return max((center - half_width) / scale, 0.0), min((center + half_width) / scale, 1.0)


def intervals(metrics: Mapping[str, float], images: int) -> dict[str, list[float]]:
    """Return the 95 % intervals of accuracies on `images`.

    Balanced accuracies and those on training images have none.
    """
    return {
        name: list(wilson(share, images))
        for name, share in metrics.items()
        if not name.startswith(("balanced", "train"))
    }


def confusion(predicted: torch.Tensor, truth: torch.Tensor, classes: int) -> torch.Tensor:
    """Count the images of each class (rows) that were taken for each class (columns): (K, K).

    >>> confusion(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), classes=2)
    tensor([[1, 1],
            [0, 1]])
    """
    pairs = truth.long().cpu() * classes + predicted.long().cpu()
    return pairs.bincount(minlength=classes**2).view(classes, classes)


def balanced_accuracy(predicted: torch.Tensor, truth: torch.Tensor) -> float:
    """Return the mean of the accuracies of the classes that occur.

    >>> balanced_accuracy(torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 0, 1]))
    0.5
    """
    truth = truth.long().cpu()
    hits = (predicted.long().cpu() == truth).double()
    sizes = truth.bincount()
    shares = truth.bincount(hits, minlength=len(sizes)) / sizes
    return shares[sizes > 0].mean().item()


def by_class(
    predicted: torch.Tensor, truth: torch.Tensor, class_names: Sequence[str]
) -> dict[str, Any]:
    """Return the details of a result on its classes, for JSON.

    Args:
        predicted: Predicted classes (N,).
        truth: True classes (N,).
        class_names: Names of the classes.

    Returns:
        `balanced_top1`; `per_class`, the accuracy and the number of images of each class;
        `confused`, the pairs that are confused most often; and, for up to 100 classes, the
        matrix `confusion`.

    Example:
        >>> details = by_class(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]), ["cat", "dog"])
        >>> details["per_class"]["cat"], details["confused"]
        ({'top1': 0.5, 'images': 2}, [{'true': 'cat', 'predicted': 'dog', 'images': 1}])
    """
    counts = confusion(predicted, truth, len(class_names))
    sizes = counts.sum(1).tolist()
    rows = zip(class_names, counts.diagonal().tolist(), sizes, strict=True)
    details: dict[str, Any] = {
        "balanced_top1": balanced_accuracy(predicted, truth),
        "per_class": {
            name: {"top1": hits / size if size else None, "images": size}
            for name, hits, size in rows
        },
        "confused": _confused(counts, class_names),
    }
    if len(class_names) <= MATRIX:
        details["confusion"] = counts.tolist()
    return details


def uneven(*labels: torch.Tensor) -> bool:
    """Return whether the sizes of classes differ by more than a factor of 2 in any of these sets.

    >>> uneven(torch.tensor([0, 0, 1])), uneven(torch.tensor([0, 0, 0, 1]))
    (False, True)
    """
    counts = [part.unique(return_counts=True)[1] for part in labels]
    return any(bool(sizes.max() > UNEVEN * sizes.min()) for sizes in counts)


def caution(images: int) -> list[str]:
    """Return a note if accuracies are of very few images."""
    if images >= FEW:
        return []
    return [
        f"only {images} images are judged on, each worth {100 / images:.1f} points: the accuracy "
        "is a rough estimate"
    ]


def _confused(counts: torch.Tensor, class_names: Sequence[str]) -> list[dict[str, Any]]:
    wrong = counts - counts.diagonal().diag()
    most = wrong.flatten().sort(descending=True, stable=True)
    pairs = zip(most.values[:PAIRS].tolist(), most.indices[:PAIRS].tolist(), strict=True)
    return [
        {
            "true": class_names[index // len(counts)],
            "predicted": class_names[index % len(counts)],
            "images": images,
        }
        for images, index in pairs
        if images
    ]
