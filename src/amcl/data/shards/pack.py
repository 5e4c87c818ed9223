"""Packing of images into shards: planned, written by several threads, resumed after a stop."""

import errno
import logging
import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from amcl.data.folder import Folder
from amcl.data.load import default_workers
from amcl.data.locate import find_source
from amcl.data.options import Labels
from amcl.data.shards.index import FOLDER, load_index
from amcl.data.shards.manifest import STATE, Manifest, from_row, to_row
from amcl.data.shards.plan import Plan, ShardSize
from amcl.data.shards.write import Sample, WrittenShard, write_shard
from amcl.data.source import Source
from amcl.errors import RunError
from amcl.files import drop_half_line, expand_home, is_free, whole_file, write_text
from amcl.progress import Progress
from amcl.settings import choose, whole_number
from amcl.text_files import read_json_lines, to_json

logger = logging.getLogger("amcl")

SHARD_SIZE = "500MB"
_FULL = (errno.ENOSPC, errno.EDQUOT)


def pack(
    source: str,
    out: str | Path,
    *,
    shard_size: str = SHARD_SIZE,
    labels: Labels = "auto",
    shuffle: int | None = None,
    workers: int | None = None,
) -> Manifest:
    """Pack images into shards, tar archives in the layout of WebDataset.

    The files of images are packed as they are, in the order in which they are trained on, with the
    number of their class and a description. Each split gets a folder. The same images and options
    make the same bytes. What was interrupted is resumed by the same call.

    Args:
        source: A folder of images, or other files that are trained on: tables, shards.
        out: The folder of shards, new or that of the same call before.
        shard_size: Number of images of a shard, as in "10000", or its bytes, as in "500MB".
        labels: Which folders are classes, see `load_dataset`.
        shuffle: Seed of a random order in each split; None keeps the order.
        workers: Number of threads. Default: one for each core, at most 8.

    Returns:
        The shards, with their hashes.

    Raises:
        RunError: The disk is full.
        ValueError: `out` holds something else.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from PIL import Image
        >>> with TemporaryDirectory() as folder:
        ...     Image.new("RGB", (8, 8)).save(f"{folder}/a.png")
        ...     pack(folder, f"{folder}/shards").images
        1
    """
    choose("labels", labels, ("auto", "folders", "none"))
    threads = default_workers() if workers is None else workers
    whole_number("workers", threads, "give the number of threads that pack")
    size = ShardSize.parse(shard_size)
    plan = Plan(_open(source, labels), labels, size, shuffle)
    packing = _Packing(expand_home(out), plan)
    try:
        packing.begin()
        packing.run(threads)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise RunError(f"{packing.out}: the disk is full. {packing.progress()}") from None
    return packing.finish()


class _Packing:
    """Shards that are being written into a folder, and a file of those that are finished."""

    def __init__(self, out: Path, plan: Plan) -> None:
        self.out = out
        self.plan = plan
        self.state = out / FOLDER / STATE
        self.finished: dict[str, WrittenShard] = {}
        self._stop = threading.Event()

    def begin(self) -> None:
        """Make the folder, or take up what is finished in it."""
        header = self.plan.header()
        if self.state.is_file():
            drop_half_line(self.state)
            first, *rows = read_json_lines(self.state) or [{}]
            _require_same(first, header, self.out)
            for shard in (from_row(row, self.state) for row in rows):
                is_whole = _size(self.out / shard.name) == shard.size
                if shard.name in self.plan.shards and is_whole:
                    self.finished[shard.name] = shard
            if self.finished:
                logger.info("%s: %s", self.out, self.progress())
        else:
            if not is_free(self.out, FOLDER):
                raise ValueError(
                    f"{self.out} is there already and holds something else than a part of these "
                    "shards: choose a new folder for --out."
                )
            self._require_space()
            with whole_file(self.state) as file:
                file.write(to_json(header, indent=None).encode() + b"\n")
        if self.plan.classes:
            write_text(self.out / "classes.json", to_json({"classes": self.plan.classes}) + "\n")

    def _require_space(self) -> None:
        needed = sum(map(sum, self.plan.sizes.values()))
        folder = next(path for path in (self.out, *self.out.absolute().parents) if path.is_dir())
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise RunError(
                f"{self.out}: the shards take about {needed / 1e9:.2f} GB, and {free / 1e9:.2f} GB "
                "are free: make room, or choose another folder for --out."
            )

    def run(self, threads: int) -> None:
        """Write the shards that are not finished."""
        missing = [name for name in self.plan.shards if name not in self.finished]
        pool = ThreadPoolExecutor(min(threads, len(missing)) or 1)
        futures = [pool.submit(self._write, name) for name in missing]
        try:
            with Progress("packing", len(missing)) as progress:
                for future in as_completed(futures):
                    self._keep(future.result())
                    progress.advance(1)
        finally:
            self._stop.set()
            pool.shutdown(cancel_futures=True)
            for future in futures:
                if not future.cancelled() and future.exception() is None:
                    self._keep(future.result())

    def _write(self, name: str) -> WrittenShard:
        shard = write_shard(self.out, name, self._until_stopped(self.plan.samples(name)))
        load_index(self.out / name)
        return shard

    def _until_stopped(self, samples: Iterator[Sample]) -> Iterator[Sample]:
        for sample in samples:
            if self._stop.is_set():
                raise InterruptedError("stopped with the other threads")
            yield sample

    def _keep(self, shard: WrittenShard) -> None:
        if shard.name in self.finished:
            return
        with self.state.open("ab") as file:
            file.write(to_json(to_row(shard), indent=None).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.finished[shard.name] = shard

    def progress(self) -> str:
        """Return how much is finished, and how to go on."""
        if len(self.finished) == len(self.plan.shards):
            return "All shards are finished."
        return (
            f"{len(self.finished):,} of {len(self.plan.shards):,} shards are finished and kept; "
            "the same command makes the others."
        )

    def finish(self) -> Manifest:
        """Write the manifest, and return it."""
        manifest = Manifest(self.out, tuple(self.finished[name] for name in self.plan.shards))
        manifest.write()
        return manifest


def _open(source: str, labels: Labels) -> Source:
    images = find_source(source)
    if isinstance(images, Folder):
        # By its absolute path, which the command that resumes finds again from anywhere.
        return Folder(images.root.absolute()).for_labels(labels)
    return images


def _require_same(first: dict[str, Any], header: dict[str, Any], out: Path) -> None:
    """Raise an error unless the shards in a folder are those of the same images and options."""
    for name in ("shard_size", "labels", "shuffle"):
        if first.get(name) != header[name]:
            raise ValueError(
                f"{out} was begun with --{name.replace('_', '-')} {first.get(name)}, not "
                f"{header[name]}: give the same to resume, or choose a new folder for --out."
            )
    if first != header:
        raise ValueError(
            f"{out} holds shards of other images, or the images have changed since: choose a new "
            "folder for --out."
        )


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None
