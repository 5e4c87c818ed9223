"""Channels, type and range of the values that images are stored with."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NotRequired, TypedDict

import torch

from amcl.settings import choose, whole_number
from amcl.text_files import require

PixelType = Literal["uint8", "uint16", "float32"]
ValueRange = tuple[float, float]

DTYPES: dict[PixelType, torch.dtype] = {
    "uint8": torch.uint8,
    "uint16": torch.uint16,
    "float32": torch.float32,
}
TOP: dict[PixelType, float] = {"uint8": 255.0, "uint16": 65535.0, "float32": 1.0}
"""Stored value that counts as 1; 0 is stored as 0."""


@dataclass(frozen=True, kw_only=True)
class PixelFormat:
    """Form in which the images of a set are stored, whatever their files hold.

    Args:
        channels: Number C of channels.
        type: Type of the stored values: of uint8 0 … 255 and of uint16 0 … 65,535 count as 0 … 1;
            float32 is as it counts.
        value_range: Values of files with more than 8 bits that count as 0 and as 1. It is one for
            the whole set. Values outside of it are kept as float32, and cut off as uint16.

    Example:
        >>> PixelFormat(channels=13, type="uint16", value_range=(0, 4095)).dtype
        torch.uint16
        >>> PixelFormat() == RGB
        True
    """

    channels: int = 3
    type: PixelType = "uint8"
    value_range: ValueRange = (0.0, 255.0)

    def __post_init__(self) -> None:
        whole_number("channels", self.channels)
        choose("type", self.type, tuple(DTYPES))
        low, high = self.value_range
        if not float("-inf") < low < high < float("inf"):
            raise ValueError(
                f"value_range must be two numbers, the lower one first, got {low:g} {high:g}."
            )

    @property
    def dtype(self) -> torch.dtype:
        """Type of the stored tensors."""
        return DTYPES[self.type]

    @property
    def bytes_per_pixel(self) -> int:
        """Bytes of all channels of a pixel."""
        return self.channels * self.dtype.itemsize

    def metadata(self) -> dict[str, Any]:
        """Return what files say of the format: nothing of 8-bit RGB, which is the usual one.

        >>> RGB.metadata(), PixelFormat(channels=1).metadata()
        ({}, {'pixels': {'channels': 1, 'type': 'uint8', 'value_range': (0.0, 255.0)}})
        """
        return {} if self == RGB else {"pixels": asdict(self)}

    @staticmethod
    def from_metadata(metadata: Mapping[str, Any], where: object) -> "PixelFormat":
        """Return the format that the metadata of a file describes.

        Args:
            metadata: The metadata.
            where: The file, for errors.
        """
        require(metadata, _Metadata, f"the metadata of {where}")
        pixels = metadata.get("pixels")
        if pixels is None:
            return RGB
        try:
            return PixelFormat(**{**pixels, "value_range": tuple(pixels["value_range"])})
        except (TypeError, ValueError) as error:
            raise ValueError(f"the metadata of {where} describe no pixels: {error}") from None


RGB = PixelFormat()
"""8-bit RGB."""


def format_of(channels: int, dtype: torch.dtype) -> PixelFormat:
    """Return the format of pixels whose values fill the range of their type.

    >>> format_of(3, torch.uint8) == RGB, format_of(1, torch.uint16).value_range
    (True, (0.0, 65535.0))
    """
    kind = next(name for name, type in DTYPES.items() if type == dtype)
    return PixelFormat(channels=channels, type=kind, value_range=(0.0, TOP[kind]))


class _Pixels(TypedDict):
    channels: int
    type: str
    value_range: tuple[float, float]


class _Metadata(TypedDict):
    """What a file says of the images, so far as it is about their pixels."""

    pixels: NotRequired[_Pixels]
