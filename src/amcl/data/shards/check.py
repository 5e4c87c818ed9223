"""Check of stored images: the hashes of shards, and whether every image can be decoded."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch

from amcl.data.decode import UnreadableImage
from amcl.data.format_choice import choose_format, sample_headers
from amcl.data.images import FileImages
from amcl.data.listing import Listing
from amcl.data.load import default_workers
from amcl.data.locate import find_source
from amcl.data.packed import PackedSource
from amcl.data.pixel_format import RGB, PixelFormat
from amcl.data.records import Records
from amcl.data.shards.manifest import Manifest
from amcl.data.shards.write import WrittenShard
from amcl.data.source import Source
from amcl.data.stream import CHUNK, stream
from amcl.files import expand_home, file_digest
from amcl.progress import Progress
from amcl.settings import non_negative_int

logger = logging.getLogger("amcl")

_SIDE = 8  # pixels that images are decoded to


@dataclass(frozen=True)
class Fault:
    """A file or an image that is not as it should be.

    Args:
        name: The file, or the image in it.
        reason: What is wrong with it.
    """

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


class Check:
    """A check of the images of a source.

    Args:
        source: A folder of images, shards or tables.
        workers: Number of processes that decode. Default: one for each core, at most 8.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from pathlib import Path
        >>> with TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.png").write_bytes(b"no image")
        ...     [fault.reason[:12] for fault in Check(folder, workers=0).faults()]
        ['not an image']
    """

    def __init__(self, source: str, workers: int | None = None) -> None:
        self.workers = default_workers() if workers is None else workers
        non_negative_int("workers", self.workers, "give the number of processes, or 0 for none")
        self.source: Source = find_source(source)
        self.is_folder = expand_home(source).is_dir()
        self.images = 0
        """Number of images that were decoded, or could not be."""
        self.shards = 0
        """Number of shards whose hashes were compared."""

    def faults(self) -> Iterator[Fault]:
        """Yield what is wrong, as it is met."""
        if isinstance(self.source, PackedSource):
            yield from self._files(self.source)
        yield from self._images()

    def _files(self, source: PackedSource) -> Iterator[Fault]:
        """Compare files with the manifest that was written with them."""
        manifest = Manifest.read(source.root)
        if manifest is None:
            return
        expected = {manifest.folder / shard.name: shard for shard in manifest.shards}
        files = {file.absolute(): file for file in source.files}
        if self.is_folder and source.root == manifest.folder:
            for file in expected:
                if file.absolute() not in files:
                    yield Fault(str(file), "missing")
        known = {file.absolute(): shard for file, shard in expected.items()}
        for file, name in files.items():
            if file not in known:
                yield Fault(str(name), f"not in {manifest.folder / 'manifest.json'}")
        both = [(name, known[file]) for file, name in files.items() if file in known]
        with (
            ThreadPoolExecutor(max(self.workers, 1)) as pool,
            Progress("hashing", len(both)) as progress,
        ):
            for fault in pool.map(_compare, *zip(*both, strict=True)) if both else ():
                self.shards += 1
                progress.advance(1)
                if fault is not None:
                    yield fault

    def _images(self) -> Iterator[Fault]:
        """Decode all images."""
        listing: Listing = self.source.catalog().listing
        for line in listing.warnings:
            logger.warning(line)
        yield from (Fault(*file) for file in listing.unreadable)
        images = FileImages(listing.records, _SIDE, _format(listing.records))
        steps = torch.arange(len(images)).split(CHUNK) if len(images) else ()
        workers = min(self.workers, max(len(steps) - 1, 0))
        batches = stream(images, steps, workers=workers, replace=False)
        with closing(batches), Progress("decoding images", len(images)) as progress:
            for step, batch in zip(steps, batches, strict=True):
                self.images += len(step)
                progress.advance(len(step))
                yield from (Fault(*file) for file in batch.unreadable)


def _format(records: Records) -> PixelFormat:
    """Return the format that the images are trained on in; any if none of them can be read."""
    try:
        return choose_format(records, sample_headers(records))[0] if len(records) else RGB
    except UnreadableImage:
        return RGB


def _compare(file: Path, shard: WrittenShard) -> Fault | None:
    try:
        size = file.stat().st_size
        if size != shard.size:
            return Fault(str(file), f"{size:,} bytes instead of {shard.size:,}")
        if file_digest(file) != shard.sha256:
            return Fault(str(file), "its SHA-256 is not that of the manifest")
    except OSError as error:
        return Fault(str(file), (error.strerror or str(error)).lower())
    return None
