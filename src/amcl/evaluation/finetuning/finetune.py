"""Fine-tuning: a classifier trained end to end, from a backbone or from fresh weights."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from amcl.checkpoints.files import load_checkpoint
from amcl.data import Labeled
from amcl.errors import Interrupted, RunError
from amcl.evaluation.finetuning.classifier import classifier
from amcl.evaluation.finetuning.plan import FinetuneSettings
from amcl.evaluation.finetuning.task import FinetuningTask
from amcl.files import digest
from amcl.metrics.features import Transform, features_of, fingerprint
from amcl.printable import counted
from amcl.settings import choose, whole_number
from amcl.training.display import Display
from amcl.training.hardware import StopRequest, fabric_on
from amcl.training.log import RunLog
from amcl.training.loop import train as train_task
from amcl.training.saving import CheckpointPolicy
from amcl.training.trainer import Trainer

Precision = Literal["32", "bf16"]


@dataclass(frozen=True, kw_only=True, eq=False)
class FinetuneResult:
    """Results of a classifier after its last epoch. Accuracies are shares, from 0 to 1."""

    top1: float
    """Accuracy on the test images."""
    top5: float | None
    """Share of images whose class is among the five likeliest; None for five classes or fewer."""
    losses: tuple[float, ...]
    """Mean loss of each epoch, on augmented and mixed images."""
    steps: int
    """Number of steps of all epochs."""
    lr: float
    """The highest learning rate, that of the head."""
    layer_decay: float
    """The layer decay that was used: 1 from scratch."""
    unreadable: tuple[tuple[str, str], ...]
    """Training and test files that were left out, with the reason."""
    predicted: torch.Tensor
    """(m,): the likeliest class of each test image that could be read."""
    truth: torch.Tensor
    """(m,): their true classes."""
    state_dict: dict[str, torch.Tensor]
    """Weights of the classifier; of a `Backbone`, with timm's keys."""

    def metrics(self) -> dict[str, float]:
        """Return the metrics to report."""
        top5 = {} if self.top5 is None else {"top5": self.top5}
        return {"top1": self.top1} | top5

    def details(self) -> dict[str, Any]:
        """Return the course of the training: epochs, losses, files that were left out."""
        note = f"{counted(len(self.unreadable), 'unreadable file')} left out"
        return {
            "epochs": len(self.losses),
            "steps": self.steps,
            "lr": self.lr,
            "layer_decay": self.layer_decay,
            "train_loss": list(self.losses),
            "unreadable": len(self.unreadable),
            "notes": [note] if self.unreadable else [],
        }


_DEFAULTS = FinetuneSettings()


def finetune(
    backbone: nn.Module,
    train: Labeled,
    test: Labeled,
    classes: int,
    transform: Transform,
    settings: FinetuneSettings = _DEFAULTS,
    *,
    device: torch.device | str = "cpu",
    workers: int = 0,
    seed: int = 0,
    precision: Precision = "32",
    checkpoint: Path | None = None,
) -> FinetuneResult:
    """Train a backbone and a linear layer on `train`, and measure the accuracy on `test`.

    Files that cannot be read are left out.

    Args:
        backbone: The network to start from, which is left as it is.
        train: The training images, of which random views are made.
        test: The test images.
        classes: Number of classes.
        transform: Size and normalization of the images.
        settings: Settings of the training.
        device: The device to train on.
        workers: Number of processes that decode images; 0 decodes in this one.
        seed: Everything random follows from it.
        precision: Precision of the network; "bf16" needs a GPU.
        checkpoint: A file to resume from, to the same weights, where the training was stopped. It
            is removed at the end.

    Returns:
        Accuracies after the last epoch, losses and weights.

    Raises:
        Interrupted: Ctrl-C, SIGTERM or SIGHUP stopped the training, and it is saved in
            `checkpoint`.
        NonFiniteError: The training has diverged.

    Example:
        >>> from amcl.backbones import Backbone, BackboneSettings
        >>> from amcl.data import MemoryImages
        >>> backbone = Backbone(BackboneSettings(name="resnet18", width=0.125), image_size=16)
        >>> pixels = torch.randint(256, (8, 3, 16, 16), dtype=torch.uint8)
        >>> images = Labeled(MemoryImages(pixels), torch.arange(8) % 2)
        >>> settings = FinetuneSettings(epochs=1, warmup_epochs=0, min_steps=0)
        >>> result = finetune(backbone, images, images, 2, Transform(image_size=16), settings)
        >>> result.steps, sorted(result.metrics())
        (1, ['top1'])
    """
    device = torch.device(device)
    _check(train, test, classes, device, precision)
    if settings.scratch:
        settings = replace(settings, layer_decay=1.0)
    model = classifier(
        backbone,
        classes,
        image_size=transform.image_size,
        channels=transform.channels,
        drop_path=settings.drop_path,
        scratch=settings.scratch,
        seed=seed,
    ).to(device)
    identity = {}
    if checkpoint is not None:
        labels = train.labels.cpu().long().contiguous().numpy().data
        identity = {
            "settings": repr(settings),
            "transform": repr(transform),
            "seed": repr(seed),
            "precision": precision,
            "images": digest([train.images.fingerprint().encode(), labels]),
            "weights": fingerprint(model),
        }
    task = FinetuningTask(
        *(model, train, classes, transform, settings),
        seed=seed,
        workers=workers,
        identity=identity,
    )
    _train(Trainer(fabric_on(device, precision), task), checkpoint)
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        logits = features_of(model, test.images, transform, device=device, workers=workers)
    truth = test.labels[logits.indices].long()
    hits = _hits(logits.values, truth)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    return FinetuneResult(
        top1=hits[:, 0].double().mean().item(),
        top5=hits.any(1).double().mean().item() if classes > 5 else None,
        losses=tuple(task.losses),
        steps=task.total,
        lr=task.peak_lr,
        layer_decay=settings.layer_decay,
        unreadable=(*task.unreadable.items(), *logits.unreadable),
        predicted=logits.values.argmax(1),
        truth=truth,
        state_dict={name: value.cpu().clone() for name, value in model.state_dict().items()},
    )


def supervised(
    backbone: nn.Module,
    train: Labeled,
    indices: torch.Tensor,
    test: Labeled,
    classes: int,
    transform: Transform,
    settings: FinetuneSettings = _DEFAULTS,
    *,
    device: torch.device | str = "cpu",
    workers: int = 0,
    seed: int = 0,
    precision: Precision = "32",
) -> float:
    """Train the same network from fresh weights on few labels alone.

    Where a batch does not fit into the images it shrinks, and epochs are added until there are
    `min_steps` steps.

    Args:
        backbone: The network, whose weights are not used.
        train: The training images.
        indices: Indices (n,) of the training images that are used.
        test: The test images.
        classes: Number of classes.
        transform: Size and normalization of the images.
        settings: Settings of the training.
        device: The device to train on.
        workers: Number of processes that decode images; 0 decodes in this one.
        seed: Everything random follows from it.
        precision: Precision of the network; "bf16" needs a GPU.

    Returns:
        The accuracy on the test images.

    Example:
        >>> from amcl.backbones import Backbone, BackboneSettings
        >>> from amcl.data import MemoryImages
        >>> backbone = Backbone(BackboneSettings(name="resnet18", width=0.125), image_size=16)
        >>> pixels = torch.randint(256, (8, 3, 16, 16), dtype=torch.uint8)
        >>> images = Labeled(MemoryImages(pixels), torch.arange(8) % 2)
        >>> labeled = torch.tensor([0, 1, 2, 3])
        >>> settings = FinetuneSettings(epochs=1, warmup_epochs=0, min_steps=0)
        >>> transform = Transform(image_size=16)
        >>> 0 <= supervised(backbone, images, labeled, images, 2, transform, settings) <= 1
        True
    """
    return finetune(
        backbone,
        train.subset(indices),
        test,
        classes,
        transform,
        replace(settings, scratch=True),
        device=device,
        workers=workers,
        seed=seed,
        precision=precision,
    ).top1


def _train(trainer: Trainer, checkpoint: Path | None) -> None:
    """Train to the end, from the checkpoint if there is one."""
    if checkpoint is not None and checkpoint.exists():
        fix = "remove it to start again, or name another file"
        try:
            trainer.load_state_dict(load_checkpoint(checkpoint))
        except RunError as error:
            raise ValueError(f"{error}: {fix}.") from error
        except ValueError as error:
            raise ValueError(f"{checkpoint} {error}: {fix}.") from error
    task = trainer.task
    saving = CheckpointPolicy(trainer, checkpoint, "Resume it by the same command.")
    stop = StopRequest()
    # Without a checkpoint nothing could be saved, and a signal does what it always does.
    with (
        nullcontext() if checkpoint is None else stop,
        Display(task.total, task.per_epoch, task.batch_size, name="fine-tuning") as display,
    ):
        train_task(trainer, saving, RunLog(display), stop)
        if stop.signal is not None:  # it came after the last step
            raise Interrupted(saving.how_to_resume(), stop.signal)


def _check(
    train: Labeled, test: Labeled, classes: int, device: torch.device, precision: str
) -> None:
    whole_number("classes", classes)
    for what, part in (("training", train), ("test", test)):
        if not len(part.labels):
            raise ValueError(f"there are no {what} images: give at least 1.")
        low, high = int(part.labels.min()), int(part.labels.max())
        if low < 0 or high >= classes:
            raise ValueError(
                f"labels of the {what} images go from {low} to {high}: with classes={classes} they "
                f"must lie in 0 … {classes - 1}."
            )
    choose("precision", precision, ("32", "bf16"))
    if precision == "bf16" and device.type == "cpu":
        raise ValueError(
            "precision='bf16' is for GPUs: some CPUs announce instructions for it that end the "
            "program when they are run. Use precision='32' on a CPU."
        )


def _hits(logits: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Return whether the likeliest class is the true one, the second, …, in up to 5 columns."""
    likeliest = logits.topk(min(5, logits.shape[1]), dim=1).indices
    return likeliest == truth[:, None]
