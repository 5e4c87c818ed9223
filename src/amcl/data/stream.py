"""Batches of decoded images, made ahead of the step that uses them."""

from collections.abc import Callable, Generator, Iterable
from contextlib import closing

import torch

from amcl.data.batch import Batch
from amcl.data.decode import UnreadableImage
from amcl.data.images import FileImages, Images, MemoryImages
from amcl.data.workers import from_workers
from amcl.progress import Progress

CHUNK = 64  # images a worker decodes before it hands them over, when a whole set is read


def stream(
    images: Images,
    steps: Iterable[torch.Tensor],
    *,
    workers: int,
    ahead: int = 2,
    replace: bool = True,
    on_wait: Callable[[], None] | None = None,
) -> Generator[Batch, None, None]:
    """One batch for each tensor of indices in `steps`, in that order.

    Files are decoded by `workers` processes (0: in this one), up to `ahead` batches each before
    they are asked for; `steps` is read that far ahead. An unreadable file is named in its batch
    and replaced by the next readable one, so that batches stay full; without `replace`, as where
    images have labels, it is left out. What comes does not depend on the number of workers.
    Closing the generator ends the workers. `on_wait` is called about every second while nothing
    comes from them, and may raise an error to end the wait.

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
    for batch in _decode_steps(images, steps, workers, ahead, replace=replace, on_wait=on_wait):
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


class _Decoder:
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
        return (decoder[indices] for indices in steps)
    return from_workers(decoder, steps, workers=workers, ahead=ahead, on_wait=on_wait)
