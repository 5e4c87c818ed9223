"""Detections of a network on a set of images, divided among processes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.data import get_worker_info

from amcl.data.batch import Array, PackedPixels, in_shared_memory
from amcl.data.coco import CocoSet
from amcl.data.coco_masks import run_lengths
from amcl.data.decode import UnreadableImage
from amcl.data.workers import NONE, decode_in_workers
from amcl.distributed import gather_objects
from amcl.evaluation.detection.average_precision import Detections
from amcl.progress import Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric

_THINNEST = 64  # ratio of the sides beyond which nothing may be left of the shorter one


def detections_of(
    model: nn.Module, data: CocoSet, fabric: "Fabric", *, at_once: int = 1, workers: int = 0
) -> tuple[list[Detections], dict[str, str]] | None:
    """Return what a detector sees in each image.

    Images are divided among the processes. An image that cannot be read has no detections.

    Args:
        model: The detector, which is in evaluation mode until the end.
        data: The images.
        fabric: Devices, processes and precision.
        at_once: Number of images that enter the network at once.
        workers: Number of processes that read images; 0 reads in this one.

    Returns:
        The detections, an entry for each image, and reasons by path of files that could not be
        read; None on other processes than the first.
    """
    mine = torch.arange(fabric.global_rank, len(data), fabric.world_size)
    reader = _Reader(data)
    steps = mine.split(at_once) if len(mine) else ()
    batches: Iterable[WholeImages] = map(reader, steps)
    if workers and len(steps) > 1:
        batches = decode_in_workers(reader, steps, workers=min(workers, len(steps)), ahead=2)
    by_index: dict[int, Detections] = {}
    unreadable: dict[str, str] = {}
    was_training = model.training
    model.eval()
    try:
        with Progress("detecting", len(mine), show=fabric.is_global_zero) as progress:
            for batch in batches:
                unreadable |= dict(batch.unreadable)
                by_index |= _detect(model, batch, fabric)
                progress.advance(at_once)
    finally:
        model.train(was_training)
    parts = gather_objects((by_index, unreadable))
    if parts is None:
        return None
    for others, reasons in parts:
        by_index |= others
        unreadable |= reasons
    return [by_index.get(i) or _none(data) for i in range(len(data))], unreadable


@torch.no_grad()
def _detect(model: nn.Module, batch: "WholeImages", fabric: "Fabric") -> dict[int, Detections]:
    images = [image.to(fabric.device).float().div(255) for image in batch.images()]
    if not images:
        return {}
    with fabric.autocast():
        outputs: list[dict[str, torch.Tensor]] = model(images)
    return {
        index: Detections(
            boxes=output["boxes"].float().cpu(),
            scores=output["scores"].float().cpu(),
            labels=output["labels"].cpu() - 1,  # 0 is the background
            masks=run_lengths(output["masks"][:, 0] > 0.5) if "masks" in output else None,
        )
        for index, output in zip(batch.indices, outputs, strict=True)
    }


def _none(data: CocoSet) -> Detections:
    return Detections(
        boxes=torch.zeros(0, 4),
        scores=torch.zeros(0),
        labels=torch.zeros(0, dtype=torch.long),
        masks=[] if data.has_masks else None,
    )


@dataclass(frozen=True, eq=False)
class WholeImages(PackedPixels):
    """Images of different sizes, one behind the other in one block of memory."""

    pixels: torch.Tensor | Array
    shapes: list[tuple[int, int]]
    indices: list[int]
    unreadable: list[tuple[str, str]]

    @staticmethod
    def of(images: dict[int, torch.Tensor], unreadable: list[tuple[str, str]]) -> "WholeImages":
        """Return the batch of these images, each uint8 (3, H, W)."""
        flat = [image.flatten() for image in images.values()]
        pixels = torch.cat(flat) if flat else torch.empty(0, dtype=torch.uint8)
        shapes = [(image.shape[1], image.shape[2]) for image in images.values()]
        return WholeImages(pixels, shapes, list(images), unreadable)

    def images(self) -> list[torch.Tensor]:
        """Return the images."""
        sizes = [3 * height * width for height, width in self.shapes]
        parts = torch.as_tensor(self.pixels).split(sizes)
        return [part.view(3, *shape) for part, shape in zip(parts, self.shapes, strict=False)]

    def pack(self) -> "WholeImages":
        """Make the batch ready to be sent to another process."""
        pixels = in_shared_memory(torch.as_tensor(self.pixels))
        return WholeImages(pixels, self.shapes, self.indices, self.unreadable)

    def unpack(self) -> "WholeImages":
        """Return the batch that was packed, which is itself."""
        return self


class _Reader:
    """Reads the images of a step; worker processes hold it."""

    def __init__(self, data: CocoSet) -> None:
        self.data = data
        self.current: Any = None

    def __call__(self, step: torch.Tensor) -> WholeImages:
        images: dict[int, torch.Tensor] = {}
        unreadable: list[tuple[str, str]] = []
        worker = get_worker_info()
        for index in step.tolist():
            if worker is not None:
                self.current[worker.id] = index
            try:
                images[index] = self._read(index)
            except UnreadableImage as error:
                unreadable.append((error.path, error.reason))
        if worker is not None:
            self.current[worker.id] = NONE
        return WholeImages.of(images, unreadable)

    def _read(self, index: int) -> torch.Tensor:
        height, width = self.data.shape(index)
        if max(height, width) > _THINNEST * min(height, width):
            reason = f"{width:,} × {height:,} pixels: too thin for a detector"
            raise UnreadableImage(self.path(index), reason)
        return self.data.read(index)

    def path(self, index: int) -> str:
        """Return the path of an image."""
        return self.data.path(index)
