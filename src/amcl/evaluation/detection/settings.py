"""Settings of detection, and the values that recipes give to those that are left out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import tyro

from amcl.evaluation.detection.detector_settings import DetectorSettings
from amcl.printable import counted
from amcl.settings import (
    choose,
    non_negative,
    non_negative_int,
    positive_number,
    whole_number,
)
from amcl.training.fit import suitable_batch

RecipeName = Literal["small", "paper"]
_UNIT = 32  # images have a multiple of it: the coarsest maps have a stride of 32
_MAX_LR = 1e9  # beyond it, a step may not be a float32 number
_LEAST_SCALE = 0.05  # of images of 32 pixels, which torch cannot shrink to one
_LARGEST = 640  # pixels a side that the small recipe takes at most
_FILES = ("train_annotations", "train_images", "test_annotations", "test_images")

# The paper follows MAE, which follows arXiv 2111.11429: AdamW, 8e-5, batches of 64, jitter of
# scale from 0.1 to 2 on 1024 pixels, 100 epochs (or 50, or 25), a short warm-up.
RECIPES: dict[str, Mapping[str, Any]] = {
    "small": {
        "batch_size": 8,
        "lr": 2e-4,
        "weight_decay": 0.05,
        "clip": 1.0,
        "scale_jitter": (0.5, 1.5),
    },
    "paper": {
        "image_size": 1024,
        "epochs": 100,
        "batch_size": 64,
        "lr": 8e-5,
        "weight_decay": 0.1,
        "warmup_epochs": 0.25,
        "clip": 0.0,
        "scale_jitter": (0.1, 2.0),
    },
}


@dataclass(frozen=True, kw_only=True)
class DetectionSettings:
    """Settings of a detector that is trained on annotated images. None: as the recipe has it.

    Example:
        >>> settings = DetectionSettings(epochs=3).resolved(images=318, longest=320)
        >>> settings.image_size, settings.batch_size, settings.lr
        (320, 8, 0.0002)
    """

    data: str | None = None
    """A folder with images and annotations in COCO's layout, or builtin: pictures of shapes."""
    train_annotations: str | None = None
    """File of the training annotations, in COCO's JSON format, where it is not in --data."""
    train_images: str | None = None
    """Folder of the training images."""
    test_annotations: str | None = None
    """File of the test annotations; none: val2017 and the like, or a tenth of the training images
    is held out."""
    test_images: str | None = None
    """Folder of the test images."""
    categories: tuple[str, ...] = ()
    """Names of the categories that are detected, as in --categories person car; none: all. Images
    without them stay, as background."""
    subset: int | None = None
    """Number of training images that are used, the same for every model; none: all."""
    recipe: RecipeName = "small"
    """small: for up to some ten thousand images; paper: what the paper follows, arXiv 2111.11429,
    for COCO and many GPUs."""
    image_size: int | None = None
    """Pixels a side: the longest side of an image is scaled to it; none: that of most training
    images, at most 640 (recipe paper: 1024)."""
    epochs: int | None = None
    """Passes over the training images; none: 12, or as many as 2,000 steps take (recipe paper:
    100)."""
    batch_size: int | None = None
    """Images a step, over all processes; none: 8 (recipe paper: 64)."""
    accumulate: int = 1
    """Number of parts that a batch is cut into, one after the other, to save memory."""
    lr: float | None = None
    """Learning rate of AdamW; none: 2e-4 (recipe paper: 8e-5)."""
    weight_decay: float | None = None
    """Weight decay, not of biases, norms and positions; none: 0.05 (recipe paper: 0.1)."""
    warmup_epochs: float | None = None
    """The learning rate rises over these epochs, then falls by a cosine; none: a tenth, at most one
    (recipe paper: 0.25)."""
    layer_decay: float = 1.0
    """A layer of the backbone learns at this share of the rate of the one above; 1: all alike."""
    clip: float | None = None
    """Clip the gradient to this norm, 0: not at all; none: 1 (recipe paper: 0)."""
    scale_jitter: tuple[float, float] | None = None
    """Images are scaled by a random factor from this range, then cropped or padded; none: 0.5 to
    1.5 (recipe paper: 0.1 to 2)."""
    flip_p: float = 0.5
    """Probability of a horizontal flip."""
    scratch: bool = False
    """Start from random weights instead of those of the model."""
    evaluate_every: int = 0
    """Epochs between evaluations on the test images, for the log alone: the result is always that
    of the last epoch; 0: evaluate at the end."""
    detector: Annotated[DetectorSettings, tyro.conf.OmitArgPrefixes] = field(
        default_factory=DetectorSettings
    )
    """The network around the backbone."""

    def __post_init__(self) -> None:
        choose("recipe", self.recipe, tuple(RECIPES))
        if len(set(self.categories)) < len(self.categories):
            raise ValueError(
                f"categories must each be named once, got {', '.join(self.categories)}."
            )
        for name in ("epochs", "batch_size", "subset", "accumulate"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name))
        for name in ("lr", "layer_decay"):
            if getattr(self, name) is not None:
                positive_number(name, getattr(self, name))
        if self.lr is not None and self.lr > _MAX_LR:
            raise ValueError(f"lr must be at most {_MAX_LR:g}, got {self.lr:g}: 2e-4 is usual.")
        for name in ("weight_decay", "warmup_epochs", "clip", "flip_p"):
            if getattr(self, name) is not None:
                non_negative(name, getattr(self, name), "0 switches it off")
        non_negative_int("evaluate_every", self.evaluate_every, "0 evaluates at the end alone")
        if self.layer_decay > 1 or self.flip_p > 1:
            name = "layer_decay" if self.layer_decay > 1 else "flip_p"
            raise ValueError(f"{name} must be at most 1, got {getattr(self, name):g}.")
        if self.scale_jitter is not None:
            low, high = (positive_number("scale_jitter", v) for v in self.scale_jitter)
            if low < _LEAST_SCALE:
                raise ValueError(
                    f"scale_jitter must be at least {_LEAST_SCALE:g}, got {low:g}: images would "
                    "shrink to a pixel."
                )
            if low > high:
                raise ValueError(
                    f"scale_jitter goes from the least factor to the greatest, got {low:g} "
                    f"{high:g}: use {high:g} {low:g}; 1 1 switches it off."
                )
        if self.image_size is not None:
            self._check_size(whole_number("image_size", self.image_size, "it is in pixels"))

    @staticmethod
    def _check_size(size: int) -> None:
        if size % _UNIT:
            raise ValueError(
                f"image_size={size} is no multiple of {_UNIT}, the stride of the coarsest maps: "
                f"use {max(round(size / _UNIT), 1) * _UNIT}."
            )

    def resolved(self, *, images: int, longest: int, processes: int = 1) -> "DetectionSettings":
        """Return the settings with a value for everything that was left out.

        Args:
            images: Number of training images.
            longest: Longest side of a typical training image, in pixels.
            processes: Number of processes that share a batch.
        """
        values = {n: v for n, v in RECIPES[self.recipe].items() if getattr(self, n) is None}
        settings = replace(self, **values)
        unit = settings.accumulate * processes
        batch = settings.batch_size or 0
        if self.batch_size is None:
            batch = suitable_batch(images, max(batch, unit), unit)
        if batch > images or batch % unit:
            raise ValueError(
                f"a batch of {batch} images does not fit into the {images} there are, or does not "
                f"divide among {counted(processes, 'process', 'processes')} and "
                f"{counted(settings.accumulate, 'part')}: choose a multiple of {unit} of at most "
                f"{images} for --batch-size."
            )
        epochs = settings.epochs or max(12, math.ceil(2000 / (images // batch)))
        warmup = settings.warmup_epochs
        warmup = min(1.0, epochs / 10) if warmup is None else warmup
        if warmup >= epochs:
            raise ValueError(
                f"warmup_epochs={warmup:g} leaves none of epochs={epochs} to train at the full "
                "rate: lower it, or train for more --epochs."
            )
        size = settings.image_size or min(max(math.ceil(longest / _UNIT), 2) * _UNIT, _LARGEST)
        return replace(
            settings,
            batch_size=batch,
            epochs=epochs,
            warmup_epochs=warmup,
            image_size=size,
            detector=settings.detector.for_images(size),
        )

    def image_files(self) -> dict[str, Any]:
        """Return the settings that name images and annotations."""
        return {name: getattr(self, name) for name in ("data", *_FILES)}

    def training(self) -> dict[str, Any]:
        """Return the settings that are not names of files, nested as they are."""
        from dataclasses import asdict

        return {n: v for n, v in asdict(self).items() if n not in ("data", *_FILES)}

    def check(self) -> None:
        """Raise an error, before anything is trained, if there is nothing to train on."""
        if self.data is None and self.train_annotations is None:
            raise ValueError(
                "detection needs annotated images: name a folder in COCO's layout, as in "
                "`amcl detect RUN --data COCO` (`amcl evaluate RUN --protocols detect "
                "--detect.data COCO`), or a file with --train-annotations; builtin stands for "
                "small pictures of shapes."
            )
