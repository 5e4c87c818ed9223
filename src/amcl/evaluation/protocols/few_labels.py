"""The protocol "few-labels": logistic regression on frozen features of n images a class."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from amcl.evaluation.evaluation import Evaluation
from amcl.evaluation.finetuning import supervised as train_supervised
from amcl.evaluation.hold_out import check_labeled
from amcl.evaluation.protocols.logistic import Regression, fit
from amcl.evaluation.registry import Outcome, register_protocol
from amcl.metrics.scores import balanced_accuracy, uneven
from amcl.progress import Progress
from amcl.seeds import generator, seed_of
from amcl.settings import positive_number, whole_number

Supervised = Callable[[torch.Tensor, int], float]
"""Indices of training images, number of the draw → accuracy on the test images."""


@dataclass(frozen=True, kw_only=True)
class FewLabelsSettings:
    """Numbers of labels, and how often they are drawn."""

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
    """Accuracies of several draws, and the balanced ones of logistic regressions."""

    accuracies: tuple[float, ...]
    balanced: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        """Mean of the accuracies."""
        return float(np.mean(self.accuracies))

    @property
    def std(self) -> float | None:
        """Standard deviation of the sample; None for one draw."""
        return float(np.std(self.accuracies, ddof=1)) if len(self.accuracies) > 1 else None


@dataclass(frozen=True, kw_only=True)
class FewLabelsResult:
    """Accuracies on the test images, as shares from 0 to 1, by the number of images a class."""

    features: dict[int, Draws]
    """Accuracies of logistic regression on the features."""
    supervised: dict[int, Draws]
    """Accuracies of the backbone trained from scratch on the same images; empty without it."""
    skipped: dict[int, str]
    """Numbers of images a class that the training set does not have, each with the reason."""
    notes: tuple[str, ...] = ()
    """Notes on the accuracies."""

    def metrics(self) -> dict[str, float]:
        """Return the mean of the draws for each n."""
        return {name: draws.mean for name, draws in self._rows().items()}

    def balanced(self) -> dict[str, float]:
        """Return the mean balanced accuracy for each n, in which each class counts the same."""
        rows = {f"balanced n={n}": draws.balanced for n, draws in self.features.items()}
        return {name: float(np.mean(shares)) for name, shares in rows.items()}

    def details(self) -> dict[str, Any]:
        """Return standard deviations, the accuracy of every draw, skipped sizes, and notes."""
        rows = self._rows()
        skipped = [f"n={n} was left out: {reason}." for n, reason in self.skipped.items()]
        return {
            "std": {name: draws.std for name, draws in rows.items()},
            "draws": {name: list(draws.accuracies) for name, draws in rows.items()},
            "balanced": self.balanced(),
            "skipped": {str(n): reason for n, reason in self.skipped.items()},
            "notes": [*skipped, *self.notes],
        }

    def _rows(self) -> dict[str, Draws]:
        rows = {f"n={n}": draws for n, draws in self.features.items()}
        return rows | {f"supervised n={n}": draws for n, draws in self.supervised.items()}


def draw(labels: torch.Tensor, n: int, seed: int, number: int) -> torch.Tensor:
    """Draw n images of each class, or all that it has.

    The images of a draw with fewer a class are among those with more.

    Args:
        labels: Classes of all images, (N,).
        n: Number of images a class.
        seed: Seed of all draws.
        number: Number of the draw; draws of different numbers are independent.

    Returns:
        Indices of the images, sorted.

    Example:
        >>> labels = torch.tensor([0, 0, 0, 1, 1, 1])
        >>> labels[draw(labels, 2, seed=0, number=0)]
        tensor([0, 0, 1, 1])
    """
    whole_number("n", n)
    labels = labels.cpu()
    chosen = []
    for label in labels.unique().tolist():
        images = (labels == label).nonzero()[:, 0]
        random = generator(seed, "few labels", number, label)
        chosen.append(images[torch.randperm(len(images), generator=random)[:n]])
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
    """Measure the accuracy with n labeled training images a class, for several n.

    Args:
        train_x: Features of the training images, (N, D).
        train_y: Their classes, (N,).
        test_x: Features of the test images, (M, D).
        test_y: Their classes, (M,).
        class_names: Names of all classes.
        settings: Numbers of labels and of draws.
        seed: Seed of the draws.
        supervised: Trains the baseline, where the settings ask for it.

    Example:
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
    features: dict[int, Draws] = {}
    baseline: dict[int, Draws] = {}
    notes: list[str] = []
    for n in sizes:
        drawn = [draw(train_y, n, seed, number) for number in range(settings.draws)]
        fits = []
        with Progress(f"fitting regressions, n={n}", len(drawn)) as progress:
            for index in drawn:
                fits.append(fit(train_x[index], train_y[index], settings.cost))
                progress.advance(1)
        features[n] = _accuracies(fits, test_x, test_y)
        if settings.supervised and supervised is not None:
            trained = [float(supervised(index, number)) for number, index in enumerate(drawn)]
            baseline[n] = Draws(tuple(trained))
        notes += _smaller_classes(train_y, class_names, n)
        if stopped := [str(number) for number, one in enumerate(fits) if not one.converged]:
            notes.append(f"n={n}: the regression had not converged in draws {', '.join(stopped)}.")
        if settings.draws > 1 and len(drawn[0]) == len(train_y):
            notes.append(f"n={n} takes every training image: all draws are the same.")
    return FewLabelsResult(
        features=features, supervised=baseline, skipped=skipped, notes=tuple(notes)
    )


@register_protocol("few-labels", FewLabelsSettings, shown=("draws", "cost"))
def run_few_labels(evaluation: Evaluation, settings: FewLabelsSettings) -> Outcome:
    """Fit logistic regressions to few labeled images; optionally train the network on them too."""
    finetuning = evaluation.settings_for("finetune")

    def supervised(indices: torch.Tensor, number: int) -> float:
        return train_supervised(
            evaluation.model,
            evaluation.probe.bank,
            evaluation.train_features.indices[indices],
            evaluation.probe.queries,
            len(evaluation.probe.classes),
            evaluation.transform,
            finetuning,
            device=evaluation.device,
            workers=evaluation.workers,
            seed=seed_of(evaluation.seed, "supervised", number),
            precision=evaluation.precision,
        )

    features = evaluation.labeled_features
    _, train_y, _, test_y = features
    classes = evaluation.probe.classes
    result = few_labels(*features, classes, settings, evaluation.seed, supervised)
    used = asdict(settings)
    if settings.supervised:
        used |= {"finetune": asdict(finetuning), "precision": evaluation.precision}
    metrics = result.metrics()
    if uneven(train_y, test_y):
        metrics |= result.balanced()
    return Outcome(metrics=metrics, settings=used, details=result.details(), truth=test_y)


def _accuracies(fits: Sequence[Regression], x: torch.Tensor, truth: torch.Tensor) -> Draws:
    """Return the accuracies of the regressions of several draws on the test images."""
    predicted = [regression.log_probabilities(x).argmax(1) for regression in fits]
    accuracies = [(classes == truth.cpu()).double().mean().item() for classes in predicted]
    balanced = [balanced_accuracy(classes, truth) for classes in predicted]
    return Draws(tuple(accuracies), tuple(balanced))


def _sizes(labels: torch.Tensor, per_class: Sequence[int]) -> tuple[list[int], dict[int, str]]:
    """Return the n that more than half of the classes can fill, and the others with the reason.

    Where none can be filled, the median size of classes takes their place.
    """
    median = int(labels.cpu().unique(return_counts=True)[1].median())
    reason = f"half of the classes or more have fewer images; their median is {median}"
    skipped = {n: reason for n in sorted(per_class) if n > median}
    return sorted(set(per_class) - set(skipped)) or [median], skipped


def _smaller_classes(labels: torch.Tensor, class_names: Sequence[str], n: int) -> list[str]:
    """Return a note where classes have fewer than n images."""
    sizes = labels.cpu().bincount(minlength=len(class_names)).tolist()
    small = [f"{name} {size}" for name, size in zip(class_names, sizes, strict=True) if size < n]
    if not small:
        return []
    some = ", ".join(small[:5]) + (", …" if len(small) > 5 else "")
    return [f"n={n}: {len(small)} smaller classes give all they have ({some})."]
