"""Decoding of an image file into RGB pixels on a square canvas."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile
from torch.nn.functional import interpolate

from amcl.data.records import Record
from amcl.printable import printable

DECODING = 3  # raised when the same file gives other pixels, so that cached features are recomputed
MAX_MEGAPIXELS = 160  # medium-format cameras have 150
MAX_SIDE = 65_535  # that of a JPEG
_TOO_LARGE = f"above the limit of {MAX_MEGAPIXELS} megapixels: scale it down or cut it up"
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

_DEPTHS = (8, 10, 12, 14, 16)  # bits that cameras and microscopes have
_BITS_PER_SAMPLE = 258  # tags of TIFF
_MAX_SAMPLE = 281
_MAX_SAMPLES = 341

_ORIENTATION = 0x0112
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SWAPS_SIDES = (5, 6, 7, 8)
_REVERSES_ROWS = (3, 4, 7, 8)

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
Values = np.ndarray[tuple[int, ...], np.dtype[Any]]


class UnreadableImage(Exception):
    """A file that is no image, with the reason.

    Args:
        path: The file.
        reason: The reason.

    Example:
        >>> print(UnreadableImage("a.jpg", "empty file (0 bytes)"))
        a.jpg: empty file (0 bytes)
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = printable(path)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def decode(record: Record, canvas: int) -> tuple[torch.Tensor, tuple[int, int]]:
    """Decode the first frame of an image file.

    The image is upright by its EXIF orientation, RGB (transparent parts on white), and squashed
    onto the square with antialiasing; an image of the canvas's size keeps its pixels. Images above
    `MAX_MEGAPIXELS` or with a side above `MAX_SIDE` are not decoded, which bounds the memory.

    Args:
        record: The image.
        canvas: Side of the square in pixels.

    Returns:
        Pixels, uint8 (3, canvas, canvas), and the true (height, width) of the image.

    Raises:
        UnreadableImage: The file is no image.
    """
    with _open(record) as image:
        width, height = image.size
        _check_size(height, width)
        # JPEGs are decoded at 1/2, 1/4 or 1/8 where that is still no smaller than the canvas.
        image.draft(None, (canvas, canvas))
        image.load()
        orientation = _orientation(image)  # now, because Pillow turns TIFFs itself as it loads them
        pixels = _narrowed(image, orientation, canvas)
    if pixels.shape[1] != canvas:
        pixels = _resized(pixels, canvas, canvas)
    return pixels, (width, height) if orientation in _SWAPS_SIDES else (height, width)


def decode_whole(record: Record, size: tuple[int, int]) -> torch.Tensor:
    """Decode the first frame of an image file in its own size.

    Pixels are those of `decode`. The image is upright by its EXIF orientation if it then has the
    size that is expected, and as it is stored if that has.

    Args:
        record: The image.
        size: Height and width that are expected.

    Returns:
        Pixels, uint8 (3, H, W).

    Raises:
        UnreadableImage: The file is no image, or one of another size.
    """
    with _open(record) as image:
        _check_size(image.height, image.width)
        image.load()
        orientation = _orientation(image)
        stored = (image.height, image.width)
        upright = stored[::-1] if orientation in _SWAPS_SIDES else stored
        if size not in (upright, stored):
            raise UnreadableImage(
                record.name,
                f"{upright[1]:,} × {upright[0]:,} pixels instead of {size[1]:,} × {size[0]:,}, "
                "width × height",
            )
        return _narrowed(image, orientation if size == upright else 1, size[1])


def _check_size(height: int, width: int) -> None:
    """Raise an error if an image would take too much memory, by its pixels or one of its sides."""
    if height * width > MAX_MEGAPIXELS * 10**6:
        raise ValueError(f"{width:,} × {height:,} pixels, {_TOO_LARGE}")
    if max(height, width) > MAX_SIDE:  # the other side may become as long as that of the canvas
        raise ValueError(
            f"{width:,} × {height:,} pixels, above the limit of {MAX_SIDE:,} a side: cut it up"
        )


def _narrowed(image: Image.Image, orientation: int, canvas: int) -> torch.Tensor:
    """Return the upright RGB pixels (3, H, canvas) of an image, resized along the width.

    It is done in strips of rows: besides the image as it is stored, none of its copies is whole.
    """
    to_rgb = _rgb_converter(image)
    height = image.width if orientation in _SWAPS_SIDES else image.height
    pixels = torch.empty(3, height, canvas, dtype=torch.uint8)
    for start, stop, strip in _strips(image, orientation):
        rgb = to_rgb(strip)
        if orientation in _UPRIGHT:
            rgb = rgb.transpose(_UPRIGHT[orientation])
        rows = torch.from_numpy(np.array(rgb)).permute(2, 0, 1)
        pixels[:, start:stop] = (
            rows if rgb.width == canvas else _resized(rows, len(rows[0]), canvas)
        )
    return pixels


def _resized(pixels: torch.Tensor, height: int, width: int) -> torch.Tensor:
    # As Pillow resizes, to within 2 of 255, in a third of the time. First the width, then the
    # height is what it does itself.
    return interpolate(pixels[None], (height, width), mode="bicubic", antialias=True)[0]


def _strips(image: Image.Image, orientation: int = 1) -> Iterator[tuple[int, int, Image.Image]]:
    """Yield strips of rows of the upright image, as they are stored: first row, end, pixels."""
    swaps = orientation in _SWAPS_SIDES
    length, across = image.size if swaps else image.size[::-1]
    rows = max(1, _STRIP // across)
    for start in range(0, length, rows):
        stop = min(start + rows, length)
        begin, end = start, stop
        if orientation in _REVERSES_ROWS:
            begin, end = length - stop, length - start
        yield start, stop, image.crop((begin, 0, end, across) if swaps else (0, begin, across, end))


def size(record: Record) -> tuple[int, int]:
    """Return the (height, width) in an image's header, without its orientation."""
    with _open(record) as image:
        return image.height, image.width


def image_format(record: Record) -> str | None:
    """Return the format of a file by its first bytes, whatever its name; None if it is no image.

    HEIF is recognized even if it cannot be read: see `FORMATS`.
    """
    try:
        with _open(record, _RECOGNIZABLE) as image:
            return image.format
    except UnreadableImage:
        return "HEIF" if _is_heif(record) else None


def _is_heif(record: Record) -> bool:
    try:
        with record.open() as file:
            first = file.read(12)
    except (OSError, ValueError):
        return False
    return first[4:8] == b"ftyp" and first[8:12] in _HEIF_BRANDS


@contextmanager
def _open(record: Record, formats: tuple[str, ...] = FORMATS) -> Iterator[Image.Image]:
    try:
        # Pillow warns of odd metadata and of very large images that it still reads.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with record.open() as file, Image.open(file, formats=formats) as image:
                yield image
    except UnreadableImage:
        raise
    except Exception as error:  # on broken files Pillow raises nearly any of Python's exceptions
        raise UnreadableImage(record.name, _reason(error)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return f"not an image: none of {', '.join(FORMATS)}"
    if isinstance(error, Image.DecompressionBombError):
        return f"more pixels than Pillow reads, {_TOO_LARGE}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # an image with a broken EXIF block does not say how it was held
        return 1


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
    for _, _, strip in _strips(image):
        values: Values = np.asarray(strip)
        if not np.isfinite(values).all():
            raise ValueError("pixels that are not finite numbers")
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

    Values that are all multiples of 4 or of 257 have been scaled up to 16 bits. Others, a camera's
    or a microscope's, have the smallest of the usual depths that holds the largest of them. Readers
    of other formats than TIFF and PNG scale to 16 bits themselves.
    """
    if image.format not in ("TIFF", "PNG"):
        return 16
    if isinstance(image, TiffImageFile):
        tags = image.tag_v2
        bits = int(tags.get(_BITS_PER_SAMPLE, (16,))[0])
        maximum = tags.get(_MAX_SAMPLES, tags.get(_MAX_SAMPLE))
        maximum = maximum[0] if isinstance(maximum, tuple) else maximum
        if bits in _DEPTHS[1:-1]:
            return bits
        if maximum is not None and largest <= maximum <= 65535:
            largest = int(maximum)
    depth = next(depth for depth in _DEPTHS if largest < 2**depth)
    if depth < 16 and _is_scaled_up(image):
        return 16
    return depth


def _is_scaled_up(image: Image.Image) -> bool:
    counts = np.zeros(2**16, dtype=np.int64)
    for _, _, strip in _strips(image):
        counts += np.bincount(np.asarray(strip).ravel(), minlength=2**16)
    levels = np.flatnonzero(counts)
    return len(levels) > 2 and any(not (levels % step).any() for step in (4, 257))
