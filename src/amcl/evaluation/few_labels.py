"""Few labels: logistic regression on frozen features of n images a class."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from amcl.evaluation.labeled import check_labeled
from amcl.evaluation.logistic import Fitted, fit
from amcl.metrics.scores import balanced_accuracy
from amcl.seeds import generator
from amcl.settings import positive_number, whole_number

Supervised = Callable[[torch.Tensor, int], float]
"""Indices of training images, number of the draw → accuracy on the test images."""


@dataclass(frozen=True, kw_only=True)
class FewLabelsSettings:
    """How many labels, and how often they are drawn."""

    per_class: tuple[int, ...] = (10, 20, 50, 100, 200, 500)
    """Training images a class: sizes that more than half of the classes can fill. Smaller classes
    give all they have."""
    draws: int = 5
    """Number of times the images are drawn anew, for a mean and a spread."""
    cost: float = 1.0
    """scikit-learn's C of the logistic regression: smaller is a stronger penalty."""
    supervised: bool = False
    """Compare with the same backbone trained from scratch on the same labels."""

    def __post_init__(self) -> None:
        for n in self.per_class:
            whole_number("per_class", n)
        if not self.per_class or len(set(self.per_class)) < len(self.per_class):
            raise ValueError(
                f"per_class must be one or more different numbers, got {self.per_class}."
            )
        whole_number("draws", self.draws)
        positive_number("cost", self.cost)


@dataclass(frozen=True)
class Draws:
    """The accuracies of several draws, and the balanced ones where they are known."""

    accuracies: tuple[float, ...]
    balanced: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        return float(np.mean(self.accuracies))

    @property
    def std(self) -> float | None:
        """The sample's standard deviation; None for one draw."""
        return float(np.std(self.accuracies, ddof=1)) if len(self.accuracies) > 1 else None


@dataclass(frozen=True, kw_only=True)
class FewLabelsResult:
    """Accuracies on the test images, as shares from 0 to 1, by the number of images a class."""

    features: dict[int, Draws]
    """Of logistic regression on the features."""
    supervised: dict[int, Draws]
    """Of the backbone trained from scratch on the same images; empty if it was not asked for."""
    skipped: dict[int, str]
    """Numbers of images that the training set does not have, and why."""
    notes: tuple[str, ...] = ()
    """What else to know of these figures."""

    def metrics(self) -> dict[str, float]:
        """Means of the draws, by n."""
        return {name: draws.mean for name, draws in self._rows().items()}

    def balanced(self) -> dict[str, float]:
        """Means of the balanced accuracies, by n: each class counts the same."""
        rows = {f"balanced n={n}": draws.balanced for n, draws in self.features.items()}
        return {name: float(np.mean(shares)) for name, shares in rows.items()}

    def details(self) -> dict[str, Any]:
        """Standard deviations, the accuracy of every draw, what was left out, notes."""
        rows = self._rows()
        return {
            "std": {name: draws.std for name, draws in rows.items()},
            "draws": {name: list(draws.accuracies) for name, draws in rows.items()},
            "balanced": self.balanced(),
            "skipped": {str(n): why for n, why in self.skipped.items()},
            "notes": [f"n={n} was left out: {why}." for n, why in self.skipped.items()]
            + list(self.notes),
        }

    def _rows(self) -> dict[str, Draws]:
        rows = {f"n={n}": draws for n, draws in self.features.items()}
        return rows | {f"supervised n={n}": draws for n, draws in self.supervised.items()}


def draw(labels: torch.Tensor, n: int, seed: int, number: int) -> torch.Tensor:
    """Indices of n images of each class of labels (N,), or of all that it has; sorted.

    The images of a draw with fewer a class are among those with more; draws of another `number`
    are independent.

    >>> labels = torch.tensor([0, 0, 0, 1, 1, 1])
    >>> labels[draw(labels, 2, seed=0, number=0)]
    tensor([0, 0, 1, 1])
    """
    whole_number("n", n)
    labels = labels.cpu()
    chosen = []
    for label in labels.unique().tolist():
        images = (labels == label).nonzero()[:, 0]
        stream = generator(seed, "few labels", number, label)
        chosen.append(images[torch.randperm(len(images), generator=stream)[:n]])
    return torch.cat(chosen).sort().values


def few_labels(
    train_x: torch.Tensor,
    train_y: torch.Tensor,
    test_x: torch.Tensor,
    test_y: torch.Tensor,
    class_names: Sequence[str],
    settings: FewLabelsSettings,
    seed: int = 0,
    supervised: Supervised | None = None,
) -> FewLabelsResult:
    """Accuracy on the test images with n labeled training images a class, for several n.

    train_x: (N, D), test_x: (M, D). `supervised` trains the baseline, where the settings
    ask for it.

    >>> x, y = torch.eye(3).repeat(20, 1), torch.arange(3).repeat(20)
    >>> settings = FewLabelsSettings(per_class=(5,), draws=2)
    >>> few_labels(x, y, x, y, ["cat", "dog", "owl"], settings).metrics()
    {'n=5': 1.0}
    """
    check_labeled("training", train_x, train_y, len(class_names))
    check_labeled("test", test_x, test_y, len(class_names))
    if settings.supervised and supervised is None:
        raise ValueError("supervised=True needs the training of the baseline: pass `supervised`.")
    sizes, skipped = _sizes(train_y, settings.per_class)
    features, baseline, notes = {}, {}, []
    for n in sizes:
        drawn = [draw(train_y, n, seed, number) for number in range(settings.draws)]
        fits = [fit(train_x[at], train_y[at], settings.cost) for at in drawn]
        features[n] = _judged(fits, test_x, test_y)
        if settings.supervised and supervised is not None:
            trained = [float(supervised(at, number)) for number, at in enumerate(drawn)]
            baseline[n] = Draws(tuple(trained))
        notes += _smaller(train_y, class_names, n)
        if stopped := [str(number) for number, found in enumerate(fits) if not found.converged]:
            notes.append(f"n={n}: the regression had not converged in draws {', '.join(stopped)}.")
        if settings.draws > 1 and len(drawn[0]) == len(train_y):
            notes.append(f"n={n} takes every training image: all draws are the same.")
    return FewLabelsResult(
        features=features, supervised=baseline, skipped=skipped, notes=tuple(notes)
    )


def _judged(fits: Sequence[Fitted], x: torch.Tensor, truth: torch.Tensor) -> Draws:
    """What the fits of several draws do on the test images."""
    predicted = [found.log_scores(x).argmax(1) for found in fits]
    hits = [(one == truth.cpu()).double().mean().item() for one in predicted]
    return Draws(tuple(hits), tuple(balanced_accuracy(one, truth) for one in predicted))


def _sizes(labels: torch.Tensor, per_class: Sequence[int]) -> tuple[list[int], dict[int, str]]:
    """The n that more than half of the classes can fill, and why the others are left out.

    Where none can be filled, the median size of classes takes their place.
    """
    median = int(labels.cpu().unique(return_counts=True)[1].median())
    why = f"half of the classes or more have fewer images; their median is {median}"
    skipped = {n: why for n in sorted(per_class) if n > median}
    return sorted(set(per_class) - set(skipped)) or [median], skipped


def _smaller(labels: torch.Tensor, class_names: Sequence[str], n: int) -> list[str]:
    """A note where classes have fewer than n images."""
    sizes = labels.cpu().bincount(minlength=len(class_names)).tolist()
    small = [f"{name} {size}" for name, size in zip(class_names, sizes, strict=True) if size < n]
    if not small:
        return []
    some = ", ".join(small[:5]) + (", …" if len(small) > 5 else "")
    return [f"n={n}: {len(small)} smaller classes give all they have ({some})."]
