"""Settings of fine-tuning, and the steps that follow from them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch

from amcl.schedule import lr_factor
from amcl.seeds import generator
from amcl.settings import choose, non_negative, positive_number, whole_number
from amcl.views import ViewSettings, suited


@dataclass(frozen=True, kw_only=True)
class FinetuneSettings:
    """Settings of fine-tuning: the rate rises in a line, then falls to 0 by a cosine.

    Example:
        >>> FinetuneSettings(epochs=10, lr=2e-3).peak_rate()
        0.001
    """

    epochs: int = 50
    """Passes over the training images."""
    min_steps: int = 500
    """Least number of steps: with few images, epochs and warm-up are stretched to it."""
    batch_size: int = 128
    """Images a step, at most: an epoch is cut into steps of one size, give or take an image."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """AdamW, or SGD with Nesterov momentum 0.9."""
    lr: float = 1e-3
    """Learning rate for batches of 256: it is scaled by batch_size / 256."""
    scratch_lr: float = 4e-3
    """The same from scratch: fresh weights need a higher one."""
    weight_decay: float = 0.05
    """Weight decay, not of biases and norms (AdamW: decoupled)."""
    warmup_epochs: float | None = None
    """The learning rate rises over these epochs; none: over 5, at most a tenth of all."""
    layer_decay: float = 0.75
    """A layer learns at this share of the rate of the one above; 1: all alike, as from scratch."""
    drop_path: float = 0.1
    """Rate at which blocks are skipped in training (stochastic depth), rising with depth."""
    mixup: float = 0.8
    """α of mixup: every batch is mixed by mixup or by cutmix; 0 leaves mixup out."""
    cutmix: float = 1.0
    """α of cutmix; 0 leaves it out."""
    smoothing: float = 0.1
    """Share of each label that is spread over all classes."""
    erase: float = 0.25
    """Probability that a random rectangle of an image becomes noise."""
    views: str = "ae"
    """Random operations on images: a crop, b blur, c gray, d jitter, e flip, h channel drop, n
    noise, s solarize; c is for RGB, and so are the saturation and the hue of d."""
    crop_scale: tuple[float, float] = (0.08, 1.0)
    """Least and most share of the picture's area that a crop takes."""
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    """Strength of the jitter of brightness, contrast, saturation and hue, where "d" is on."""
    clip: float = 0.0
    """Clip the gradient to this norm; 0: not at all."""
    scratch: bool = False
    """Start from fresh weights, with the same rate in all layers: the supervised baseline."""

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            whole_number(name, getattr(self, name))
        choose("optimizer", self.optimizer, ("adamw", "sgd"))
        positive_number("lr", self.lr)
        positive_number("scratch_lr", self.scratch_lr)
        for name in ("min_steps", "weight_decay", "mixup", "cutmix", "clip"):
            non_negative(name, getattr(self, name), "0 switches it off")
        for name in ("drop_path", "smoothing", "erase"):
            if non_negative(name, getattr(self, name), "0 switches it off") >= 1:
                raise ValueError(f"{name} must be below 1, got {getattr(self, name)}.")
        if positive_number("layer_decay", self.layer_decay, "1 switches it off") > 1:
            raise ValueError(f"layer_decay must be at most 1, got {self.layer_decay}.")
        non_negative("warmup_epochs", self.warmup, "0 switches it off")
        if self.warmup >= self.epochs:
            raise ValueError(
                f"warmup_epochs = {self.warmup:g} leaves none of epochs = {self.epochs} to "
                "train at the full rate: lower it, 0 switches it off, or train for longer."
            )
        self.view_settings()  # checks its own settings

    @property
    def warmup(self) -> float:
        """Number of epochs of the warm-up.

        Example:
            >>> FinetuneSettings().warmup, FinetuneSettings(epochs=2).warmup
            (5.0, 0.2)
        """
        if self.warmup_epochs is None:
            return min(5.0, self.epochs / 10)
        return self.warmup_epochs

    def peak_rate(self) -> float:
        """Return the highest learning rate, that of the head."""
        return (self.scratch_lr if self.scratch else self.lr) * self.batch_size / 256

    def view_settings(self, channels: int = 3) -> ViewSettings:
        """Return the settings of training views; solarize is as likely as in a second view.

        Args:
            channels: Number of channels of the images. Where it is not 3, the default of the jitter
                is without saturation and hue.
        """
        settings = ViewSettings(
            operations=self.views,
            crop_scale=self.crop_scale,
            jitter=self.jitter,
            solarize_p=(ViewSettings().solarize_p[1],) * 2,
        )
        is_default = self.jitter == type(self).jitter
        return suited(settings, channels, ("views",) if is_default else ("views", "jitter"))[0]


@dataclass(frozen=True)
class Plan:
    """The images and the learning rate of each step.

    Example:
        >>> plan = Plan.of(10, FinetuneSettings(epochs=6, batch_size=4, min_steps=0), seed=0)
        >>> plan.total, [len(step) for step in plan.steps(5)]
        (18, [4, 3, 3])
    """

    images: int
    per_epoch: int
    epochs: int
    warmup: int
    seed: int

    @staticmethod
    def of(images: int, settings: FinetuneSettings, seed: int) -> "Plan":
        """Return the plan for this number of images."""
        per_epoch = math.ceil(images / settings.batch_size)
        epochs = max(settings.epochs, math.ceil(settings.min_steps / per_epoch))
        warmup = round(per_epoch * epochs * settings.warmup / settings.epochs)
        return Plan(images, per_epoch, epochs, warmup, seed)

    @property
    def total(self) -> int:
        """Number of steps of all epochs."""
        return self.per_epoch * self.epochs

    def steps(self, epoch: int) -> Iterator[torch.Tensor]:
        """Yield the indices of each step, from an epoch on: every image comes once an epoch."""
        for number in range(epoch, self.epochs):
            random = generator(self.seed, "finetune", "order", number)
            yield from torch.randperm(self.images, generator=random).tensor_split(self.per_epoch)

    def factor(self, step: int) -> float:
        """Return the learning rate of a step, as a share of its peak."""
        # A step ahead within the warm-up: short runs have no step to spend at a rate of 0.
        return lr_factor(step + (step < self.warmup), self.total, self.warmup)
