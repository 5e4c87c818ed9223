"""Batches of jittered images with their objects, made ahead of the step that uses them."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

from amcl.data.batch import Array, PackedPixels, in_shared_memory
from amcl.data.coco import CocoSet
from amcl.data.decode import UnreadableImage
from amcl.data.workers import NONE, decode_in_workers
from amcl.evaluation.detection.jitter import Example, jittered
from amcl.evaluation.detection.settings import DetectionSettings
from amcl.seeds import generator


@dataclass(frozen=True, eq=False)
class DetectionBatch:
    """The images of a step with their objects.

    Args:
        pixels: uint8 (n, 3, S, S).
        examples: Objects of each image: boxes, labels, masks.
        unreadable: Path and reason of each file that could not be read, and was replaced.
    """

    pixels: torch.Tensor
    examples: list[dict[str, torch.Tensor]]
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    @staticmethod
    def of(examples: list[Example], unreadable: dict[str, str]) -> "DetectionBatch":
        """Return the batch of these examples."""
        targets = []
        for example in examples:
            target = {"boxes": example.boxes, "labels": example.labels}
            targets.append(target if example.masks is None else {**target, "masks": example.masks})
        pixels = torch.stack([example.pixels for example in examples])
        return DetectionBatch(pixels, targets, list(unreadable.items()))

    def pack(self) -> "PackedDetectionBatch":
        """Make the batch ready to be sent to another process: masks take a bit a pixel."""
        objects = []
        for example in self.examples:
            arrays = {name: value.numpy() for name, value in example.items()}
            if "masks" in arrays:
                arrays["masks"] = np.packbits(arrays["masks"], axis=-1)
            objects.append(arrays)
        return PackedDetectionBatch(in_shared_memory(self.pixels), objects, self.unreadable)


@dataclass(frozen=True, eq=False)
class PackedDetectionBatch(PackedPixels):
    """A batch between two processes: pixels in shared memory, all else as arrays in the pipe."""

    pixels: torch.Tensor | Array
    objects: list[dict[str, Array]]
    unreadable: list[tuple[str, str]]

    def unpack(self) -> DetectionBatch:
        """Return the batch that was packed."""
        pixels = torch.as_tensor(self.pixels)
        examples = []
        for arrays in self.objects:
            if "masks" in arrays:
                bits = np.unpackbits(arrays["masks"], axis=-1, count=pixels.shape[-1])
                arrays = {**arrays, "masks": bits.astype(bool)}
            examples.append({name: torch.from_numpy(value) for name, value in arrays.items()})
        return DetectionBatch(pixels, examples, self.unreadable)


def detection_batches(
    data: CocoSet,
    steps: Iterable[torch.Tensor],
    settings: DetectionSettings,
    *,
    seed: int,
    fill: tuple[int, int, int],
    workers: int,
    on_wait: Callable[[], None] | None = None,
) -> Generator[DetectionBatch, None, None]:
    """Yield a batch for each tensor of draws, in their order.

    The batches do not depend on the number of workers. An image that cannot be read is replaced by
    the next one that can.

    Args:
        data: The images.
        steps: Draws of each step, (n, 2): the index of an image, and a number that its jitter
            follows from.
        settings: Settings, resolved.
        seed: Seed of the jitter.
        fill: Color of the padding.
        workers: Number of processes that make them; 0 makes them in this process.
        on_wait: Called about every second of waiting for a batch; may raise an error to end it.

    Yields:
        A batch for each step.
    """
    decoder = _Jitter(data, settings, seed, fill)
    if workers < 1:
        yield from map(decoder, steps)
    else:
        yield from decode_in_workers(decoder, steps, workers=workers, ahead=2, on_wait=on_wait)


class _Jitter:
    """Reads and jitters the images of a step; worker processes hold it."""

    def __init__(
        self, data: CocoSet, settings: DetectionSettings, seed: int, fill: tuple[int, int, int]
    ) -> None:
        if settings.image_size is None or settings.scale_jitter is None:
            raise ValueError("the settings are not resolved: call settings.resolved(…) first.")
        self.data = data
        self.size = settings.image_size
        self.scale = settings.scale_jitter
        self.flip_p = settings.flip_p
        self.seed = seed
        self.fill = fill
        self.current: Any = None

    def __call__(self, step: torch.Tensor) -> DetectionBatch:
        unreadable: dict[str, str] = {}
        examples = [self._example(index, draw, unreadable) for index, draw in step.tolist()]
        self._set_current(NONE)
        return DetectionBatch.of(examples, unreadable)

    def _example(self, index: int, draw: int, unreadable: dict[str, str]) -> Example:
        """Return an image as it is trained on; where it cannot be read, the next that can."""
        for offset in range(len(self.data)):
            number = (index + offset) % len(self.data)
            self._set_current(number)
            try:
                pixels = self.data.read(number)
            except UnreadableImage as error:
                unreadable[error.path] = error.reason
                continue
            random = generator(self.seed, "detect", "jitter", draw)
            objects = self.data.objects(number)
            return jittered(pixels, objects, self.size, self.scale, self.flip_p, random, self.fill)
        path, reason = next(iter(unreadable.items()))
        raise ValueError(
            f"none of the {len(self.data)} training images can be read; the first: {path}: "
            f"{reason}."
        )

    def path(self, index: int) -> str:
        """Return the path of an image."""
        return self.data.path(index)

    def _set_current(self, index: int) -> None:
        worker = get_worker_info()
        if worker is not None:
            self.current[worker.id] = index
