"""What no image may exceed, and the error for one that cannot be read."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from PIL import Image, UnidentifiedImageError

from amcl.data.records import Record
from amcl.printable import printable

MAX_MEGAPIXELS = 160  # medium-format cameras have 150
MAX_SIDE = 65_535  # that of a JPEG
MAX_BYTES = 2**30  # of all values as they are stored
_TALKATIVE = ("PIL.TiffImagePlugin", "pydicom", "tifffile")  # loggers
_LONGEST = 300  # characters of a reason, which may quote the file
TOO_LARGE = f"above the limit of {MAX_MEGAPIXELS} megapixels: scale it down or cut it up"


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


def check_size(height: int, width: int, bytes_per_pixel: int = 1) -> None:
    """Raise an error if an image would take too much memory, by its pixels or one of its sides.

    Args:
        height: Its height.
        width: Its width.
        bytes_per_pixel: Bytes of all values of a pixel as they are stored.
    """
    if min(height, width, bytes_per_pixel) < 1:
        raise ValueError(f"{width:,} × {height:,} pixels: there is no image")
    if height * width > MAX_MEGAPIXELS * 10**6:
        raise ValueError(f"{width:,} × {height:,} pixels, {TOO_LARGE}")
    if max(height, width) > MAX_SIDE:  # the other side may become as long as that of the canvas
        raise ValueError(
            f"{width:,} × {height:,} pixels, above the limit of {MAX_SIDE:,} a side: cut it up"
        )
    if height * width * bytes_per_pixel > MAX_BYTES:
        raise ValueError(
            f"{width:,} × {height:,} pixels of {bytes_per_pixel:,} bytes, above the limit of "
            f"{MAX_BYTES // 2**20:,} MiB an image: scale it down or cut it up"
        )


@contextmanager
def opened(record: Record, recognized: str) -> Iterator[BinaryIO]:
    """Open an encoded image; every error while it is read becomes an `UnreadableImage`.

    Args:
        record: The image.
        recognized: The formats that are recognized, in words.
    """
    try:
        with _quiet(), record.open() as file:
            yield file
    except UnreadableImage:
        raise
    except Exception as error:  # on broken files readers raise nearly any of Python's exceptions
        raise UnreadableImage(record.name, _reason(error, recognized)) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep readers from warning of damaged files: what is wrong with an image is its reason."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    disabled = [logger.disabled for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for logger in loggers:
                logger.disabled = True
            yield
        finally:
            for logger, was_disabled in zip(loggers, disabled, strict=True):
                logger.disabled = was_disabled


def _reason(error: Exception, recognized: str) -> str:
    if isinstance(error, UnidentifiedImageError):
        return f"not an image: none of {recognized}"
    if isinstance(error, Image.DecompressionBombError):
        return f"more pixels than Pillow reads, {TOO_LARGE}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split())[:_LONGEST] or type(error).__name__
