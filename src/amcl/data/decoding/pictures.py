"""Pictures that Pillow reads, as 8-bit RGB."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, BinaryIO

import numpy as np
import torch
from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile

from amcl.data.decoding.formatting import resized
from amcl.data.decoding.limits import check_size
from amcl.data.decoding.orientation import REVERSES_ROWS, SWAPS_SIDES, UPRIGHT, orientation_of
from amcl.data.decoding.tiff_tags import stated_depth
from amcl.data.decoding.values import check_finite, count_values, depth_in_use

_STRIP = 2**21  # pixels that are converted at a time, apart from which a decoder holds one copy

# Formats are given to Pillow by name: the content of a file, not its name, picks the reader, and
# readers that start other programs (EPS) or only pass data on (HDF5) are never among them.
_EXTENSIONS_OF = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "MPO": (),  # JPEGs that hold several images
    "PNG": (".png", ".apng"),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "DIB": (".dib",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
    "TGA": (".tga",),
    "JPEG2000": (".jp2",),
    "AVIF": (".avif",),
    "HEIF": (".heic", ".heif", ".hif"),  # with the extra "heic"
}
Image.init()
if find_spec("pillow_heif") is not None:
    import pillow_heif

    pillow_heif.register_heif_opener()
FORMATS = tuple(name for name in _EXTENSIONS_OF if name in Image.OPEN)  # as Pillow was built
EXTENSIONS = tuple(extension for name in FORMATS for extension in _EXTENSIONS_OF[name])
HEIF_EXTENSIONS = _EXTENSIONS_OF["HEIF"]
_HEIF_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_RECOGNIZABLE = tuple(name for name in FORMATS if name not in ("DIB", "TGA"))  # have no signature

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
Values = np.ndarray[tuple[int, ...], np.dtype[Any]]


def decode_rgb(file: BinaryIO, canvas: int) -> tuple[torch.Tensor, tuple[int, int]]:
    """Decode the first frame of a picture into 8-bit RGB on a square canvas.

    Args:
        file: The encoded picture.
        canvas: Side of the square in pixels.

    Returns:
        Pixels, uint8 (3, canvas, canvas), and the true (height, width) of the upright picture.
    """
    with open_picture(file) as image:
        width, height = image.size
        check_size(height, width)
        # JPEGs are decoded at 1/2, 1/4 or 1/8 where that is still no smaller than the canvas.
        image.draft(None, (canvas, canvas))
        image.load()
        orientation = orientation_of(
            image
        )  # now, because Pillow turns TIFFs itself as it loads them
        pixels = _narrowed(image, orientation, canvas)
    if pixels.shape[1:] != (canvas, canvas):
        pixels = resized(pixels, canvas, canvas)
    return pixels.contiguous(), (width, height) if orientation in SWAPS_SIDES else (height, width)


def decode_whole_rgb(file: BinaryIO, size: tuple[int, int]) -> torch.Tensor:
    """Decode the first frame of a picture into 8-bit RGB in its own size.

    Args:
        file: The encoded picture.
        size: Height and width that are expected, of the picture upright or as it is stored.

    Returns:
        Pixels, uint8 (3, H, W).
    """
    with open_picture(file) as image:
        check_size(image.height, image.width)
        image.load()
        orientation = orientation_of(image)
        stored = (image.height, image.width)
        upright = stored[::-1] if orientation in SWAPS_SIDES else stored
        if size not in (upright, stored):
            raise ValueError(
                f"{upright[1]:,} × {upright[0]:,} pixels instead of {size[1]:,} × {size[0]:,}, "
                "width × height"
            )
        return _narrowed(image, orientation if size == upright else 1, size[1]).contiguous()


def _narrowed(image: Image.Image, orientation: int, canvas: int) -> torch.Tensor:
    """Return the upright RGB pixels (3, H, canvas) of an image, resized along the width.

    It is done in strips of rows: besides the image as it is stored, none of its copies is whole.
    An image of a single strip is returned in its own width: to resize both sides at once gives the
    same pixels in two thirds of the time.
    """
    to_rgb = _rgb_converter(image)
    height = image.width if orientation in SWAPS_SIDES else image.height
    pixels = torch.empty(3, height, canvas, dtype=torch.uint8)
    for start, stop, strip in strips(image, orientation):
        rgb = to_rgb(strip)
        if orientation in UPRIGHT:
            rgb = rgb.transpose(UPRIGHT[orientation])
        rows = torch.from_numpy(np.array(rgb)).permute(2, 0, 1)
        if stop - start == height:
            return rows
        pixels[:, start:stop] = rows if rgb.width == canvas else resized(rows, len(rows[0]), canvas)
    return pixels


def strips(image: Image.Image, orientation: int = 1) -> Iterator[tuple[int, int, Image.Image]]:
    """Yield strips of rows of the upright image, as they are stored: first row, end, pixels."""
    swaps = orientation in SWAPS_SIDES
    length, across = image.size if swaps else image.size[::-1]
    rows = max(1, _STRIP // across)
    for start in range(0, length, rows):
        stop = min(start + rows, length)
        begin, end = start, stop
        if orientation in REVERSES_ROWS:
            begin, end = length - stop, length - start
        yield start, stop, image.crop((begin, 0, end, across) if swaps else (0, begin, across, end))


def picture_format(file: BinaryIO) -> str | None:
    """Return the format of a picture by its first bytes, as Pillow calls it."""
    with open_picture(file, _RECOGNIZABLE) as image:
        return image.format


def is_heif(first: bytes) -> bool:
    """Return whether a file is HEIF by its first bytes, also where Pillow cannot read it."""
    return first[4:8] == b"ftyp" and first[8:12] in _HEIF_BRANDS


@contextmanager
def open_picture(file: BinaryIO, formats: tuple[str, ...] = FORMATS) -> Iterator[Image.Image]:
    """Open a picture by its content."""
    with Image.open(file, formats=formats) as image:
        yield image


def _rgb_converter(image: Image.Image) -> Callable[[Image.Image], Image.Image]:
    """Return the function that turns a strip of this image into RGB."""
    if image.mode.startswith("I") or image.mode == "F":
        eight_bits = _eight_bits(image)
        return lambda strip: Image.fromarray(eight_bits(np.asarray(strip))).convert("RGB")
    return _rgb


def _rgb(strip: Image.Image) -> Image.Image:
    if strip.has_transparency_data:
        rgba = strip.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return strip.convert("RGB")


def _eight_bits(image: Image.Image) -> Callable[[Values], Bytes]:
    """Return the scaling of gray: up to 16 bits by depth; 32 bits and floats, without, by range."""
    low, high = math.inf, -math.inf
    whole = True
    for _, _, strip in strips(image):
        values: Values = np.asarray(strip)
        check_finite(values)
        whole = values.dtype.kind in "iu"
        low = min(low, float(values.min()))
        high = max(high, float(values.max()))
    if whole and low >= 0 and high <= 65535:
        top = 2 ** _depth(image, int(high)) - 1
        table = np.rint(np.arange(top + 1) * (255 / top)).astype(np.uint8)
        return lambda values: table[values]
    factor = 255 / max(high - low, np.finfo(np.float64).tiny)
    return lambda values: np.rint((values.astype(np.float64) - low) * factor).astype(np.uint8)


def _depth(image: Image.Image, largest: int) -> int:
    """Return the number of bits in use: what a TIFF says, else what the values tell.

    Readers of other formats than TIFF and PNG scale to 16 bits themselves.
    """
    if image.format not in ("TIFF", "PNG"):
        return 16
    if isinstance(image, TiffImageFile):
        stated, maximum = stated_depth(image.tag_v2)
        if stated is not None:
            return stated
        if maximum is not None and largest <= maximum <= 65535:
            largest = maximum
    return depth_in_use(
        largest, lambda: count_values(np.asarray(strip) for _, _, strip in strips(image))
    )
