"""Fine-tuning as a task: a classifier on labeled images."""

from collections.abc import Callable, Generator
from contextlib import closing
from itertools import islice, tee
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from amcl.data import Batch, Labeled, stream
from amcl.evaluation.finetuning.classifier import parameter_groups, seeded
from amcl.evaluation.finetuning.plan import FinetuneSettings, Plan
from amcl.metrics.features import Transform
from amcl.seeds import generator
from amcl.training.log import RunLog
from amcl.training.task import Task


class FinetuningTask(Task):
    """Trains a classifier on labeled images.

    Args:
        model: The classifier with its first weights, on its device.
        train: The training images and their labels.
        classes: Number of classes.
        transform: Size and normalization of the images.
        settings: Settings of fine-tuning.
        seed: Order, views, mixing and drop path follow from it.
        workers: Number of processes that decode images; 0 decodes in this one.
        identity: All that the result depends on, by name: a checkpoint of another identity is
            refused.
    """

    def __init__(
        self,
        model: nn.Module,
        train: Labeled,
        classes: int,
        transform: Transform,
        settings: FinetuneSettings,
        *,
        seed: int = 0,
        workers: int = 0,
        identity: dict[str, str] | None = None,
    ) -> None:
        self.plan = Plan.of(len(train.images), settings, seed)
        super().__init__(
            model.train(),
            _optimizer(model, settings),
            peak_lr=settings.peak_rate(),
            epochs=self.plan.epochs,
            per_epoch=self.plan.per_epoch,
            batch_size=settings.batch_size,
            clip=settings.clip,
        )
        self.device = next(model.parameters()).device
        self.train = train
        self.classes = classes
        self.settings = settings
        self.seed = seed
        self.workers = workers
        self.identity = identity or {}
        self.views = transform.views(settings.view_settings(transform.channels))
        self.losses: list[float] = []
        """Mean loss of each epoch."""
        self.unreadable: dict[str, str] = {}
        """Files that could not be read, with the reason."""
        # Of the epoch so far. Steps differ by an image, and files may be missing, so that the mean
        # of an epoch is that of its images.
        self._loss_sum = torch.zeros((), device=self.device)
        self._num_images = 0

    def batches(
        self, step: int, on_wait: Callable[[], None]
    ) -> Generator[tuple[torch.Tensor, Batch], None, None]:
        """Yield the indices and the images of each step, from a step on."""
        epoch, position = divmod(step, self.per_epoch)
        indices, requested = tee(islice(self.plan.steps(epoch), position, None))
        images = self.train.images
        batches = stream(images, requested, workers=self.workers, replace=False, on_wait=on_wait)
        with closing(batches):
            yield from zip(indices, batches, strict=True)

    def lr_factor(self, step: int) -> float:
        """Return the learning rate of a step, as a share of its peak."""
        return self.plan.factor(step)

    def loss(
        self,
        model: nn.Module,
        batch: tuple[torch.Tensor, Batch],
        step: int,
        part: int = 0,
        watch: bool = False,
    ) -> torch.Tensor | None:
        """Return the cross-entropy on augmented and mixed images; None if too few can be read."""
        indices, images = batch
        self.unreadable |= dict(images.unreadable)
        n = len(images.pixels)
        # Batch norm may fail on one image, which unreadable files can leave of a batch.
        if n < min(2, len(indices)):
            return None
        labels = images.select(self.train.labels[indices]).to(self.device)
        parameters = self.views.draw(
            n, generator=generator(self.seed, "finetune", "views", step), shapes=images.shapes
        )
        views = self.views(images.pixels.to(self.device), parameters.first().to(self.device))[0]
        with seeded(self.seed, "finetune", "step", step, device=self.device):
            views, targets = mixed(views, labels, self.classes, self.settings)
            loss = F.cross_entropy(model(views), targets)
        self._loss_sum += n * loss.detach()
        self._num_images += n
        return loss

    def end_epoch(self, step: int, log: RunLog) -> None:
        """Keep the mean loss of the epoch."""
        if not self._num_images:
            first = ": ".join(next(iter(self.unreadable.items())))
            raise ValueError(f"too few of the training images can be read; the first: {first}.")
        self.losses.append(self._loss_sum.item() / self._num_images)
        self._loss_sum.zero_()
        self._num_images = 0

    def remedies(self) -> list[str]:
        """Return settings that may help after the training has diverged."""
        name = "scratch_lr" if self.settings.scratch else "lr"
        lr = getattr(self.settings, name)
        return [f"{name} below {lr:g}", "more warmup_epochs", "clip=1"]

    def state_dict(self) -> dict[str, Any]:
        """Return the weights, and the losses and unreadable files so far."""
        return {
            "identity": self.identity,
            "model": self.module.state_dict(),
            "losses": self.losses,
            "image_loss_sum": self._loss_sum,
            "num_images": self._num_images,
            "unreadable": self.unreadable,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned, if it is the same training."""
        stored = state.get("identity", {})
        changed = [name for name, value in self.identity.items() if stored.get(name) != value]
        if changed:
            raise ValueError(f"was left by a fine-tuning with other {', '.join(changed)}")
        self.module.load_state_dict(state["model"])
        self.losses = state["losses"]
        self._loss_sum.copy_(state["image_loss_sum"])
        self._num_images = state["num_images"]
        self.unreadable = state["unreadable"]


def mixed(
    images: torch.Tensor, labels: torch.Tensor, classes: int, settings: FinetuneSettings
) -> tuple[torch.Tensor, torch.Tensor]:
    """Erase parts of images (N, C, S, S) and mix them in pairs.

    Random numbers are drawn from the global generators of Python, NumPy and torch.

    Returns:
        The images, and soft targets (N, classes).
    """
    from timm.data.mixup import Mixup
    from timm.data.random_erasing import RandomErasing

    labels = labels.long()
    n = len(labels)
    if settings.erase:
        erase = RandomErasing(  # type: ignore[no-untyped-call]
            settings.erase, mode="pixel", device=images.device
        )
        images = erase(images)
    if not (settings.mixup or settings.cutmix):
        hard = F.one_hot(labels, classes).to(images.dtype)
        return images, hard * (1 - settings.smoothing) + settings.smoothing / classes
    mix = Mixup(  # type: ignore[no-untyped-call]
        settings.mixup, settings.cutmix, label_smoothing=settings.smoothing, num_classes=classes
    )
    if n % 2:  # timm mixes even batches: here the first image is its own partner
        images = torch.cat([images, images[:1]])
        labels = torch.cat([labels, labels[:1]])
    images, targets = mix(images, labels)
    return images[:n], targets[:n]


def _optimizer(model: nn.Module, settings: FinetuneSettings) -> torch.optim.Optimizer:
    groups = parameter_groups(model, settings.weight_decay, settings.layer_decay)
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=settings.lr)
    return torch.optim.SGD(groups, lr=settings.lr, momentum=0.9, nesterov=True)
