"""Images with the values of their files, in the format of a set and resized."""

import numpy as np
import torch
from torch.nn.functional import interpolate

from amcl.data.decoding.conversion import conversion
from amcl.data.decoding.planes import Planes
from amcl.data.pixel_format import TOP, PixelFormat

_BLOCK = 2**26  # values of some channels that are resized at a time


def to_format(
    planes: Planes, pixels: PixelFormat, size: tuple[int, int] | None = None
) -> torch.Tensor:
    """Return an image in the format of a set.

    Args:
        planes: The image.
        pixels: The format.
        size: Height and width to resize to; None for those of the image.

    Returns:
        Pixels (C, H, W) of the type of the format.

    Raises:
        ValueError: The image cannot follow the format; the message says why.
    """
    height, width = planes.shape
    to_height, to_width = size or planes.shape
    convert = conversion(planes, pixels)
    result = torch.empty(pixels.channels, to_height, to_width, dtype=pixels.dtype)
    block = max(1, _BLOCK // (height * to_width))
    for first in range(0, pixels.channels, block):
        part = slice(first, first + block)
        channels = torch.empty(len(result[part]), height, to_width)
        for start, stop, values in planes.strips():
            strip = convert(values, part).transpose(2, 0, 1)
            rows = torch.from_numpy(np.ascontiguousarray(strip))
            channels[:, start:stop] = (
                rows if width == to_width else resized(rows, stop - start, to_width)
            )
        whole = channels if height == to_height else resized(channels, to_height, to_width)
        result[part] = _stored(whole, pixels)
    return result


def resized(pixels: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Return pixels (C, H, W) of another size, uint8 or float32, with antialiasing."""
    # As Pillow resizes, to within 2 of 255, in a third of the time. First the width, then the
    # height is what it does itself.
    return interpolate(pixels[None], (height, width), mode="bicubic", antialias=True)[0]


def _stored(values: torch.Tensor, pixels: PixelFormat) -> torch.Tensor:
    """Return values that are meant to lie in [0, 1] as they are stored."""
    if pixels.type == "float32":
        return values
    top = TOP[pixels.type]
    return (values * top).round_().clamp_(0, top).to(pixels.dtype)
