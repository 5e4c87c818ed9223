"""Pictures that Pillow reads, with the values that they have."""

from dataclasses import replace
from typing import BinaryIO

import numpy as np
from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile

from amcl.data.decoding.limits import check_size
from amcl.data.decoding.orientation import SWAPS_SIDES, orientation_of, upright
from amcl.data.decoding.pictures import open_picture, strips
from amcl.data.decoding.planes import Header, Planes, Strips
from amcl.data.decoding.tiff_tags import stated_depth
from amcl.data.pixel_format import PixelType

_GRAY = ("L", "LA", "I;16", "I", "F")
_TELL_DEPTH = ("TIFF", "PNG")  # readers of other formats scale to 16 bits


def header(file: BinaryIO) -> Header:
    """Return what the header of a picture says."""
    with open_picture(file) as image:
        return _header(image)


def planes(file: BinaryIO) -> Planes:
    """Return a picture, upright and strip by strip: apart from the decoder's, no copy is whole."""
    with open_picture(file) as image:
        facts = _header(image)
        check_size(image.height, image.width)
        image.load()
        mode = _mode(image)
        orientation = orientation_of(image)  # now: Pillow turns TIFFs itself as it loads them

        def rows() -> Strips:
            for start, stop, strip in strips(image, orientation):
                converted = strip if strip.mode.startswith(("I", "F")) else strip.convert(mode)
                values = np.asarray(converted)
                values = values if values.ndim == 3 else values[..., None]
                yield start, stop, upright(values, orientation)

        if orientation in SWAPS_SIDES:
            facts = replace(facts, height=facts.width, width=facts.height)
        return Planes(facts, rows)


def _mode(image: Image.Image) -> str:
    """Return the mode that keeps all that a picture has."""
    if image.mode.startswith("I;16"):
        return "I;16"
    if image.mode in ("I", "F"):
        return image.mode
    if image.mode in ("1", "L", "LA", "La"):
        return "LA" if image.has_transparency_data else "L"
    return "RGBA" if image.has_transparency_data else "RGB"


def _header(image: Image.Image) -> Header:
    mode = _mode(image)
    facts = Header(
        height=image.height,
        width=image.width,
        channels=1 if mode in _GRAY else 3,
        alpha=mode in ("LA", "RGBA"),
        type=_type(image, mode),
    )
    if facts.type != "uint16":
        return facts
    if image.format not in _TELL_DEPTH:
        return replace(facts, depth=16)
    if not isinstance(image, TiffImageFile):
        return facts
    depth, maximum = stated_depth(image.tag_v2)
    return replace(facts, depth=depth, maximum=maximum)


def _type(image: Image.Image, mode: str) -> PixelType:
    if mode == "F" or (mode == "I" and image.format == "TIFF"):
        return "float32"
    return "uint16" if mode in ("I", "I;16") else "uint8"
