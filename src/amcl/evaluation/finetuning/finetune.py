"""Fine-tuning: a classifier trained end to end, from a backbone or from fresh weights."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from amcl.data import Labeled
from amcl.evaluation.finetuning.classifier import classifier
from amcl.evaluation.finetuning.plan import FinetuneSettings
from amcl.evaluation.finetuning.training import Checkpoint, Precision, Trainer
from amcl.metrics.features import Transform, features_of
from amcl.settings import choose, whole_number


@dataclass(frozen=True, kw_only=True, eq=False)
class FinetuneResult:
    """What the classifier does after its last epoch. Accuracies are shares, from 0 to 1."""

    top1: float
    """Accuracy on the test images."""
    top5: float | None
    """The true class is among the five likeliest; None for five classes or fewer."""
    losses: tuple[float, ...]
    """Mean loss of each epoch, on augmented and mixed images."""
    steps: int
    """Steps of all epochs."""
    lr: float
    """The highest learning rate, that of the head."""
    layer_decay: float
    """As it was used: 1 from scratch."""
    unreadable: tuple[tuple[str, str], ...]
    """Training and test files that were left out, with the reason."""
    predicted: torch.Tensor
    """(m,): the likeliest class of each test image that could be read."""
    truth: torch.Tensor
    """(m,): their true classes."""
    state_dict: dict[str, torch.Tensor]
    """Weights of the classifier; of a `Backbone`, with timm's keys."""

    def metrics(self) -> dict[str, float]:
        """The figures to report."""
        top5 = {} if self.top5 is None else {"top5": self.top5}
        return {"top1": self.top1} | top5

    def details(self) -> dict[str, Any]:
        """How the training went."""
        left_out = f"{len(self.unreadable)} unreadable files left out"
        return {
            "epochs": len(self.losses),
            "steps": self.steps,
            "lr": self.lr,
            "layer_decay": self.layer_decay,
            "train_loss": list(self.losses),
            "unreadable": len(self.unreadable),
            "notes": [left_out] if self.unreadable else [],
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
    """Train backbone and a linear layer on `train`; accuracy on `test` after the last epoch.

    `backbone` is left as it is. `transform` is that of the test images; training images get random
    views of its size. With `checkpoint`, training that was stopped resumes from that file, to the
    same weights; it is removed at the end. Files that cannot be read are left out.

    >>> from amcl.backbones import Backbone, BackboneSettings
    >>> from amcl.data import MemoryImages
    >>> backbone = Backbone(BackboneSettings(name="resnet18", width=0.125), image_size=16)
    >>> pixels = torch.randint(256, (8, 3, 16, 16), dtype=torch.uint8)
    >>> images = Labeled(MemoryImages(pixels), torch.arange(8) % 2)
    >>> settings = FinetuneSettings(epochs=1, warmup_epochs=0, min_steps=0)
    >>> found = finetune(backbone, images, images, 2, Transform(image_size=16), settings)
    >>> found.steps, sorted(found.metrics())
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
        drop_path=settings.drop_path,
        scratch=settings.scratch,
        seed=seed,
    ).to(device)
    trainer = Trainer(model, train, classes, transform, settings, device, seed, precision)
    saved = None if checkpoint is None else Checkpoint(checkpoint, trainer.identity())
    trainer.run(workers, saved)
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        found = features_of(model, test.images, transform, device=device, workers=workers)
    truth = test.labels[found.indices].long()
    hits = _hits(found.values, truth)
    if saved is not None:
        saved.remove()
    return FinetuneResult(
        top1=hits[:, 0].double().mean().item(),
        top5=hits.any(1).double().mean().item() if classes > 5 else None,
        losses=tuple(trainer.losses),
        steps=trainer.plan.total,
        lr=trainer.peak,
        layer_decay=settings.layer_decay,
        unreadable=(*trainer.unreadable.items(), *found.unreadable),
        predicted=found.values.argmax(1),
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
    """Accuracy on `test` of the same network from fresh weights, trained on few labels alone.

    Only the images `indices` (n,) of `train` are used. Where a batch does not fit into them it
    shrinks, and epochs are added until there are `min_steps` steps.
    """
    few, fresh = train.subset(indices), replace(settings, scratch=True)
    return finetune(
        backbone,
        few,
        test,
        classes,
        transform,
        fresh,
        device=device,
        workers=workers,
        seed=seed,
        precision=precision,
    ).top1


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
    """(N, 5) or fewer columns: whether the likeliest class is the true one, the second, …"""
    likeliest = logits.topk(min(5, logits.shape[1]), dim=1).indices
    return likeliest == truth[:, None]
