"""Batches of decoded images, made ahead of the step that uses them."""

import signal
import sys
import warnings
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from amcl.data.decode import UnreadableImage
from amcl.data.images import FileImages, Images, MemoryImages
from amcl.progress import Progress

CHUNK = 64  # images a worker decodes before it hands them over, when a whole set is read


@dataclass(frozen=True)
class Batch:
    """Pixels uint8 (n, 3, H, W), true heights and widths (n, 2) unless none was squashed.

    `kept` are the places in the step that were read, where unreadable files left gaps.
    """

    pixels: torch.Tensor
    shapes: torch.Tensor | None
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    kept: torch.Tensor | None = None

    def of(self, values: torch.Tensor) -> torch.Tensor:
        """Those of the step's values, such as labels, whose images were read."""
        return values if self.kept is None else values[self.kept]


def stream(
    images: Images,
    steps: Iterable[torch.Tensor],
    *,
    workers: int,
    ahead: int = 2,
    replace: bool = True,
) -> Generator[Batch, None, None]:
    """One batch for each tensor of indices in `steps`, in that order.

    Files are decoded by `workers` processes (0: in this one), up to `ahead` batches each before
    they are asked for; `steps` is read that far ahead. An unreadable file is named in its batch
    and replaced by the next readable one, so that batches stay full; without `replace`, as where
    images have labels, it is left out. What comes does not depend on the number of workers.
    Closing the generator ends the workers.

    >>> images = MemoryImages(torch.zeros(10, 3, 32, 32, dtype=torch.uint8))
    >>> steps = torch.randperm(10).split(5)
    >>> [len(batch.pixels) for batch in stream(images, steps, workers=0)]
    [5, 5]
    """
    if isinstance(images, MemoryImages):
        shapes = images.shapes
        for indices in steps:
            yield Batch(images[indices], None if shapes is None else shapes[indices])
        return
    for batch in _decode_steps(images, steps, workers, ahead, replace=replace):
        if replace and batch.kept is not None:
            raise ValueError(
                f"none of the {len(images)} image files can be read any more; the first: "
                f"{': '.join(batch.unreadable[0])}. Check that the files are still in place."
            )
        yield batch


def read_into_memory(
    files: FileImages, *, workers: int
) -> tuple[MemoryImages, torch.Tensor, list[tuple[str, str]]]:
    """Every readable file decoded once, the indices of those files, and the others by name."""
    side = files.canvas[0]
    pixels = torch.empty(len(files), 3, side, side, dtype=torch.uint8)
    shapes = torch.empty(len(files), 2, dtype=torch.long)
    kept: list[torch.Tensor] = []
    unreadable: list[tuple[str, str]] = []
    filled = 0
    steps = torch.split(torch.arange(len(files)), CHUNK)
    batches = _decode_steps(files, steps, min(workers, len(steps) - 1), 2, replace=False)
    with closing(batches), Progress("decoding images", len(files)) as progress:
        for step, batch in zip(steps, batches, strict=True):
            assert batch.shapes is not None
            end = filled + len(batch.pixels)
            pixels[filled:end], shapes[filled:end] = batch.pixels, batch.shapes
            kept.append(batch.of(step))
            unreadable += batch.unreadable
            filled = end
            progress.advance(len(step))
    # Squares were scaled, not squashed: without `shapes` they are cropped as they are.
    squashed = bool((shapes[:filled, 0] != shapes[:filled, 1]).any())
    images = MemoryImages(pixels[:filled], shapes[:filled] if squashed else None)
    return images, torch.cat(kept), unreadable


class _Decoder(Dataset[Batch]):
    """A batch of files by their indices; it is what worker processes hold."""

    def __init__(self, files: FileImages, replace: bool) -> None:
        self.files, self.replace = files, replace

    def __getitem__(self, indices: torch.Tensor) -> Batch:
        pixels = torch.empty(len(indices), 3, *self.files.canvas, dtype=torch.uint8)
        shapes = torch.empty(len(indices), 2, dtype=torch.long)
        kept: list[int] = []
        unreadable: dict[str, str] = {}
        for position, index in enumerate(indices.tolist()):
            found = self._read(index, unreadable)
            if found is not None:
                pixels[len(kept)] = found[0]
                shapes[len(kept)] = torch.tensor(found[1])
                kept.append(position)
        n = len(kept)
        missing = None if n == len(indices) else torch.tensor(kept, dtype=torch.long)
        return Batch(pixels[:n], shapes[:n], list(unreadable.items()), missing)

    def _read(
        self, index: int, unreadable: dict[str, str]
    ) -> tuple[torch.Tensor, tuple[int, int]] | None:
        for offset in range(len(self.files) if self.replace else 1):
            try:
                return self.files.decode((index + offset) % len(self.files))
            except UnreadableImage as error:
                unreadable[error.path] = error.reason
        return None


def _decode_steps(
    files: FileImages, steps: Iterable[torch.Tensor], workers: int, ahead: int, *, replace: bool
) -> Generator[Batch, None, None]:
    decoder = _Decoder(files, replace)
    if workers < 1:
        yield from map(decoder.__getitem__, steps)
        return
    with warnings.catch_warnings():
        # More workers than cores, and forks of a process with threads: both are meant, and the
        # workers call nothing that waits for a thread of the parent.
        warnings.simplefilter("ignore")
        loader = DataLoader(
            decoder,
            batch_size=None,
            sampler=steps,
            num_workers=workers,
            prefetch_factor=ahead,
            collate_fn=_as_it_is,
            worker_init_fn=_set_up_worker,
            # The loader draws a seed for its workers: not from the numbers that training draws.
            generator=torch.Generator(),
        )
        batches = iter(loader)
    try:
        yield from batches
    finally:
        del batches  # the last reference: this ends the workers


def _as_it_is(batch: Any) -> Any:
    return batch


def _set_up_worker(_: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: it ends the workers
    warnings.simplefilter("ignore")
    sys.excepthook = _report


def _report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    # A parent that is interrupted while it fetches a batch hangs up: no fault of the worker.
    if not issubclass(kind, (ConnectionError, EOFError)):
        sys.__excepthook__(kind, error, trace)
