"""The linear probe: a linear layer on frozen features, many learning rates in one pass."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import nn

from amcl.evaluation.labeled import (
    BLOCK,
    Tried,
    check_grid,
    check_labeled,
    check_share,
    choosing,
    top_k,
)
from amcl.seeds import generator, seed_of
from amcl.settings import choose, non_negative, whole_number
from amcl.views import ViewSettings


@dataclass(frozen=True, kw_only=True)
class LinearSettings:
    """How the linear layer is trained: by SGD, the rate falling to 0 by a cosine."""

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
        """Epochs on that many images, with those that `min_steps` adds.

        >>> LinearSettings().epochs_on(50_000), LinearSettings().epochs_on(287)
        (100, 500)
        """
        steps = math.ceil(images / self.batch_size)
        return max(self.epochs, math.ceil(self.min_steps / steps))


class TrainingFeatures(Protocol):
    """Features to train on: the same in every epoch, or new ones."""

    @property
    def dim(self) -> int:
        """D, how many numbers an image has."""

    @property
    def labels(self) -> torch.Tensor:
        """(N,), in 0 … K−1."""

    def batches(
        self, epoch: int, steps: Sequence[torch.Tensor]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """For each tensor of indices: features (n, D), and the indices (n,) they belong to.

        Fewer may come back than were asked for, even none.
        """


class FixedFeatures:
    """Features (N, D) that are the same in every epoch, and their labels (N,).

    >>> train = FixedFeatures(torch.eye(3), torch.tensor([0, 1, 1]))
    >>> [index.tolist() for _, index in train.batches(0, [torch.tensor([2, 0])])]
    [[2, 0]]
    """

    def __init__(self, values: torch.Tensor, labels: torch.Tensor) -> None:
        self.values = values
        self.labels = labels
        self.dim: int = values.shape[-1]

    def batches(
        self, epoch: int, steps: Sequence[torch.Tensor]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for index in steps:
            yield self.values[index.to(self.values.device)], index


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearResult:
    """What the linear probe found. Accuracies are shares, from 0 to 1."""

    top1: float
    """Accuracy on the test images."""
    top5: float | None
    """The true class is among the five likeliest; None for five classes or fewer."""
    train_top1: float
    """Accuracy on all training images, without augmentation."""
    lr: float
    """The chosen rate, as in the settings."""
    hold_out_top1: dict[float, float | None]
    """Rate → accuracy on the hold-out that chose; None: diverged. Empty for a single rate."""
    hold_out_loss: dict[float, float | None]
    """The same for the mean cross-entropy."""
    hold_out_images: int
    """Number of training images chose the rate."""
    folds: int
    """Parts in which they were held out in turn; 1: once."""
    predicted: torch.Tensor
    """(M,): the likeliest class of each test image."""
    weight: torch.Tensor
    """(K, D): logits are features @ weight.T + bias, with the norm folded in."""
    bias: torch.Tensor
    """(K,)."""
    notes: tuple[str, ...] = ()
    """On the choice."""

    def metrics(self) -> dict[str, float]:
        """The figures to report."""
        top5 = {} if self.top5 is None else {"top5": self.top5}
        return {"top1": self.top1} | top5 | {"train_top1": self.train_top1}

    def details(self) -> dict[str, Any]:
        """How the rate was chosen."""
        notes = [*self.notes]
        for lr, top1 in self.hold_out_top1.items():
            if top1 is None:
                notes.append(f"training diverged at the learning rate {lr:g}.")
        return {
            "lr": self.lr,
            "hold_out_images": self.hold_out_images,
            "folds": self.folds,
            "hold_out_top1": {f"{lr:g}": top1 for lr, top1 in self.hold_out_top1.items()},
            "hold_out_loss": {f"{lr:g}": loss for lr, loss in self.hold_out_loss.items()},
            "notes": notes,
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
    """Accuracy on `test` (M, D), `truth` (M,), of a linear layer trained on `train`.

    Each rate trains several classifiers in the same pass: one on the training images outside each
    part of a hold-out (see `choosing`), and one on all of them. The rate is the one that does best
    on the images held out: by accuracy, of equals the smallest, where they are one part of 200 or
    more, else by cross-entropy. Its last classifier is scored on the test images.

    `plain` (N, D): the training features without augmentation, where `train` is not
    `FixedFeatures`. Computed on `device`; in float64 where `test` is, else in float32.

    >>> x, y = torch.eye(4).repeat(10, 1), torch.arange(4).repeat(10)
    >>> settings = LinearSettings(epochs=5, batch_size=8)
    >>> linear_probe(FixedFeatures(x, y), x, y, classes=4, settings=settings).top1
    1.0
    """
    plain, labels = _plain(train, plain), train.labels.cpu()
    check_labeled("training", plain, labels, classes)
    check_labeled("test", test, truth, classes)
    if not plain.shape[1] == test.shape[1] == train.dim:
        raise ValueError(
            f"features to train on have {train.dim} numbers an image, those without augmentation "
            f"{plain.shape[1]}, those of the test images {test.shape[1]}: take all from one model."
        )
    chance = seed_of(seed, "linear", "hold-out")
    parts = choosing(settings.lrs, labels, settings.hold_out, chance)
    like = torch.empty(0, device=device, dtype=torch.promote_types(test.dtype, torch.float32))
    layers = _train(train, parts, classes, settings, seed, like)
    lrs = sorted(settings.lrs)
    tried, finite = _try(layers, lrs, plain, labels, parts)
    chosen = tried.choose("learning rate", finite)
    tops, losses = tried.means(tried.hits), tried.means(tried.losses)
    layer = layers[-1, lrs.index(chosen.value)]
    return LinearResult(
        top1=_accuracy(layer, test, truth),
        top5=_accuracy(layer, test, truth, 5) if classes > 5 else None,
        train_top1=_accuracy(layer, plain, labels),
        lr=chosen.value,
        hold_out_top1={lr: tops.get(lr) for lr in lrs if parts},
        hold_out_loss={lr: losses.get(lr) for lr in lrs if parts},
        hold_out_images=sum(map(len, parts)),
        folds=len(parts),
        predicted=_measured(layer, test, truth, lambda logits, _: logits.argmax(1)),
        weight=layer[:, :-1].cpu(),
        bias=layer[:, -1].cpu(),
        notes=tuple(chosen.notes),
    )


def _plain(train: TrainingFeatures, plain: torch.Tensor | None) -> torch.Tensor:
    if plain is not None:
        return plain
    if not isinstance(train, FixedFeatures):
        raise ValueError(
            "features that change every epoch cannot choose a rate: give the features of the "
            "training images without augmentation as `plain`."
        )
    return train.values


def _try(
    layers: torch.Tensor,
    lrs: list[float],
    x: torch.Tensor,
    labels: torch.Tensor,
    parts: Sequence[torch.Tensor],
) -> tuple[Tried, list[float]]:
    """The classifiers that did not see a part, on that part; and the rates that did not diverge.

    layers: (G, R, K, D + 1).
    """
    whole = layers.isfinite().all(dim=(0, 2, 3)).tolist()
    finite = [lr for lr, fine in zip(lrs, whole, strict=True) if fine]
    if not finite:
        raise ValueError(
            f"training diverged at every rate of lrs={tuple(lrs)}: give smaller ones, or a smaller "
            "weight_decay."
        )
    hits: dict[float, torch.Tensor] = {}
    losses: dict[float, torch.Tensor] = {}
    cross_entropy = partial(nn.functional.cross_entropy, reduction="none")
    held = [(x[part.to(x.device)], labels[part]) for part in parts]
    for lr in finite if parts else ():
        place = lrs.index(lr)
        for found, measure in ((hits, partial(top_k, k=1)), (losses, cross_entropy)):
            rows = (_measured(layers[g, place], *part, measure) for g, part in enumerate(held))
            found[lr] = torch.cat(list(rows))
    return Tried(hits, losses, by_loss=len(parts) > 1), finite


def _measured(
    layer: torch.Tensor,
    x: torch.Tensor,
    truth: torch.Tensor,
    measure: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """What `measure` makes of logits and labels, image by image. layer: (K, D + 1), x: (N, D)."""
    found = []
    for rows, labels in zip(x.split(BLOCK), truth.split(BLOCK), strict=True):
        logits = torch.addmm(layer[:, -1], rows.to(layer), layer[:, :-1].T)
        found.append(measure(logits, labels.long().to(layer.device)).cpu())
    return torch.cat(found)


def _accuracy(layer: torch.Tensor, x: torch.Tensor, truth: torch.Tensor, k: int = 1) -> float:
    """Share of x: (N, D) whose true class is among the k likeliest."""
    hits = _measured(layer, x, truth, partial(top_k, k=k))
    return hits.double().mean().item()


def _train(
    train: TrainingFeatures,
    parts: Sequence[torch.Tensor],
    classes: int,
    settings: LinearSettings,
    seed: int,
    like: torch.Tensor,
) -> torch.Tensor:
    """Layers (G, R, K, D + 1), biases last: without each of the parts, and the last on all images.

    They have the device and type of `like`.
    """
    n, dim = len(train.labels), train.dim
    sees = like.new_ones(len(parts) + 1, n)  # (G, N)
    for group, part in enumerate(parts):
        sees[group, part.to(like.device)] = 0
    labels = train.labels.long().to(like.device)
    layers = _Layers(len(sees), classes, dim, settings, seed, like)
    norm = None
    if settings.norm == "batch":
        norm = nn.BatchNorm1d(dim, eps=1e-6, affine=False, device=like.device, dtype=like.dtype)
    least = 1 if norm is None else 2  # one image alone has no variance
    steps = math.ceil(n / settings.batch_size)
    epochs = settings.epochs_on(n)
    for epoch in range(epochs):
        order = torch.randperm(n, generator=generator(seed, "linear", "order", epoch))
        for step, (x, indices) in enumerate(train.batches(epoch, order.tensor_split(steps))):
            if len(indices) < least:
                continue
            progress = (epoch + step / steps) / epochs
            x, index = x.to(like), indices.to(like.device)
            factor = (1 + math.cos(math.pi * progress)) / 2
            layers.step(x if norm is None else norm(x), labels[index], sees[:, index], factor)
    return layers.values if norm is None else layers.behind(norm)


class _Layers:
    """R rates × G groups of linear layers that learn as one product.

    A group is of layers that see the same images; all layers start from the same weights.
    """

    def __init__(
        self,
        groups: int,
        classes: int,
        dim: int,
        settings: LinearSettings,
        seed: int,
        like: torch.Tensor,
    ) -> None:
        chance = generator(seed, "linear", "weights")
        weight = 0.01 * torch.randn(classes, dim, dtype=torch.float64, generator=chance)
        start = nn.functional.pad(weight, (0, 1))  # biases of 0
        rates = torch.tensor(sorted(settings.lrs), dtype=torch.float64)
        self.values = start.to(like).repeat(groups, len(rates), 1, 1)  # (G, R, K, D + 1)
        self.rates = (rates * settings.batch_size / 256).to(like)[:, None, None]
        self.velocity = torch.zeros_like(self.values)
        self.settings = settings

    def step(self, x: torch.Tensor, y: torch.Tensor, sees: torch.Tensor, factor: float) -> None:
        """A step of SGD, as torch.optim has it. x: (n, D), y: (n,), sees: (G, n) of 0 and 1.

        The loss of a layer is the mean cross-entropy of the images it sees.
        """
        x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
        logits = x @ self.values.flatten(0, 2).T
        error = logits.view(len(x), *self.values.shape[:3]).softmax(-1)  # (n, G, R, K)
        error[torch.arange(len(x), device=x.device), :, :, y] -= 1
        error *= (sees / sees.sum(1, keepdim=True).clamp(min=1)).T[:, :, None, None]
        gradient = (error.flatten(1).T @ x).view_as(self.values)
        gradient.add_(self.values, alpha=self.settings.weight_decay)
        self.velocity.mul_(self.settings.momentum).add_(gradient)
        if self.settings.nesterov:
            gradient.add_(self.velocity, alpha=self.settings.momentum)
        else:
            gradient = self.velocity
        self.values.addcmul_(gradient, self.rates * factor, value=-1)

    def behind(self, norm: nn.BatchNorm1d) -> torch.Tensor:
        """The layers that, on plain features, do what these do behind the trained norm."""
        assert norm.running_mean is not None
        assert norm.running_var is not None
        weight = self.values[..., :-1] / (norm.running_var + norm.eps).sqrt()
        bias = self.values[..., -1] - weight @ norm.running_mean
        return torch.cat([weight, bias[..., None]], dim=-1)
