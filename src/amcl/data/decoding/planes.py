"""Images with the values that their files have, whatever the format of the set."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from amcl.data.decoding.orientation import upright
from amcl.data.pixel_format import PixelType

Values = NDArray[Any]
Strips = Iterator[tuple[int, int, Values]]
_STRIP = 2**22  # values that are converted at a time


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a file says of its image before the pixels are read.

    Args:
        height: Height in pixels.
        width: Width in pixels.
        channels: Number of channels: 1 of gray, 3 of RGB, or that of bands. Alpha does not count.
        alpha: True if another channel says how opaque a pixel is.
        type: Narrowest type of stored values that holds those of the file.
        depth: Number of bits in use of uint16, where the file says so.
        maximum: Largest value that the file says is possible, which need not be true.
        is_picture: True for gray and RGB, of which it is known how they become each other; False
            for bands of an array.
        pages: Number of gray pages of a TIFF, of which the first is read, counted up to a limit.
        lacks: Name of the extra without which values are narrowed to 8 bits; "" if none is needed.
    """

    height: int
    width: int
    channels: int
    alpha: bool = False
    type: PixelType = "uint8"
    depth: int | None = None
    maximum: int | None = None
    is_picture: bool = True
    pages: int = 1
    lacks: str = ""


@dataclass(frozen=True)
class Planes:
    """An upright image with the values of its file.

    Args:
        header: Its size, channels and type.
        strips: Function that yields its rows in strips: first row, end, values (n, W, C); alpha,
            if there is any, is the last channel.
    """

    header: Header
    strips: Callable[[], Strips]

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return self.header.height, self.header.width


def planes_of(values: Values, header: Header, orientation: int = 1) -> Planes:
    """Return an image whose values are in memory.

    Args:
        values: All values (H, W, C) as they are stored.
        header: Its channels and type; the size is that of the values.
        orientation: Orientation by EXIF.
    """
    turned = upright(values, orientation)
    height, width, channels = turned.shape
    rows = max(1, _STRIP // (width * channels))

    def strips() -> Strips:
        for start in range(0, height, rows):
            stop = min(start + rows, height)
            yield start, stop, turned[start:stop]

    return Planes(replace(header, height=height, width=width), strips)
