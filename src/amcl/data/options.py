"""What a user may choose about how a data set is read."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

from amcl.data.images import Images
from amcl.settings import choose, non_negative, whole_number

Labels = Literal["auto", "folders", "none"]
ProbeSplit = Literal["validation", "test", "none"]

BANK = 10_000  # images to probe with while training


@dataclass(frozen=True, kw_only=True)
class Options:
    """The choices of `load_dataset`, checked."""

    image_size: int | None
    canvas: int | None
    labels: Labels
    probe: ProbeSplit
    validation: int
    memory: float
    workers: int
    seed: int
    subset: int | None
    bank: int | None

    def __post_init__(self) -> None:
        choose("labels", self.labels, ("auto", "folders", "none"))
        choose("probe", self.probe, ("validation", "test", "none"))
        if self.image_size is not None:
            whole_number("image_size", self.image_size, "give the side of the views in pixels")
        if self.canvas is not None:
            whole_number("canvas", self.canvas, "give the side of decoded pictures in pixels")
        _count("validation", self.validation, "give how many images to hold out, or 0 for none")
        if self.subset is not None:
            whole_number("subset", self.subset, "give how many images to train on, or None for all")
        if self.bank is not None:
            whole_number("bank", self.bank, "give how many images to compare with, or None for all")
        _count("workers", self.workers, "give how many processes decode, or 0 for none")
        non_negative("memory", self.memory, "give GiB of decoded images to keep, 0 keeps none")

    @property
    def probes(self) -> bool:
        """Return whether labels are of any use."""
        nothing_held_out = self.probe == "validation" and self.validation == 0
        return self.labels != "none" and self.probe != "none" and not nothing_held_out

    def bank_of(self, images: int) -> int:
        """Return the number of images in the bank; a test takes them all."""
        return images if self.bank is None or self.probe == "test" else self.bank

    def check_canvas(self, images: Images) -> None:
        """Raise an error if a canvas was given for images that are not decoded from files."""
        side = images.canvas[0]
        if self.canvas not in (None, side):
            raise ValueError(
                f"canvas={self.canvas}: these images are stored at {side} pixels and are not "
                "resampled; leave canvas out, and set image_size for larger views."
            )

    def fits_memory(self, images: Images) -> bool:
        height, width = images.canvas
        return len(images) * 3 * height * width <= self.memory * 2**30


def _count(name: str, value: Any, fix: str) -> None:
    if not (isinstance(value, Integral) and int(value) >= 0):
        raise ValueError(f"{name} must be a whole number, at least 0, got {value!r}: {fix}.")
