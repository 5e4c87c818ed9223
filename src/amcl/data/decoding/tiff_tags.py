"""Tags of TIFF files, read without their pixels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from PIL.TiffImagePlugin import ImageFileDirectory_v2

from amcl.data.decoding.values import DEPTHS

_BIG = b"II+\0"  # of BigTIFF; with the most significant byte first, Pillow cannot read its tags
SIGNATURES = (b"II*\0", b"MM\0*", _BIG)
UNSIGNED, SIGNED, FLOAT = 1, 2, 3  # formats of samples
_MIN_IS_WHITE, _MIN_IS_BLACK, _PALETTE = 0, 1, 3
_UNSPECIFIED, _STRAIGHT_ALPHA = 0, 2  # kinds of extra samples
_PILLOW_SAMPLES = 4  # samples of a pixel that Pillow reads at most
# Bits and formats of gray that Pillow does not recognize or, of signed 8 bits, reads as unsigned.
_NOT_IN_PILLOW = (
    *((8, SIGNED), (16, FLOAT)),
    *((64, UNSIGNED), (64, SIGNED), (64, FLOAT)),
)

_WIDTH, _HEIGHT, _BITS, _COMPRESSION, _PHOTOMETRIC = 256, 257, 258, 259, 262
_ORIENTATION, _SAMPLES, _EXTRA, _FORMAT = 274, 277, 338, 339
_MAX_SAMPLE, _MAX_SAMPLES = 281, 341


@dataclass(frozen=True, kw_only=True)
class TiffTags:
    """What the first page of a TIFF says of its image.

    Args:
        height: Height in pixels as stored.
        width: Width in pixels as stored.
        bits: Bits of a sample; None if samples differ.
        format: Format of a sample: unsigned, signed or float; None if samples differ.
        compression: Compression of the pixels.
        samples: Number of samples of a pixel.
        photometric: Meaning of the samples; None if it is not stated.
        extra: Meanings of samples beyond those of the color.
        orientation: Orientation as in EXIF.
        pages: Number of pages, counted up to a limit.
    """

    height: int
    width: int
    bits: int | None
    format: int | None
    compression: int
    samples: int
    photometric: int | None
    extra: tuple[int, ...]
    orientation: int
    pages: int

    @property
    def has_alpha(self) -> bool:
        """Return whether the last sample says how opaque a pixel is."""
        return self.extra[-1:] == (_STRAIGHT_ALPHA,)

    @property
    def is_beyond_pillow(self) -> bool:
        """Return whether Pillow cannot read it at all, or reads other values."""
        if self.samples == 1:
            return (self.bits, self.format) in _NOT_IN_PILLOW
        return self.samples > _PILLOW_SAMPLES

    @property
    def keeps_values(self) -> bool:
        """Return whether Pillow reads the values as they are: most gray, and color of 8 bits."""
        if self.samples == 1:
            return not self.is_beyond_pillow
        gray = self.photometric in (_MIN_IS_WHITE, _MIN_IS_BLACK, _PALETTE)
        return (
            (self.bits, self.format) == (8, UNSIGNED)
            and self.samples <= _PILLOW_SAMPLES
            and (not gray or (self.samples == 2 and self.has_alpha))
        )

    @property
    def has_hidden_band(self) -> bool:
        """Return whether a fourth sample is neither color nor alpha, which Pillow leaves out."""
        return self.samples == 4 and self.extra == (_UNSPECIFIED,)


def read_tags(file: BinaryIO, most_pages: int = 1) -> TiffTags:
    """Read the tags of the first page.

    Args:
        file: The TIFF.
        most_pages: Number of pages up to which pages are counted.
    """
    first = file.read(16)
    directory = ImageFileDirectory_v2(first if first.startswith(_BIG) else first[:8])
    _load(file, directory)
    bits = {int(bits) for bits in directory.get(_BITS, (1,))}
    formats = {int(kind) for kind in directory.get(_FORMAT, (UNSIGNED,))}
    return TiffTags(
        height=int(directory[_HEIGHT]),
        width=int(directory[_WIDTH]),
        bits=bits.pop() if len(bits) == 1 else None,
        format=formats.pop() if len(formats) == 1 else None,
        compression=int(directory.get(_COMPRESSION, 1)),
        samples=int(directory.get(_SAMPLES, 1)),
        photometric=directory.get(_PHOTOMETRIC),
        extra=tuple(int(kind) for kind in directory.get(_EXTRA, ())),
        orientation=int(directory.get(_ORIENTATION, 1)),
        pages=_count_pages(file, directory, most_pages),
    )


def _count_pages(file: BinaryIO, directory: ImageFileDirectory_v2, most: int) -> int:
    pages = 1
    while directory.next and pages < most:
        _load(file, directory)
        pages += 1
    return pages


def _load(file: BinaryIO, directory: ImageFileDirectory_v2) -> None:
    """Read the tags of the next page."""
    file.seek(directory.next)
    directory.load(file)


def stated_depth(tags: Mapping[int, Any]) -> tuple[int | None, int | None]:
    """Return the bits that a TIFF of 16 bits says are in use, and its greatest value, if it does.

    Args:
        tags: Tags by number.
    """
    bits = int(tags.get(_BITS, (16,))[0])
    maximum = tags.get(_MAX_SAMPLES, tags.get(_MAX_SAMPLE))
    maximum = maximum[0] if isinstance(maximum, tuple) else maximum
    return bits if bits in DEPTHS[1:-1] else None, None if maximum is None else int(maximum)
