"""TIFF files with many bands, or with more than 8 bits of color, by tifffile."""

import math
from dataclasses import replace
from importlib.util import find_spec
from io import SEEK_END
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from amcl.data.decoding import picture_planes
from amcl.data.decoding.limits import MAX_BYTES, check_size
from amcl.data.decoding.planes import Header, Planes, planes_of
from amcl.data.decoding.tiff_tags import FLOAT, SIGNED, UNSIGNED, TiffTags, read_tags
from amcl.data.pixel_format import PixelType
from amcl.extras import needed

EXTRA = "tiff"
_MOST_PAGES = 256  # that are counted
_PICTURES = (1, 3)  # channels of gray and RGB
_FORMATS = (UNSIGNED, SIGNED, FLOAT)
_BITS = (8, 10, 12, 14, 16, 32, 64)
# None, LZW, deflate, PackBits, LZMA, Zstandard. Others are images in the image, whose own size says
# how much memory they take.
_COMPRESSIONS = (1, 5, 8, 32946, 32773, 34925, 34926, 50000)


def is_installed() -> bool:
    """Return whether tifffile and its codecs are installed."""
    return find_spec("tifffile") is not None and find_spec("imagecodecs") is not None


def is_beyond_pillow(file: BinaryIO) -> bool:
    """Return whether Pillow cannot read a TIFF, by the number or the type of its samples."""
    tags = _tags(file)
    return tags is not None and tags.is_beyond_pillow


def header(file: BinaryIO, channels: int | None) -> Header:
    """Return what the tags say.

    Args:
        file: The TIFF.
        channels: Number of channels that the set has; None if that is open.
    """
    tags = _tags(file, _MOST_PAGES if channels is None else channels + 1)
    if tags is None or _is_for_pillow(tags, channels):
        facts = picture_planes.header(file)
        return facts if tags is None or tags.samples > 1 else replace(facts, pages=tags.pages)
    facts = _header(tags, channels)
    if is_installed() or tags.is_beyond_pillow:
        return facts
    return Header(height=facts.height, width=facts.width, channels=3, lacks=EXTRA)


def planes(file: BinaryIO, channels: int | None) -> Planes:
    """Return the image with its values.

    Args:
        file: The TIFF.
        channels: Number of channels that the set has; None if that is open.
    """
    tags = _tags(file, 1 if channels is None else channels + 1)
    if tags is None or _is_for_pillow(tags, channels):
        return picture_planes.planes(file)
    if not is_installed():
        raise ValueError(needed("TIFF of this kind", "tifffile with imagecodecs", EXTRA))
    if tags.compression not in _COMPRESSIONS:
        raise ValueError(f"a TIFF with compression {tags.compression}: use deflate, LZW or none")
    facts = _header(tags, channels)
    bands = facts.channels + facts.alpha
    check_size(tags.height, tags.width, bands * math.ceil((tags.bits or 16) / 8))
    pages = 1 if tags.samples > 1 else facts.channels
    return planes_of(_read(file, tags, pages), facts, tags.orientation)


def _tags(file: BinaryIO, most_pages: int = 1) -> TiffTags | None:
    """Return the tags; None if they are damaged, which Pillow has words for."""
    try:
        return read_tags(file, most_pages)
    except Exception:  # on broken files Pillow raises nearly any of Python's exceptions
        return None
    finally:
        file.seek(0)


def _is_for_pillow(tags: TiffTags, channels: int | None) -> bool:
    """Return whether Pillow reads all that is wanted of a TIFF."""
    bands = tags.has_hidden_band and channels == 4
    return tags.keeps_values and not bands and not _has_bands_as_pages(tags, channels)


def _has_bands_as_pages(tags: TiffTags, channels: int | None) -> bool:
    """Return whether each page is a band: gray pages, as many as a set of bands has channels."""
    return tags.samples == 1 and channels not in (None, *_PICTURES) and tags.pages == channels


def _header(tags: TiffTags, channels: int | None) -> Header:
    paged = _has_bands_as_pages(tags, channels)
    alpha = tags.has_alpha and tags.samples - 1 in _PICTURES
    bands = tags.pages if paged else tags.samples - alpha
    return Header(
        height=tags.height,
        width=tags.width,
        channels=bands,
        alpha=alpha,
        type=_type(tags),
        depth=tags.bits if tags.bits in (10, 12, 14) else None,
        is_picture=bands in _PICTURES,
    )


def _type(tags: TiffTags) -> PixelType:
    if tags.bits is None or tags.format is None:
        raise ValueError("a TIFF whose channels have values of different types: convert it")
    if tags.format not in _FORMATS or tags.bits not in _BITS:
        raise ValueError(f"a TIFF with {tags.bits} bits of format {tags.format}: convert it")
    if tags.format != UNSIGNED or tags.bits > 16:
        return "float32"
    return "uint8" if tags.bits == 8 else "uint16"


def _read(file: BinaryIO, tags: TiffTags, pages: int) -> NDArray[Any]:
    """Return all values (H, W, C)."""
    import tifffile

    size = file.seek(0, SEEK_END)
    file.seek(0)
    with tifffile.TiffFile(file) as tiff:
        values = [_page(tiff.pages[number], tags, size) for number in range(pages)]
    return values[0] if pages == 1 else np.concatenate(values, axis=2)


def _page(page: Any, tags: TiffTags, size: int) -> NDArray[Any]:
    """Return the values (H, W, C) of a page, which must be what its tags say."""
    expected = {
        "YX": (tags.height, tags.width),
        "YXS": (tags.height, tags.width, tags.samples),
        "SYX": (tags.samples, tags.height, tags.width),
    }
    page = page.aspage() if hasattr(page, "aspage") else page
    if page.dtype is None or page.shape != expected.get(page.axes):
        raise ValueError("a TIFF whose tags contradict each other, or that holds no flat image")
    if int(np.prod(page.chunks, dtype=object)) * page.dtype.itemsize > MAX_BYTES:
        raise ValueError("a TIFF with tiles that are too large")
    ends = zip(page.dataoffsets, page.databytecounts, strict=False)
    if len(page.dataoffsets) != len(page.databytecounts) or any(
        start + count > size for start, count in ends
    ):
        raise ValueError("a TIFF that is truncated")
    values: NDArray[Any] = page.asarray(maxworkers=1)  # threads do not survive a fork
    if page.axes == "SYX":
        return values.transpose(1, 2, 0)
    return values if page.axes == "YXS" else values[..., None]
