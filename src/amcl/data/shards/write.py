"""Writing of a shard: a tar archive of images with their labels, and its hash."""

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from amcl.data.decode import EXTENSIONS, image_format
from amcl.data.records import Record
from amcl.files import whole_file
from amcl.printable import printable
from amcl.text_files import to_json

_EXTENSION_OF = {
    "JPEG": ".jpg",
    "MPO": ".jpg",
    "JPEG2000": ".jp2",
    "TIFF": ".tif",
    "HEIF": ".heic",
    "NumPy": ".npy",
    "DICOM": ".dcm",
}
_OVERHEAD = 4 * tarfile.BLOCKSIZE  # bytes beside those of an image: headers, label, description


def packed_size(size: int) -> int:
    """Return about the number of bytes that an image of some bytes takes in a shard."""
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE + _OVERHEAD


@dataclass(frozen=True)
class Sample:
    """An image to be packed.

    Args:
        record: The image.
        key: The name of its files in the shard, up to the dot; it has none itself.
        path: Its path below its split, in the folder that it comes from.
        label: Number of its class; None if it has none.
        class_name: Name of its class.
    """

    record: Record
    key: str
    path: str
    label: int | None = None
    class_name: str = ""

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the names and the contents of its files, or raise an error if it has no content."""
        with self.record.open() as file:
            content = file.read()
        yield f"{self.key}{self._extension()}", content
        about: dict[str, str] = {"path": self.path}
        if self.label is not None:
            yield f"{self.key}.cls", str(self.label).encode()
            about["class"] = self.class_name
        yield f"{self.key}.json", to_json(about, indent=None).encode()

    def _extension(self) -> str:
        extension = os.path.splitext(self.path)[1]
        if extension.lower() in EXTENSIONS:
            return extension
        detected = image_format(self.record) or "JPEG"  # what is no image is named when it is read
        extension = _EXTENSION_OF.get(detected, f".{detected.lower()}")
        return extension if extension in EXTENSIONS else ".jpg"


@dataclass(frozen=True)
class WrittenShard:
    """A shard that is finished.

    Args:
        name: Its path in the folder of shards.
        sha256: Its SHA-256.
        images: Number of images in it.
        size: Its size in bytes.
        skipped: Path and reason of each image that could not be read.
    """

    name: str
    sha256: str
    images: int
    size: int
    skipped: tuple[tuple[str, str], ...] = ()


def write_shard(folder: Path, name: str, samples: Iterator[Sample]) -> WrittenShard:
    """Write a shard, whole or not at all; the same samples make the same bytes.

    An image that cannot be opened, or is empty, is skipped. All others are packed as they are,
    whether they can be decoded or not.

    Args:
        folder: The folder of shards.
        name: Path of the shard in it.
        samples: The images.

    Returns:
        What was written.
    """
    images = 0
    skipped = []
    with whole_file(folder / name) as file:
        hashed = _Hashed(file)
        out = cast(IO[bytes], hashed)
        # Numbers of users and times stay 0, and names keep their bytes, whatever these are.
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for sample in samples:
                try:
                    files = list(sample.files())
                except (ValueError, FileNotFoundError, PermissionError) as error:
                    reason = str(getattr(error, "strerror", None) or error).lower()
                    skipped.append((printable(sample.path), reason))
                    continue
                images += 1
                for member, content in files:
                    info = tarfile.TarInfo(member)
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
    return WrittenShard(name, hashed.sha256.hexdigest(), images, hashed.position, tuple(skipped))


class _Hashed:
    """A file that is written from its beginning to its end, and hashed on the way."""

    def __init__(self, file: IO[bytes]) -> None:
        self.sha256 = hashlib.sha256()
        self.position = 0
        self._file = file

    def write(self, content: bytes) -> int:
        self._file.write(content)
        self.sha256.update(content)
        self.position += len(content)
        return len(content)

    def tell(self) -> int:
        return self.position
