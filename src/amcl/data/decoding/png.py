"""PNG files of 16 bits with color or transparency, which Pillow narrows to 8."""

import struct
from dataclasses import replace
from io import SEEK_END
from typing import BinaryIO

from PIL import Image

from amcl.data.decoding import tiff
from amcl.data.decoding.limits import MAX_BYTES, check_size
from amcl.data.decoding.orientation import ORIENTATION
from amcl.data.decoding.planes import Header, Planes, planes_of
from amcl.extras import needed

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {2: (3, False), 4: (1, True), 6: (3, True)}  # by type of color
_HEADER = struct.Struct(">8s4x4sIIBB3x")  # signature, name, width, height, depth, color
_CHUNK = struct.Struct(">I4s")


def is_deep(first: bytes) -> bool:
    """Return whether a file is such a PNG by its first bytes."""
    if not first.startswith(SIGNATURE) or len(first) < _HEADER.size:
        return False
    *_, depth, color = _HEADER.unpack_from(first)
    return depth == 16 and color in _CHANNELS


def header(file: BinaryIO) -> Header:
    """Return what the header says; without imagecodecs, it is that of 8 bits."""
    facts = _header(file)
    return facts if tiff.is_installed() else replace(facts, type="uint8", lacks=tiff.EXTRA)


def planes(file: BinaryIO) -> Planes:
    """Return the picture with its values."""
    if not tiff.is_installed():
        raise ValueError(needed("PNG of 16 bits in color", "imagecodecs", tiff.EXTRA))
    from imagecodecs import png_decode

    facts = _header(file)
    channels = facts.channels + facts.alpha
    check_size(facts.height, facts.width, 2 * channels)
    orientation = _orientation(file)
    if file.seek(0, SEEK_END) > MAX_BYTES:
        raise ValueError(f"a file of more than {MAX_BYTES // 2**20:,} MiB")
    file.seek(0)
    values = png_decode(file.read())
    if values.shape != (facts.height, facts.width, channels):
        raise ValueError("a PNG of 16 bits that has a transparent color: convert it")
    return planes_of(values, facts, orientation)


def _header(file: BinaryIO) -> Header:
    _, _, width, height, _, color = _HEADER.unpack(file.read(_HEADER.size))
    channels, alpha = _CHANNELS[color]
    return Header(height=height, width=width, channels=channels, alpha=alpha, type="uint16")


def _orientation(file: BinaryIO) -> int:
    """Return the orientation in the EXIF block; pixels are not decoded for it."""
    file.seek(len(SIGNATURE))
    while len(first := file.read(_CHUNK.size)) == _CHUNK.size:
        length, name = _CHUNK.unpack(first)
        if name == b"eXIf":
            exif = Image.Exif()
            exif.load(file.read(length))
            return int(exif.get(ORIENTATION, 1))
        file.seek(length + 4, 1)
    return 1
