"""Arrays of NumPy: .npy files, and .npz files that hold one."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np

from amcl.data.decoding.limits import check_size
from amcl.data.decoding.planes import Header, Planes, planes_of
from amcl.data.pixel_format import PixelType

EXTENSIONS = (".npy", ".npz")
NPY = b"\x93NUMPY"
ZIP = b"PK\x03\x04"
_NAMES = ("image.npy", "arr_0.npy")
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class _Array(NamedTuple):
    """What the header of an array says."""

    shape: tuple[int, ...]
    order: bool
    """True if the first index moves fastest."""
    dtype: np.dtype[Any]
    axis: int | None
    """The axis of the channels; None without one."""

    @property
    def size(self) -> tuple[int, int]:
        height, width = (n for axis, n in enumerate(self.shape) if axis != self.axis)
        return height, width

    @property
    def channels(self) -> int:
        return 1 if self.axis is None else self.shape[self.axis]


def header(file: BinaryIO, channels: int | None) -> Header:
    """Return what the header of an array says.

    Args:
        file: The file.
        channels: Number of channels that the set has; None if that is open.
    """
    with _open(file) as stream:
        return _header(_read_header(stream, channels))


def planes(file: BinaryIO, channels: int | None) -> Planes:
    """Return an array as an image.

    Args:
        file: The file.
        channels: Number of channels that the set has; None if that is open.
    """
    with _open(file) as stream:
        array = _read_header(stream, channels)
        check_size(*array.size, array.channels * array.dtype.itemsize)
        count = int(np.prod(array.shape)) * array.dtype.itemsize
        content = stream.read(count)
    if len(content) < count:
        raise ValueError(f"an array that is truncated: {len(content):,} of {count:,} bytes")
    values = np.frombuffer(content, array.dtype)
    values = values.reshape(array.shape, order="F" if array.order else "C")
    values = values[..., None] if array.axis is None else np.moveaxis(values, array.axis, 2)
    if values.dtype.kind == "b":
        values = values.astype(np.uint8) * np.uint8(255)
    return planes_of(values, _header(array))


def channel_axis(shape: tuple[int, ...], channels: int | None) -> int | None:
    """Return the axis of the channels of an array; None for (H, W).

    It is the first or the last: the one that has as many entries as the set has channels, if only
    one does; else the shorter one; the last of two that are equal.

    >>> channel_axis((13, 64, 64), None), channel_axis((64, 64, 13), None)
    (0, 2)
    >>> channel_axis((128, 64, 64), None), channel_axis((128, 64, 64), 128)
    (2, 0)
    """
    if len(shape) == 2:
        return None
    if len(shape) != 3:
        raise ValueError(
            f"an array of shape {shape}: images are H×W, H×W×C or C×H×W, one in each file"
        )
    first, last = shape[0], shape[2]
    if (first == channels) != (last == channels):
        return 0 if first == channels else 2
    return 0 if first < last else 2


def _header(array: _Array) -> Header:
    height, width = array.size
    return Header(
        height=height,
        width=width,
        channels=array.channels,
        type=_type(array.dtype),
        is_picture=array.channels in (1, 3),
    )


def _type(dtype: np.dtype[Any]) -> PixelType:
    if dtype.kind == "b" or (dtype.kind, dtype.itemsize) == ("u", 1):
        return "uint8"
    return "uint16" if (dtype.kind, dtype.itemsize) == ("u", 2) else "float32"


def _read_header(stream: IO[bytes], channels: int | None) -> _Array:
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise ValueError(f"an array of format {version}: only numbers are read")
    shape, order, dtype = _HEADERS[version](stream)
    if dtype.kind not in "buif" or dtype.itemsize > 8:
        raise ValueError(f"an array of {dtype}: only numbers are read")
    return _Array(shape, order, dtype, channel_axis(shape, channels))


@contextmanager
def _open(file: BinaryIO) -> Iterator[IO[bytes]]:
    """Open a .npy file, or the array in a .npz file."""
    is_archive = file.read(len(ZIP)) == ZIP
    file.seek(0)
    if not is_archive:
        yield file
        return
    with zipfile.ZipFile(file) as archive:
        names = [name for name in archive.namelist() if name.endswith(".npy")]
        chosen = names if len(names) == 1 else [name for name in _NAMES if name in names]
        if not chosen:
            raise ValueError(
                f"an archive of {len(names):,} arrays: it must hold one, or one that is named image"
            )
        with archive.open(chosen[0]) as member:
            yield member
