"""The protocol "linear": a linear layer on frozen features, many learning rates in one pass."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from amcl.evaluation.evaluation import Evaluation, has_labels
from amcl.evaluation.hold_out import (
    BLOCK,
    GridScores,
    by_name,
    check_grid,
    check_labeled,
    check_share,
    hold_out_parts,
    top_k,
)
from amcl.evaluation.linear_layers import FixedFeatures, TrainingFeatures, train_layers
from amcl.evaluation.registry import Outcome, register_protocol
from amcl.metrics.features import AugmentedFeatures
from amcl.seeds import seed_of
from amcl.settings import choose, non_negative, whole_number
from amcl.views import ViewSettings


@dataclass(frozen=True, kw_only=True)
class LinearSettings:
    """Settings of the linear probe, which is trained by SGD; the rate falls to 0 by a cosine."""

    epochs: int = 100
    """Passes over the training images."""
    min_steps: int = 500
    """Least number of steps: with few images, epochs are added."""
    batch_size: int = 512
    """Images a step, at most: an epoch is cut into steps of equal size."""
    lrs: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
    """Learning rates to choose from, for batches of 256: all are scaled by batch_size / 256."""
    momentum: float = 0.9
    """Momentum of SGD."""
    nesterov: bool = True
    """Nesterov's form of momentum."""
    weight_decay: float = 0.0
    """Weight decay, of weights and biases."""
    hold_out: float = 0.1
    """Share of the training images that choose the rate, by accuracy; where that is fewer than 200
    images, by the loss of up to five such shares in turn (cross-validation). A single
    rate needs none."""
    augment: bool = False
    """Random crops and flips in training: the backbone then sees all images every epoch."""
    crop_scale: tuple[float, float] = (0.08, 1.0)
    """With augment: least and most share of the picture's area that a crop takes."""
    norm: Literal["none", "batch"] = "none"
    """batch: batch norm without learned scale before the layer, as usual for ViTs."""

    def __post_init__(self) -> None:
        whole_number("epochs", self.epochs)
        non_negative("min_steps", self.min_steps, "0 adds no epochs")
        whole_number("batch_size", self.batch_size)
        choose("norm", self.norm, ("none", "batch"))
        if self.norm == "batch" and self.batch_size < 2:
            raise ValueError("norm='batch' needs a batch_size of 2 or more, got 1.")
        check_grid("lrs", self.lrs)
        check_share("hold_out", self.hold_out)
        non_negative("weight_decay", self.weight_decay, "0 switches it off")
        if non_negative("momentum", self.momentum, "0.9 is usual") >= 1:
            raise ValueError(f"momentum must be below 1, got {self.momentum}: 0.9 is usual.")
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov needs a momentum above 0: raise it, or set nesterov=False.")
        ViewSettings(crop_scale=self.crop_scale)  # it holds the check

    def epochs_on(self, images: int) -> int:
        """Return the number of epochs on that many images, with those that `min_steps` adds.

        Example:
            >>> LinearSettings().epochs_on(50_000), LinearSettings().epochs_on(287)
            (100, 500)
        """
        steps = math.ceil(images / self.batch_size)
        return max(self.epochs, math.ceil(self.min_steps / steps))


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearResult:
    """Result of the linear probe. Accuracies are shares, from 0 to 1."""

    top1: float
    """Accuracy on the test images."""
    top5: float | None
    """Share of test images whose class is among the five likeliest; None for up to five classes."""
    train_top1: float
    """Accuracy on all training images, without augmentation."""
    lr: float
    """The chosen learning rate, as in the settings."""
    hold_out_top1: dict[float, float | None]
    """Rate → accuracy on the images held out; None: diverged. Empty for a single rate."""
    hold_out_loss: dict[float, float | None]
    """The same for the mean cross-entropy."""
    hold_out_images: int
    """Number of training images that chose the rate."""
    folds: int
    """Parts in which they were held out in turn; 1: once."""
    predicted: torch.Tensor
    """Predicted class of each test image, (M,)."""
    weight: torch.Tensor
    """(K, D): logits are features @ weight.T + bias, with the norm folded in."""
    bias: torch.Tensor
    """(K,)."""
    notes: tuple[str, ...] = ()
    """Notes on the choice."""

    def metrics(self) -> dict[str, float]:
        """Return the numbers to report."""
        top5 = {} if self.top5 is None else {"top5": self.top5}
        return {"top1": self.top1} | top5 | {"train_top1": self.train_top1}

    def details(self) -> dict[str, Any]:
        """Return what the rate was chosen from."""
        diverged = [lr for lr, top1 in self.hold_out_top1.items() if top1 is None]
        notes = [f"training diverged at the learning rate {lr:g}." for lr in diverged]
        return {
            "lr": self.lr,
            "hold_out_images": self.hold_out_images,
            "folds": self.folds,
            "hold_out_top1": by_name(self.hold_out_top1),
            "hold_out_loss": by_name(self.hold_out_loss),
            "notes": [*self.notes, *notes],
        }


@torch.no_grad()
def linear_probe(
    train: TrainingFeatures,
    test: torch.Tensor,
    truth: torch.Tensor,
    classes: int,
    settings: LinearSettings,
    seed: int = 0,
    *,
    plain: torch.Tensor | None = None,
    device: torch.device | str = "cpu",
) -> LinearResult:
    """Train a linear layer on features and measure its accuracy on others.

    Each learning rate trains several layers in the same pass: one on the training images outside
    each part of a hold-out (see `hold_out_parts`), and one on all of them. The rate is the one that
    does best on the images held out: by accuracy, of equals the smallest, where they are one part
    of 200 or more, else by cross-entropy. Its last layer is scored on the test images.

    Args:
        train: Features and labels of the training images.
        test: Features of the test images, (M, D). Layers are of their type, at least float32.
        truth: Classes of the test images, (M,).
        classes: Number of classes.
        settings: Settings of the probe.
        seed: Seed of weights, order and hold-out.
        plain: Features of the training images without augmentation, (N, D), where `train` is not
            `FixedFeatures`.
        device: Device to train on.

    Returns:
        The accuracy on the test images, and the learning rate that was chosen.

    Raises:
        ValueError: If features and labels do not fit together, or `plain` is missing.

    Example:
        >>> x = torch.eye(4).repeat(10, 1)
        >>> y = torch.arange(4).repeat(10)
        >>> settings = LinearSettings(epochs=5, batch_size=8)
        >>> linear_probe(FixedFeatures(x, y), x, y, classes=4, settings=settings).top1
        1.0
    """
    if plain is None:
        if not isinstance(train, FixedFeatures):
            raise ValueError(
                "features that change every epoch cannot choose a rate: give the features of the "
                "training images without augmentation as `plain`."
            )
        plain = train.values
    labels = train.labels.cpu()
    check_labeled("training", plain, labels, classes)
    check_labeled("test", test, truth, classes)
    if not plain.shape[1] == test.shape[1] == train.dim:
        raise ValueError(
            f"features to train on have {train.dim} numbers an image, those without augmentation "
            f"{plain.shape[1]}, those of the test images {test.shape[1]}: take all from one model."
        )
    lrs = sorted(settings.lrs)
    split_seed = seed_of(seed, "linear", "hold-out")
    parts = hold_out_parts(lrs, labels, settings.hold_out, split_seed)
    like = torch.empty(0, device=device, dtype=torch.promote_types(test.dtype, torch.float32))
    layers = train_layers(train, parts, classes, settings, seed, like)
    finite = _finite(layers, lrs)
    scores = _score_parts(layers, finite, plain, labels, parts)
    choice = scores.choose("learning rate", list(finite))
    layer = layers[-1, finite[choice.value]]
    return LinearResult(
        top1=_accuracy(layer, test, truth),
        top5=_accuracy(layer, test, truth, 5) if classes > 5 else None,
        train_top1=_accuracy(layer, plain, labels),
        lr=choice.value,
        hold_out_top1=scores.mean_top1(lrs),
        hold_out_loss=scores.mean_loss(lrs),
        hold_out_images=sum(map(len, parts)),
        folds=len(parts),
        predicted=_measure(layer, test, truth, lambda logits, _: logits.argmax(1)),
        weight=layer[:, :-1].cpu(),
        bias=layer[:, -1].cpu(),
        notes=tuple(choice.notes),
    )


@register_protocol("linear", LinearSettings, shown=("epochs", "augment"), is_default=has_labels)
def run_linear(evaluation: Evaluation, settings: LinearSettings) -> Outcome:
    """Train a linear layer on the features of the training images, or of views of them."""
    train_x, train_y, test_x, test_y = evaluation.labeled_features
    train: TrainingFeatures = FixedFeatures(train_x, train_y)
    if settings.augment:
        views = ViewSettings(operations="ae", crop_scale=settings.crop_scale)
        train = AugmentedFeatures(
            evaluation.model,
            evaluation.probe.bank.subset(evaluation.train_features.indices),
            evaluation.transform.views(views),
            dim=train_x.shape[1],
            device=evaluation.device,
            workers=evaluation.workers,
            seed=evaluation.seed,
        )
    result = linear_probe(
        train,
        test_x,
        test_y,
        len(evaluation.probe.classes),
        settings,
        evaluation.seed,
        plain=train_x,
        device=evaluation.device,
    )
    used = asdict(settings) | {"epochs": settings.epochs_on(len(train_y))}
    del used["min_steps"]  # the number of epochs includes it
    return Outcome(
        metrics=result.metrics(),
        settings=used,
        details=result.details(),
        predicted=result.predicted,
        truth=test_y,
    )


def _finite(layers: torch.Tensor, lrs: Sequence[float]) -> dict[float, int]:
    """Return the rates that did not diverge, with their indices in layers (G, R, K, D + 1)."""
    is_finite = layers.isfinite().all(dim=(0, 2, 3)).tolist()
    finite = {lr: index for index, lr in enumerate(lrs) if is_finite[index]}
    if not finite:
        raise ValueError(
            f"training diverged at every rate of lrs={tuple(lrs)}: give smaller ones, or a smaller "
            "weight_decay."
        )
    return finite


def _score_parts(
    layers: torch.Tensor,
    finite: dict[float, int],
    x: torch.Tensor,
    labels: torch.Tensor,
    parts: Sequence[torch.Tensor],
) -> GridScores:
    """Return the scores on each part of the layers that did not see it."""
    held_out = [(x[part.to(x.device)], labels[part]) for part in parts]

    def scores(measure: Measure) -> dict[float, torch.Tensor]:
        return {
            lr: torch.cat(
                [_measure(layers[g, index], *part, measure) for g, part in enumerate(held_out)]
            )
            for lr, index in finite.items()
            if parts
        }

    cross_entropy = partial(nn.functional.cross_entropy, reduction="none")
    return GridScores(scores(partial(top_k, k=1)), scores(cross_entropy), by_loss=len(parts) > 1)


Measure = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes logits (n, K) and labels (n,), returns a number for each image."""


def _measure(
    layer: torch.Tensor, x: torch.Tensor, truth: torch.Tensor, measure: Measure
) -> torch.Tensor:
    """Return a number for each image. layer: (K, D + 1), x: (N, D), truth: (N,)."""
    blocks = []
    for rows, labels in zip(x.split(BLOCK), truth.split(BLOCK), strict=True):
        logits = torch.addmm(layer[:, -1], rows.to(layer), layer[:, :-1].T)
        blocks.append(measure(logits, labels.long().to(layer.device)).cpu())
    return torch.cat(blocks)


def _accuracy(layer: torch.Tensor, x: torch.Tensor, truth: torch.Tensor, k: int = 1) -> float:
    """Return the share of x: (N, D) whose true class is among the k likeliest."""
    return _measure(layer, x, truth, partial(top_k, k=k)).double().mean().item()
