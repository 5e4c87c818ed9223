"""PNG files of 16 bits with color or transparency, which Pillow narrows to 8."""

import struct
from typing import BinaryIO

import torch
from PIL import Image

from amcl.data.decoding.limits import MAX_BYTES, check_size
from amcl.data.decoding.orientation import ORIENTATION
from amcl.data.decoding.planes import Header, Planes, planes_of

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
    """Return what the header says."""
    _, _, width, height, _, color = _HEADER.unpack(file.read(_HEADER.size))
    channels, alpha = _CHANNELS[color]
    return Header(height=height, width=width, channels=channels, alpha=alpha, type="uint16")


def planes(file: BinaryIO) -> Planes:
    """Return the picture with its values."""
    facts = header(file)
    check_size(facts.height, facts.width, 2 * (facts.channels + facts.alpha))
    orientation = _orientation(file)
    file.seek(0)
    content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"a file of more than {MAX_BYTES // 2**20:,} MiB")
    values = _decode(content)
    if len(values) != facts.channels + facts.alpha:  # a color that counts as transparent
        raise ValueError("a PNG of 16 bits with a transparent color: convert it")
    return planes_of(values.permute(1, 2, 0).numpy(), facts, orientation)


def _decode(content: bytes) -> torch.Tensor:
    from torchvision.io import ImageReadMode, decode_image

    encoded = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    values: torch.Tensor = decode_image(encoded, mode=ImageReadMode.UNCHANGED)
    return values


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
