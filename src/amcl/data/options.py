"""The options of `load_dataset`."""

from dataclasses import dataclass
from typing import Literal

from amcl.data.images import Images, PerChannel
from amcl.data.pixel_format import PixelFormat, ValueRange
from amcl.printable import counted
from amcl.settings import choose, non_negative, non_negative_int, whole_number

Labels = Literal["auto", "folders", "none"]
ProbeSplit = Literal["validation", "test", "none"]
Channels = int | Literal["auto"]

BANK = 10_000  # images to probe with while training


def missing_labels(reason: str) -> str:
    """Return the message for images without classes where a method learns from them.

    >>> missing_labels("there is one class").split(":")[0]
    'the method learns from classes of the training images, and there is one class'
    """
    return (
        f"the method learns from classes of the training images, and {reason}: sort them into "
        "<class>/<file>, use --labels folders if the first level of folders are the classes, or "
        "choose a method without labels, such as --method simclr."
    )


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """The options of `load_dataset`, checked."""

    image_size: int | None
    canvas: int | None
    labels: Labels
    probe: ProbeSplit
    validation: int
    memory: float
    workers: int
    seed: int = 0
    subset: int | None = None
    bank: int | None = None
    train_labels: bool = False
    channels: Channels = "auto"
    value_range: ValueRange | None = None
    pixels: PixelFormat | None = None
    normalization: tuple[PerChannel, PerChannel] | None = None

    def __post_init__(self) -> None:
        choose("labels", self.labels, ("auto", "folders", "none"))
        choose("probe", self.probe, ("validation", "test", "none"))
        if self.channels != "auto":
            whole_number("channels", self.channels, "give the number of channels, or auto")
        if self.value_range is not None:
            PixelFormat(value_range=self.value_range)  # checks it
        if self.train_labels and self.labels == "none":
            raise ValueError(missing_labels("labels='none' leaves them out"))
        optional = {
            "image_size": "give the side of the views in pixels",
            "canvas": "give the side of decoded images in pixels",
            "subset": "give the number of images to train on, or None for all",
            "bank": "give the number of images to compare with, or None for all",
        }
        for name, fix in optional.items():
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), fix)
        hold_out_fix = "give the number of images to hold out, or 0 for none"
        non_negative_int("validation", self.validation, hold_out_fix)
        workers_fix = "give the number of processes that decode, or 0 for none"
        non_negative_int("workers", self.workers, workers_fix)
        non_negative("memory", self.memory, "give GiB of decoded images to keep, 0 keeps none")

    @property
    def uses_labels(self) -> bool:
        """Return whether features are judged by labels."""
        nothing_held_out = self.probe == "validation" and self.validation == 0
        return self.labels != "none" and self.probe != "none" and not nothing_held_out

    @property
    def reads_labels(self) -> bool:
        """Return whether labels are used at all, to judge features or to train."""
        return self.uses_labels or self.train_labels

    @property
    def split(self) -> Literal["validation", "test"]:
        """The split that features are judged on."""
        return "test" if self.probe == "test" else "validation"

    def bank_size(self, images: int) -> int:
        """Return the number of images in the bank; a test takes them all."""
        return images if self.bank is None or self.probe == "test" else self.bank

    def check_canvas(self, images: Images) -> None:
        """Raise an error if a canvas is set for images that are not decoded from files."""
        side = images.canvas[0]
        if self.canvas not in (None, side):
            raise ValueError(
                f"canvas={self.canvas}: these images are stored at {side} pixels and are not "
                "resampled; leave canvas out, and set image_size for larger views."
            )

    def check_pixels(self, images: Images) -> None:
        """Raise an error if other pixels are wanted of images that are stored as tensors."""
        stored = counted(images.channels, "channel")
        if self.channels not in ("auto", images.channels):
            raise ValueError(
                f"--channels {self.channels}: this set is stored with {stored}. Leave it out."
            )
        if self.value_range is not None:
            raise ValueError(
                "--value-range: this set is stored with 8 bits, of which 0 … 255 always count as "
                "0 … 1. Leave --value-range out."
            )
        if self.pixels is not None and self.pixels.channels != images.channels:
            raise ValueError(
                f"this set has images of {stored}, and the model was trained on images of "
                f"{self.pixels.channels} (--channels): give other images with --data."
            )

    def fits_memory(self, images: Images) -> bool:
        """Return whether the decoded images may be kept in memory."""
        height, width = images.canvas
        size = images.channels * images.dtype.itemsize * height * width
        return len(images) * size <= self.memory * 2**30
