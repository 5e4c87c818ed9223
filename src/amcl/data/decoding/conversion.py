"""Conversion of the values and channels of a file to those of a set."""

from collections.abc import Callable

import numpy as np

from amcl.data.decoding.planes import Header, Planes, Values
from amcl.data.decoding.values import check_finite, count_values, depth_in_use
from amcl.data.pixel_format import DTYPES, TOP, PixelFormat, PixelType, ValueRange

Scale = Callable[[Values], Values]
Convert = Callable[[Values, slice], Values]

_ORDER = tuple(DTYPES)  # from narrow to wide
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R 601, as Pillow has it
_PICTURES = (1, 3)  # channels of gray and RGB


def conversion(planes: Planes, pixels: PixelFormat) -> Convert:
    """Return the function from values (n, W, C) of a file to some channels of a set.

    Gray and RGB become each other, transparent parts lie on white, and opaque pictures in a set of
    four channels are RGBA.

    Args:
        planes: The image.
        pixels: The format of the set.

    Returns:
        A function of values and of a slice of the channels of the set. It returns float32, where
        0 … 1 is the range of values.

    Raises:
        ValueError: The image cannot follow; the message says why.
    """
    header = planes.header
    own, channels = header.channels, pixels.channels
    check_channels(header, channels)
    color = _scale(_range(planes, pixels), header.type)
    opacity = _scale((0.0, TOP[header.type]), header.type)

    def convert(values: Values, part: slice) -> Values:
        if own == channels and not header.alpha:
            return color(values[..., part])
        picture = color(values[..., :own])
        alpha = opacity(values[..., own:]) if header.alpha else np.ones_like(picture[..., :1])
        if channels not in _PICTURES:
            rgb = picture if own + 1 == channels else picture.repeat(3, axis=2)
            return np.concatenate([rgb, alpha], axis=2)[..., part]
        if header.alpha:
            picture = picture * alpha + (1 - alpha)
        if own < channels:
            picture = picture.repeat(channels, axis=2)
        elif own > channels:
            picture = picture @ _LUMA[:, None]
        return picture[..., part]

    return convert


def check_channels(header: Header, channels: int) -> None:
    """Raise an error if the channels of an image cannot become those of a set."""
    own = header.channels
    as_they_are = channels == own + header.alpha
    as_pictures = own in _PICTURES and channels in _PICTURES
    as_rgba = own in _PICTURES and channels == 4 and header.is_picture
    if not (as_they_are or as_pictures or as_rgba):
        kind = "channel" if own == 1 else "channels"
        raise ValueError(f"{own} {kind}, where {channels} are expected (--channels)")


def own_range(planes: Planes) -> ValueRange:
    """Return the range of one image by itself: that of its bits, else least and greatest value."""
    header = planes.header
    low, high = np.inf, -np.inf
    for _, _, values in planes.strips():
        color = values[..., : header.channels]
        check_finite(color)
        low = min(low, float(color.min()))
        high = max(high, float(color.max()))
    if header.type == "uint16":
        return 0.0, 2.0 ** (header.depth or _depth(planes, int(high))) - 1
    return (low, high) if low < high else (low, low + 1)


def _depth(planes: Planes, largest: int) -> int:
    strips = (values[..., : planes.header.channels] for _, _, values in planes.strips())
    return depth_in_use(largest, lambda: count_values(strips))


def _range(planes: Planes, pixels: PixelFormat) -> ValueRange:
    """Return the values of a file that count as 0 and 1."""
    kind = planes.header.type
    if kind == "uint8":
        return 0.0, TOP["uint8"]
    if pixels.type == "uint8":
        return own_range(planes)
    if _ORDER.index(kind) > _ORDER.index(pixels.type):
        raise ValueError(
            "fractions, negative or 32-bit values, and those of this set have 16 bits: convert it, "
            "or keep such images in a set of their own"
        )
    return pixels.value_range


def _scale(value_range: ValueRange, kind: PixelType) -> Scale:
    """Return the function from values of a file to float32, where 0 … 1 is the range."""
    low, high = value_range
    # Integers of up to 16 bits are whole in float32; others may need more digits until scaled.
    dtype = np.dtype(np.float64 if kind == "float32" else np.float32)
    offset = dtype.type(low)
    factor = dtype.type(1 / (high - low))

    def scale(values: Values) -> Values:
        check_finite(values)
        scaled: Values = (values.astype(dtype) - offset) * factor
        return scaled.astype(np.float32, copy=False)

    return scale
