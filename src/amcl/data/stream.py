"""Batches of decoded images, decoded ahead of the step that uses them."""

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from typing import Any

import torch
from torch.utils.data import get_worker_info

from amcl.data.batch import Batch
from amcl.data.decode import UnreadableImage
from amcl.data.images import FileImages, Images, MemoryImages
from amcl.data.workers import NONE, decode_in_workers
from amcl.progress import Progress

CHUNK = 64  # images in a batch when a whole set is read


def stream(
    images: Images,
    steps: Iterable[torch.Tensor],
    *,
    workers: int,
    ahead: int = 2,
    replace: bool = True,
    on_wait: Callable[[], None] | None = None,
) -> Generator[Batch, None, None]:
    """Yield a batch for each tensor of indices, in their order.

    An unreadable file is listed in its batch. The batches do not depend on the number of workers.
    Closing the generator ends the workers.

    Args:
        images: Images in memory, or files.
        steps: Indices of the images of each step; read as far ahead as images are decoded.
        workers: Number of processes that decode files; 0 decodes in this process.
        ahead: Number of batches that each process decodes before they are needed.
        replace: Replace an unreadable file by the next readable one, so that batches stay full;
            else it is left out, as is right for images with labels.
        on_wait: Called about every second of waiting for a batch; may raise an error to end it.

    Yields:
        A `Batch` for each step.

    Example:
        >>> images = MemoryImages(torch.zeros(10, 3, 32, 32, dtype=torch.uint8))
        >>> steps = torch.randperm(10).split(5)
        >>> [len(batch.pixels) for batch in stream(images, steps, workers=0)]
        [5, 5]
    """
    if isinstance(images, MemoryImages):
        shapes = images.shapes
        for indices in steps:
            yield Batch(
                images[indices], None if shapes is None else shapes[indices], indices=indices
            )
        return
    for batch in _decode_steps(images, steps, workers, ahead, replace=replace, on_wait=on_wait):
        if replace and batch.positions is not None:
            raise ValueError(
                f"none of the {len(images)} image files can be read anymore; the first: "
                f"{': '.join(batch.unreadable[0])}. Check that the files are still in place."
            )
        yield batch


def read_into_memory(
    files: FileImages, *, workers: int
) -> tuple[MemoryImages, torch.Tensor, list[tuple[str, str]]]:
    """Decode all files.

    Returns:
        The images that could be read, the indices of their files, and path and reason of others.
    """
    side = files.canvas[0]
    pixels = torch.empty(len(files), files.channels, side, side, dtype=files.dtype)
    shapes = torch.empty(len(files), 2, dtype=torch.long)
    read: list[torch.Tensor] = []
    unreadable: list[tuple[str, str]] = []
    filled = 0
    steps = torch.split(torch.arange(len(files)), CHUNK)
    batches = _decode_steps(files, steps, min(workers, len(steps) - 1), 2, replace=False)
    with closing(batches), Progress("decoding images", len(files)) as progress:
        for step, batch in zip(steps, batches, strict=True):
            assert batch.shapes is not None
            end = filled + len(batch.pixels)
            pixels[filled:end] = batch.pixels
            shapes[filled:end] = batch.shapes
            read.append(batch.select(step))
            unreadable += batch.unreadable
            filled = end
            progress.advance(len(step))
    # Squares were scaled, not squashed: without `shapes` they are cropped as they are.
    squashed = bool((shapes[:filled, 0] != shapes[:filled, 1]).any())
    images = MemoryImages(pixels[:filled], shapes[:filled] if squashed else None)
    return images, torch.cat(read), unreadable


class _Decoder:
    """Decodes the files of a step; worker processes hold it."""

    def __init__(self, files: FileImages, replace: bool) -> None:
        self.files = files
        self.replace = replace
        self.current: Any = None

    def __call__(self, step: torch.Tensor) -> Batch:
        files = self.files
        pixels = torch.empty(len(step), files.channels, *files.canvas, dtype=files.dtype)
        shapes = torch.empty(len(step), 2, dtype=torch.long)
        positions: list[int] = []
        decoded: list[int] = []
        unreadable: dict[str, str] = {}
        for position, index in enumerate(step.tolist()):
            image = self._decode(index, unreadable)
            if image is not None:
                file, pixels[len(positions)], shape = image
                shapes[len(positions)] = torch.tensor(shape)
                positions.append(position)
                decoded.append(file)
        self._set_current(NONE)
        n = len(positions)
        read = None if n == len(step) else torch.tensor(positions, dtype=torch.long)
        return Batch(
            pixels[:n], shapes[:n], list(unreadable.items()), read, torch.tensor(decoded).long()
        )

    def _decode(
        self, index: int, unreadable: dict[str, str]
    ) -> tuple[int, torch.Tensor, tuple[int, int]] | None:
        """Return the index of a file, its pixels and its shape; None if none can be read."""
        for offset in range(len(self.files) if self.replace else 1):
            file = (index + offset) % len(self.files)
            self._set_current(file)
            try:
                return file, *self.files.decode(file)
            except UnreadableImage as error:
                unreadable[error.path] = error.reason
        return None

    def path(self, index: int) -> str:
        """Return the path of a file."""
        return self.files.path(index)

    def _set_current(self, index: int) -> None:
        worker = get_worker_info()
        if worker is not None:
            self.current[worker.id] = index


def _decode_steps(
    files: FileImages,
    steps: Iterable[torch.Tensor],
    workers: int,
    ahead: int,
    *,
    replace: bool,
    on_wait: Callable[[], None] | None = None,
) -> Generator[Batch, None, None]:
    decoder = _Decoder(files, replace)
    if workers < 1:
        return (decoder(indices) for indices in steps)
    return decode_in_workers(decoder, steps, workers=workers, ahead=ahead, on_wait=on_wait)
