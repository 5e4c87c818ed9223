"""Decoding of an image file into RGB pixels on a square canvas."""

import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile
from torch.nn.functional import interpolate

DECODING = 2  # raised when the same file gives other pixels, so that cached features are recomputed

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
_SWAPS_SIDES = [_UPRIGHT[orientation] for orientation in (5, 6, 7, 8)]

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


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
        # Names that are no UTF-8 would fail wherever the report is printed or written.
        self.path = os.fsencode(path).decode("utf-8", "backslashreplace")
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def decode(path: str, canvas: int) -> tuple[torch.Tensor, tuple[int, int]]:
    """Decode the first frame of an image file.

    The image is upright by its EXIF orientation, RGB (transparent parts on white), and squashed
    onto the square with antialiasing; an image of the canvas's size keeps its pixels.

    Args:
        path: The file.
        canvas: Side of the square in pixels.

    Returns:
        Pixels, uint8 (3, canvas, canvas), and the true (height, width) of the image.

    Raises:
        UnreadableImage: The file is no image.
    """
    with _open(path) as image:
        width, height = image.size
        transposition = _UPRIGHT.get(_orientation(image))
        # JPEGs are decoded at 1/2, 1/4 or 1/8 where that is still no smaller than the canvas.
        image.draft(None, (canvas, canvas))
        rgb = _rgb(image)
        if transposition is not None:
            rgb = rgb.transpose(transposition)
            if transposition in _SWAPS_SIDES:
                width, height = height, width
        pixels = torch.from_numpy(np.array(rgb)).permute(2, 0, 1)
    if pixels.shape[1:] != (canvas, canvas):
        # As Pillow resizes, to within 2 of 255, in a third of the time.
        pixels = interpolate(pixels[None], (canvas, canvas), mode="bicubic", antialias=True)[0]
    return pixels, (height, width)


def size(path: str) -> tuple[int, int]:
    """Return the (height, width) in a file's header, without its orientation."""
    with _open(path) as image:
        return image.height, image.width


def image_format(path: str) -> str | None:
    """Return the format of a file by its first bytes, whatever its name; None if it is no image.

    HEIF is recognized even if it cannot be read: see `FORMATS`.
    """
    try:
        with _open(path, _RECOGNIZABLE) as image:
            return image.format
    except UnreadableImage:
        return "HEIF" if _is_heif(path) else None


def _is_heif(path: str) -> bool:
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        return False
    with open(path, "rb") as file:
        first = file.read(12)
    return first[4:8] == b"ftyp" and first[8:12] in _HEIF_BRANDS


@contextmanager
def _open(path: str, formats: tuple[str, ...] = FORMATS) -> Iterator[Image.Image]:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait forever
            is_folder = stat.S_ISDIR(status.st_mode)
            kind = "a folder, not an image file" if is_folder else "not a regular file"
            raise UnreadableImage(path, kind)
        if status.st_size == 0:
            raise UnreadableImage(path, "empty file (0 bytes)")
        # Pillow warns of odd metadata and of very large images that it still reads.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=formats) as image:
                yield image
    except UnreadableImage:
        raise
    except Exception as error:  # on broken files Pillow raises nearly any of Python's exceptions
        raise UnreadableImage(path, _reason(error)) from error


def _reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return f"not an image: none of {', '.join(FORMATS)}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # an image with a broken EXIF block does not say how it was held
        return 1


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_eight_bits(image)).convert("RGB")
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, "white")
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> Bytes:
    """Scale gray of up to 16 bits by its depth; 32 bits or floats, which have none, by range."""
    values: np.ndarray[tuple[int, ...], np.dtype[Any]] = np.asarray(image)
    if values.dtype.kind in "iu" and values.min() >= 0 and values.max() <= 65535:
        top = 2 ** _depth(image, values) - 1
        levels = np.arange(top + 1)
        table = np.rint(levels * (255 / top)).astype(np.uint8)
        scaled: Bytes = table[values]
        return scaled
    if not np.isfinite(values).all():
        raise ValueError("pixels that are not finite numbers")
    values = values.astype(np.float64)
    low = float(values.min())
    high = float(values.max())
    values -= low
    values *= 255 / max(high - low, np.finfo(np.float64).tiny)
    np.rint(values, out=values)
    return values.astype(np.uint8)


def _depth(image: Image.Image, values: np.ndarray[Any, Any]) -> int:
    """Return the number of bits in use: what a TIFF says, else what the values tell.

    Values that are all multiples of 4 or of 257 have been scaled up to 16 bits. Others, a camera's
    or a microscope's, have the smallest of the usual depths that holds the largest of them. Readers
    of other formats than TIFF and PNG scale to 16 bits themselves.
    """
    if image.format not in ("TIFF", "PNG"):
        return 16
    largest = int(values.max())
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
    if depth < 16 and _is_scaled_up(values):
        return 16
    return depth


def _is_scaled_up(values: np.ndarray[Any, Any]) -> bool:
    levels = np.flatnonzero(np.bincount(values.ravel()))
    return len(levels) > 2 and any(not (levels % step).any() for step in (4, 257))
