"""Many linear layers on frozen features, trained in one pass: each learning rate and hold-out."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import nn

from amcl.progress import Progress
from amcl.seeds import generator

if TYPE_CHECKING:
    from amcl.evaluation.protocols.linear import LinearSettings


class TrainingFeatures(Protocol):
    """Features to train on: the same in every epoch, or new ones."""

    @property
    def dim(self) -> int:
        """Number of features of an image, D."""

    @property
    def labels(self) -> torch.Tensor:
        """Classes of the images in 0 … K−1, (N,)."""

    def batches(
        self, epoch: int, steps: Sequence[torch.Tensor]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield features (n, D) and the indices (n,) of their images, for each tensor of indices.

        There may be fewer than the indices asked for, even none.
        """


class FixedFeatures:
    """Features that are the same in every epoch.

    Args:
        values: Features, (N, D).
        labels: Classes of the images, (N,).

    Example:
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


def train_layers(
    train: TrainingFeatures,
    parts: Sequence[torch.Tensor],
    classes: int,
    settings: "LinearSettings",
    seed: int,
    like: torch.Tensor,
) -> torch.Tensor:
    """Train linear layers: a group without each of the parts, and the last group on all images.

    Args:
        train: Features and labels.
        parts: Indices of the images that are held out, a part for each group but the last.
        classes: Number of classes, K.
        settings: Settings of the linear probe.
        seed: Seed of the first weights and of the order of the images.
        like: A tensor that has the device and the type of the layers.

    Returns:
        Layers (G, R, K, D + 1) of G groups and R learning rates, in rising order; biases last.
    """
    n = len(train.labels)
    sees = like.new_ones(len(parts) + 1, n)  # (G, N)
    for group, part in enumerate(parts):
        sees[group, part.to(like.device)] = 0
    labels = train.labels.long().to(like.device)
    layers = _Layers(len(sees), classes, train.dim, settings, seed, like)
    norm = None
    if settings.norm == "batch":
        norm = nn.BatchNorm1d(
            train.dim, eps=1e-6, affine=False, device=like.device, dtype=like.dtype
        )
    least = 1 if norm is None else 2  # one image alone has no variance
    steps = math.ceil(n / settings.batch_size)
    epochs = settings.epochs_on(n)
    with Progress("training linear layers", epochs * steps) as progress:
        for epoch in range(epochs):
            order = torch.randperm(n, generator=generator(seed, "linear", "order", epoch))
            for step, (x, indices) in enumerate(train.batches(epoch, order.tensor_split(steps))):
                progress.advance(1)
                if len(indices) < least:
                    continue
                x = x.to(like) if norm is None else norm(x.to(like))
                index = indices.to(like.device)
                done = (epoch + step / steps) / epochs
                factor = (1 + math.cos(math.pi * done)) / 2
                layers.step(x, labels[index], sees[:, index], factor)
    return layers.values if norm is None else layers.with_norm(norm)


class _Layers:
    """Linear layers of G groups × R learning rates that are trained as one matrix product.

    The layers of a group see the same images. All layers start from the same weights.
    """

    def __init__(
        self,
        groups: int,
        classes: int,
        dim: int,
        settings: "LinearSettings",
        seed: int,
        like: torch.Tensor,
    ) -> None:
        random = generator(seed, "linear", "weights")
        weight = 0.01 * torch.randn(classes, dim, dtype=torch.float64, generator=random)
        start = nn.functional.pad(weight, (0, 1))  # biases of 0
        lrs = torch.tensor(sorted(settings.lrs), dtype=torch.float64)
        self.values = start.to(like).repeat(groups, len(lrs), 1, 1)  # (G, R, K, D + 1)
        self.lrs = (lrs * settings.batch_size / 256).to(like)[:, None, None]
        self.velocity = torch.zeros_like(self.values)
        self.settings = settings

    def step(self, x: torch.Tensor, y: torch.Tensor, sees: torch.Tensor, factor: float) -> None:
        """Take a step of SGD, as torch.optim does. x: (n, D), y: (n,), sees: (G, n) of 0 and 1.

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
        self.values.addcmul_(gradient, self.lrs * factor, value=-1)

    def with_norm(self, norm: nn.BatchNorm1d) -> torch.Tensor:
        """Return layers that do on features what these do behind the trained norm."""
        assert norm.running_mean is not None
        assert norm.running_var is not None
        weight = self.values[..., :-1] / (norm.running_var + norm.eps).sqrt()
        bias = self.values[..., -1] - weight @ norm.running_mean
        return torch.cat([weight, bias[..., None]], dim=-1)
