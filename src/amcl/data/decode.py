"""Decoding of an encoded image into pixels on a square canvas, whatever its format is."""

from typing import BinaryIO, Literal

import torch

from amcl.data.decoding import arrays, dicom, picture_planes, pictures, png, tiff, tiff_tags
from amcl.data.decoding.formatting import to_format
from amcl.data.decoding.limits import MAX_MEGAPIXELS, MAX_SIDE, UnreadableImage, opened
from amcl.data.decoding.pictures import HEIF_EXTENSIONS
from amcl.data.decoding.planes import Header, Planes
from amcl.data.pixel_format import RGB, PixelFormat
from amcl.data.records import Record

__all__ = [
    "ARRAY_EXTENSIONS",
    "DECODING",
    "DICOM_EXTENSIONS",
    "EXTENSIONS",
    "FORMATS",
    "HEIF_EXTENSIONS",
    "MAX_MEGAPIXELS",
    "MAX_SIDE",
    "PICTURE_EXTENSIONS",
    "UnreadableImage",
    "decode",
    "decode_whole",
    "image_format",
    "read_header",
    "read_planes",
    "size",
]

DECODING = 3  # raised when the same file gives other pixels, so that cached features are recomputed
ARRAY_EXTENSIONS = arrays.EXTENSIONS
DICOM_EXTENSIONS = dicom.EXTENSIONS
FORMATS = (*pictures.FORMATS, *[dicom.FORMAT] * dicom.is_installed(), "NumPy")
PICTURE_EXTENSIONS = (*pictures.EXTENSIONS, *dicom.EXTENSIONS * dicom.is_installed())
EXTENSIONS = (*PICTURE_EXTENSIONS, *ARRAY_EXTENSIONS)
_FIRST = 132  # bytes that tell the formats that Pillow does not read

_Kind = Literal["array", "dicom", "tiff", "png16", "picture"]


def decode(
    record: Record, canvas: int, pixels: PixelFormat = RGB
) -> tuple[torch.Tensor, tuple[int, int]]:
    """Decode the first frame of an image.

    The image is upright by its EXIF orientation and squashed onto the square with antialiasing; an
    image of the canvas's size keeps its pixels. Transparent parts lie on white, unless the format
    has a channel for them. Images above `MAX_MEGAPIXELS` or with a side above `MAX_SIDE` are not
    decoded, which bounds the memory.

    Args:
        record: The image.
        canvas: Side of the square in pixels.
        pixels: The format of the set.

    Returns:
        Pixels (C, canvas, canvas) of the format, and the true (height, width) of the image.

    Raises:
        UnreadableImage: The file is no image, or one that cannot follow the format.
    """
    with opened(record, _recognized()) as file:
        kind = _kind(file)
        if pixels == RGB and _is_for_pillow(file, kind):
            return pictures.decode_rgb(file, canvas)
        planes = _planes(file, kind, pixels.channels)
        return to_format(planes, pixels, (canvas, canvas)), planes.shape


def decode_whole(record: Record, size: tuple[int, int], pixels: PixelFormat = RGB) -> torch.Tensor:
    """Decode the first frame of an image in its own size.

    Pixels are those of `decode`. A picture is upright by its EXIF orientation if it then has the
    size that is expected, and as it is stored if that has.

    Args:
        record: The image.
        size: Height and width that are expected.
        pixels: The format of the set.

    Returns:
        Pixels (C, H, W) of the format.

    Raises:
        UnreadableImage: The file is no image, or one of another size.
    """
    with opened(record, _recognized()) as file:
        kind = _kind(file)
        if pixels == RGB and _is_for_pillow(file, kind):
            return pictures.decode_whole_rgb(file, size)
        planes = _planes(file, kind, pixels.channels)
        if planes.shape != size:
            height, width = planes.shape
            raise ValueError(
                f"{width:,} × {height:,} pixels instead of {size[1]:,} × {size[0]:,}, width × "
                "height"
            )
        return to_format(planes, pixels)


def read_header(record: Record, channels: int | None = None) -> Header:
    """Return what the header of an image says.

    Args:
        record: The image.
        channels: Number of channels that the set has; None if that is open.

    Raises:
        UnreadableImage: The file is no image.
    """
    with opened(record, _recognized()) as file:
        kind = _kind(file)
        if kind == "array":
            return arrays.header(file, channels)
        if kind == "dicom":
            return dicom.header(file)
        if kind == "tiff":
            return tiff.header(file, channels)
        return png.header(file) if kind == "png16" else picture_planes.header(file)


def read_planes(record: Record, channels: int | None = None) -> Planes:
    """Return an image with the values of its file; its strips can be read after that.

    Args:
        record: The image.
        channels: Number of channels that the set has; None if that is open.

    Raises:
        UnreadableImage: The file is no image.
    """
    with opened(record, _recognized()) as file:
        return _planes(file, _kind(file), channels)


def size(record: Record, channels: int | None = None) -> tuple[int, int]:
    """Return the (height, width) in an image's header, without its orientation."""
    facts = read_header(record, channels)
    return facts.height, facts.width


def image_format(record: Record) -> str | None:
    """Return the format of a file by its first bytes, whatever its name; None if it is no image.

    HEIF and DICOM are recognized even if they cannot be read: see `FORMATS`. Arrays are not, since
    most of them are no images.
    """
    first = b""
    try:
        with opened(record, "") as file:
            first = file.read(_FIRST)
            file.seek(0)
            if dicom.is_dicom(first):
                return dicom.FORMAT
            if first.startswith(tiff_tags.SIGNATURES) and tiff.is_beyond_pillow(file):
                return "TIFF"
            return pictures.picture_format(file)
    except UnreadableImage:
        return "HEIF" if pictures.is_heif(first) else None


def _kind(file: BinaryIO) -> _Kind:
    """Return which reader an image is for, by its first bytes."""
    first = file.read(_FIRST)
    file.seek(0)
    if first.startswith((arrays.NPY, arrays.ZIP)):
        return "array"
    if dicom.is_dicom(first):
        return "dicom"
    if first.startswith(tiff_tags.SIGNATURES):
        return "tiff"
    return "png16" if png.is_deep(first) else "picture"


def _is_for_pillow(file: BinaryIO, kind: _Kind) -> bool:
    """Return whether Pillow makes 8-bit RGB of an image."""
    if kind == "tiff":
        return not tiff.is_beyond_pillow(file)
    return kind in ("png16", "picture")


def _planes(file: BinaryIO, kind: _Kind, channels: int | None) -> Planes:
    if kind == "array":
        return arrays.planes(file, channels)
    if kind == "dicom":
        return dicom.planes(file)
    if kind == "tiff":
        return tiff.planes(file, channels)
    return png.planes(file) if kind == "png16" else picture_planes.planes(file)


def _recognized() -> str:
    return ", ".join(FORMATS)
