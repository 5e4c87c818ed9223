"""Image files of formats beyond 8-bit RGB, written byte by byte where a library would hide them."""

import struct
import zlib

import numpy as np

COLORS = {(1, False): 0, (3, False): 2, (1, True): 4, (3, True): 6}
"""Types of color of PNG by the number of channels, and by whether there is alpha."""


def png(values, *, alpha=False, exif=None):
    """A PNG of uint8 or uint16 values (H, W, C), whose size is that of the values."""
    height, width, channels = values.shape
    depth = 8 * values.dtype.itemsize
    color = COLORS[channels - alpha, alpha]
    big = values.astype(values.dtype.newbyteorder(">"))
    rows = b"".join(b"\0" + row.tobytes() for row in big)
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    chunks = [(b"IHDR", header), *([(b"eXIf", exif)] if exif else [])]
    chunks += [(b"IDAT", zlib.compress(rows, 0)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def netpbm(values):
    """A PGM or PPM of uint8 values (H, W, C)."""
    height, width, channels = values.shape
    kind = {1: "P5", 3: "P6"}[channels]
    return f"{kind} {width} {height} 255\n".encode() + values.tobytes()


def random_values(*shape, bits=8, seed=0):
    """Values that use some bits, uint8 or uint16; the largest occurs."""
    dtype = np.uint8 if bits <= 8 else np.uint16
    values = np.random.default_rng(seed).integers(0, 2**bits, shape, dtype=dtype)
    values.flat[0] = 2**bits - 1
    return values


def dicom(path, values, **attributes):
    """A DICOM file of values (H, W)."""
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=["test"])
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    dataset.SOPClassUID = SecondaryCaptureImageStorage
    dataset.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    dataset.Rows, dataset.Columns = values.shape[:2]
    dataset.SamplesPerPixel = 1
    dataset.PhotometricInterpretation = "MONOCHROME2"
    dataset.BitsAllocated = 8 * values.dtype.itemsize
    dataset.BitsStored = 8 * values.dtype.itemsize
    dataset.PixelRepresentation = int(values.dtype.kind == "i")
    for name, value in attributes.items():
        setattr(dataset, name, value)
    dataset.HighBit = dataset.BitsStored - 1
    dataset.PixelData = values.tobytes()
    dataset.save_as(path, enforce_file_format=True)
    return path
