"""A backbone with the facts about it: its run, its normalization, how far it was trained."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amcl.backbones import Backbone
from amcl.config import Config
from amcl.data.images import PerChannel
from amcl.data.pixel_format import RGB, PixelFormat

AS_BEFORE = "images are normalized as they were for these weights"
AS_IMAGENET = "images are normalized as ImageNet"
"""Notes on the normalization of models that are of no run."""


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A backbone to evaluate, embed with or export; `open_model` returns it."""

    name: str
    """Name for people: the run folder or file as the user typed it, or the timm model."""
    backbone: Backbone
    """The network, in evaluation mode and with `normalization` set."""
    mean: PerChannel
    """Means of the channels it was trained with, for values in [0, 1]."""
    std: PerChannel
    """Standard deviations of the channels."""
    is_normalized: bool = True
    """False if nothing says with which mean and std it was trained: then they are 0 and 1."""
    pixels: PixelFormat | None = None
    """Channels, type and range of the values of the images that it was trained on; None if nothing
    says it."""
    folder: Path | None = None
    """The run folder it belongs to."""
    checkpoint: Path | None = None
    """File of the whole method, with its heads."""
    config: Config | None = None
    """Configuration of the run."""
    images: int | None = None
    """Number of images it was trained on."""
    step: int | None = None
    """Number of steps it was trained for."""
    epoch: float | None = None
    """Number of epochs it was trained for."""
    untrained: bool = False
    """True if its weights are random."""
    notes: tuple[str, ...] = ()
    """Choices made on the user's behalf, as sentences."""

    def __post_init__(self) -> None:
        self.backbone.eval()
        self.backbone.normalization = (self.mean, self.std)

    def image_options(self) -> dict[str, Any]:
        """Return arguments of `load_dataset` and `load_all_images` for images as it takes them."""
        if self.pixels is None and len(self.mean) != RGB.channels:
            return {"channels": len(self.mean)}
        return {"pixels": self.pixels or RGB}

    def metadata(self) -> dict[str, Any]:
        """Return what a file of the weights says about them, as the files of a run do."""
        progress = {name: getattr(self, name) for name in ("images", "step", "epoch")}
        return {
            "image_size": self.backbone.image_size,
            "mean": self.mean,
            "std": self.std,
            **({} if self.pixels is None else self.pixels.metadata()),
            **{name: value for name, value in progress.items() if value is not None},
        }

    @staticmethod
    def from_metadata(
        name: str, backbone: Backbone, metadata: dict[str, Any], **fields: Any
    ) -> "LoadedModel":
        """Return the model whose file has this metadata; `fields` are the other fields."""
        return LoadedModel(
            name=name,
            backbone=backbone,
            mean=tuple(metadata["mean"]),
            std=tuple(metadata["std"]),
            pixels=_pixels(metadata, name),
            images=metadata.get("images"),
            step=metadata.get("step"),
            epoch=metadata.get("epoch"),
            **fields,
        )


def _pixels(metadata: dict[str, Any], name: str) -> PixelFormat | None:
    """Return the format of the images that a file's metadata describe; None if they do not."""
    pixels = PixelFormat.from_metadata(metadata, name)
    channels = len(metadata["mean"])
    if pixels == RGB and channels != RGB.channels:
        return None
    if pixels.channels != channels:
        raise ValueError(
            f"the metadata of {name} are of images of {pixels.channels} channels, with "
            f"{channels} means: they do not belong together."
        )
    return pixels
