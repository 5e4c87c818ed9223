"""Training of a detector as a task: images with objects, the losses of all its heads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from amcl.data.coco import CocoSet
from amcl.evaluation.detection.batches import DetectionBatch, detection_batches
from amcl.evaluation.detection.networks import parameter_groups
from amcl.evaluation.detection.settings import DetectionSettings
from amcl.schedule import lr_factor
from amcl.seeds import seed_of
from amcl.training.log import RunLog
from amcl.training.plan import Plan
from amcl.training.task import Task

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger("amcl")

Validate = Callable[[], dict[str, float]]


class DetectionTask(Task):
    """Trains a detector on annotated images.

    Args:
        fabric: Devices and processes.
        model: The detector with its first weights.
        data: The training images.
        settings: Settings, resolved.
        fill: Color with which images are padded.
        seed: Order, jitter, samples of proposals and drop path follow from it.
        workers: Number of processes that read images.
        identity: All that the result depends on, by name: a checkpoint of another identity is
            refused.
        validate: Function that measures the detector on test images, on every process.
    """

    def __init__(
        self,
        fabric: Fabric,
        model: nn.Module,
        data: CocoSet,
        settings: DetectionSettings,
        *,
        fill: tuple[int, int, int],
        seed: int = 0,
        workers: int = 0,
        identity: dict[str, str] | None = None,
        validate: Validate | None = None,
    ) -> None:
        assert settings.epochs
        assert settings.batch_size
        assert settings.lr is not None
        assert settings.weight_decay is not None
        self.plan = Plan(
            len(data),
            settings.batch_size,
            settings.accumulate,
            settings.epochs,
            seed,
            fabric.global_rank,
            fabric.world_size,
        )
        groups = parameter_groups(model, settings.weight_decay, settings.layer_decay)
        super().__init__(
            model.train(),
            torch.optim.AdamW(groups, lr=settings.lr),
            peak_lr=settings.lr,
            epochs=settings.epochs,
            per_epoch=self.plan.per_epoch,
            batch_size=settings.batch_size,
            accumulate=settings.accumulate,
            clip=settings.clip or 0.0,
        )
        self.fabric = fabric
        self.data = data
        self.settings = settings
        self.fill = fill
        self.seed = seed
        self.workers = workers
        self.identity = identity or {}
        self.validate = validate
        self._last_losses: dict[str, torch.Tensor] = {}
        self._unreadable = set[str]()

    def batches(
        self, step: int, on_wait: Callable[[], None]
    ) -> Generator[DetectionBatch, None, None]:
        """Return the images of this process, part by part, from a step on."""
        return detection_batches(
            self.data,
            self._draws(step),
            self.settings,
            seed=self.seed,
            fill=self.fill,
            workers=self.workers,
            on_wait=on_wait,
        )

    def _draws(self, step: int) -> Iterator[torch.Tensor]:
        """Yield the images of each part, each with the number of its draw over the training."""
        for number, indices in enumerate(self.plan.indices(step)):
            first = (step + number // self.accumulate) * self.batch_size
            start, stop = self.plan.rows(number % self.accumulate)
            yield torch.stack([indices, torch.arange(first + start, first + stop)], 1)

    def lr_factor(self, step: int) -> float:
        """Return the learning rate of a step, as a share of its peak."""
        warmup = (self.settings.warmup_epochs or 0.0) * self.per_epoch
        # A step ahead within the warm-up: short runs have no step to spend at a rate of 0.
        return lr_factor(step + (step < warmup), self.total, warmup)

    def before_step(self, step: int) -> None:
        """Seed the step: samples of anchors and proposals, and drop path."""
        torch.manual_seed(seed_of(self.seed, "detect", "step", step, self.fabric.global_rank))

    def loss(
        self,
        model: nn.Module,
        batch: DetectionBatch,
        step: int,
        part: int = 0,
        watch: bool = False,
    ) -> torch.Tensor:
        """Return the sum of the losses of the region proposals and of all heads."""
        for path, reason in batch.unreadable:
            if path not in self._unreadable:
                logger.warning("skipped %s: %s", path, reason)
                self._unreadable.add(path)
        device = self.fabric.device
        images = list(batch.pixels.to(device).float().div(255))
        targets = [
            {
                "boxes": example["boxes"].to(device),
                "labels": example["labels"].to(device) + 1,  # 0 is the background
                **(
                    {"masks": example["masks"].to(device, torch.uint8)}
                    if "masks" in example
                    else {}
                ),
            }
            for example in batch.examples
        ]
        losses: dict[str, torch.Tensor] = model(images, targets)
        if watch:
            self._last_losses = {name: value.detach() for name, value in losses.items()}
        return torch.stack(list(losses.values())).sum()

    def log_metrics(self) -> dict[str, float]:
        """Return the losses of the last step by name."""
        return {name: value.item() for name, value in self._last_losses.items()}

    def end_epoch(self, step: int, log: RunLog) -> None:
        """Measure the detector for the log where that is due; the last epoch is measured anyway."""
        is_due = self.ends_epoch(step, self.settings.evaluate_every) and step < self.total
        if self.validate is not None and is_due:
            metrics = self.validate()
            if self.fabric.is_global_zero:
                log.probe(step, metrics, [])

    def remedies(self) -> list[str]:
        """Return options that may help after the training has diverged."""
        return [f"--lr below {self.peak_lr:g}", "a longer --warmup-epochs", "--clip 1"]

    def state_dict(self) -> dict[str, Any]:
        """Return the weights, and what they depend on."""
        return {"identity": self.identity, "model": self.module.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned, if it is the same training."""
        stored = state.get("identity", {})
        changed = [name for name, value in self.identity.items() if stored.get(name) != value]
        if changed:
            raise ValueError(f"it was left by a training with other {', '.join(changed)}")
        self.module.load_state_dict(state["model"])
