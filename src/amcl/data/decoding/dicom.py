"""DICOM files, by pydicom."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from amcl.data.decoding.limits import check_size
from amcl.data.decoding.planes import Header, Planes, planes_of
from amcl.data.pixel_format import PixelType
from amcl.extras import needed

EXTRA = "dicom"
EXTENSIONS = (".dcm", ".dicom")
FORMAT = "DICOM"
_SIGNATURE = slice(128, 132), b"DICM"
_DEFLATED = b"1.2.840.10008.1.2.1.99"  # would be unpacked whole before its size is known
_INVERTED = "MONOCHROME1"  # its least value is white
_GRAY = (_INVERTED, "MONOCHROME2")


def is_installed() -> bool:
    """Return whether pydicom is installed."""
    return find_spec("pydicom") is not None


def is_dicom(first: bytes) -> bool:
    """Return whether a file is DICOM by its first bytes."""
    where, signature = _SIGNATURE
    return first[where] == signature


def header(file: BinaryIO) -> Header:
    """Return what the attributes say."""
    with _opened(file, stop_before_pixels=True) as dataset:
        return _header(dataset)


def planes(file: BinaryIO) -> Planes:
    """Return the first frame, in the units that the file states (Hounsfield units of CT)."""
    with _opened(file) as dataset:
        facts = _header(dataset)
        check_size(facts.height, facts.width, facts.channels * int(dataset.BitsAllocated) // 8)
        return planes_of(_values(dataset, facts), facts)


@contextmanager
def _opened(file: BinaryIO, **options: Any) -> Iterator[Any]:
    if not is_installed():
        raise ValueError(needed("DICOM", "pydicom", EXTRA))
    from pydicom import dcmread

    if _DEFLATED in file.read(2**12):
        raise ValueError("a DICOM file that is deflated as a whole: convert it")
    file.seek(0)
    yield dcmread(file, **options)


def _header(dataset: Any) -> Header:
    samples = int(dataset.SamplesPerPixel)
    kind = str(dataset.PhotometricInterpretation)
    if (kind in _GRAY) != (samples == 1) or samples not in (1, 3):
        raise ValueError(f"a DICOM file with {samples} samples a pixel of {kind}: convert it")
    return Header(
        height=int(dataset.Rows),
        width=int(dataset.Columns),
        channels=samples,
        type=_type(dataset),
        depth=int(dataset.BitsStored),
    )


def _type(dataset: Any) -> PixelType:
    bits = int(dataset.BitsStored)
    if int(dataset.PixelRepresentation) or bits > 16 or _has_units(dataset):
        return "float32"
    return "uint8" if bits == 8 else "uint16"


def _has_units(dataset: Any) -> bool:
    """Return whether stored values stand for others."""
    slope = dataset.get("RescaleSlope")
    intercept = dataset.get("RescaleIntercept")
    if "ModalityLUTSequence" in dataset:
        return True
    if slope is None or intercept is None:  # not there, or empty: pydicom takes both or none
        return False
    return (float(slope), float(intercept)) != (1, 0)


def _values(dataset: Any, facts: Header) -> NDArray[Any]:
    """Return the values (H, W, C) of the first frame."""
    from pydicom.pixels.processing import apply_modality_lut
    from pydicom.pixels.utils import pixel_array

    values: NDArray[Any] = pixel_array(dataset, index=0)
    if values.shape[:2] != (facts.height, facts.width) or values.size > (
        facts.height * facts.width * facts.channels
    ):
        raise ValueError("a DICOM file whose pixels contradict its attributes")
    if str(dataset.PhotometricInterpretation) == _INVERTED:
        # The same bits upside down: ~v is −1 − v of signed values.
        top = 0 if int(dataset.PixelRepresentation) else 2 ** int(dataset.BitsStored)
        values = (top - 1 - values.astype(np.int64)).astype(values.dtype)
    if _has_units(dataset):
        values = apply_modality_lut(values, dataset)
    return values if values.ndim == 3 else values[..., None]
