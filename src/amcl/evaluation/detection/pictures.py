"""Pictures of detections beside the truth."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn.functional import interpolate

from amcl.data.coco import CocoSet
from amcl.data.coco_masks import Rle, dense_masks
from amcl.data.decode import UnreadableImage
from amcl.evaluation.detection.average_precision import Detections
from amcl.printable import printable

_LONGEST = 480  # pixels of the longer side of each of the two images
_GAP = 6  # white columns between them
_SHOWN = 20  # objects drawn in an image, at most
# Colors that color-blind readers tell apart, by class in turn (Okabe and Ito).
_COLORS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#FFFFFF")


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Objects to draw: boxes, classes, labels and masks, the most important last."""

    boxes: torch.Tensor
    classes: list[int]
    names: list[str]
    masks: torch.Tensor | None


def side_by_side(
    data: CocoSet,
    detections: Sequence[Detections],
    count: int = 12,
    least_score: float = 0.5,
) -> tuple[list[torch.Tensor], list[int]]:
    """Draw annotated objects, on the left, and detected ones, on the right.

    Args:
        data: The images.
        detections: The detections, an entry for each image.
        count: Number of images, taken evenly from those that have objects.
        least_score: Detections of at least this score are drawn; where an image has none, its
            best three.

    Returns:
        Pictures, uint8 (3, H, W), and the index of the image of each.
    """
    candidates = [i for i in range(len(data)) if len(data.objects(i).labels)]
    step = max(len(candidates) / count, 1)
    chosen = [candidates[int(k * step)] for k in range(min(count, len(candidates)))]
    pictures = []
    indices = []
    for index in chosen:
        try:
            pixels = data.read(index)
        except UnreadableImage:  # the result names such files
            continue
        image, factor = _shrunk(pixels)
        truth = _draw(image, _truth(data, index, factor, image.shape[1:]))
        seen = _draw(image, _seen(data, detections[index], factor, image.shape[1:], least_score))
        gap = torch.full((3, image.shape[1], _GAP), 255, dtype=torch.uint8)
        pictures.append(torch.cat([truth, gap, seen], dim=2))
        indices.append(index)
    return pictures, indices


def _truth(data: CocoSet, index: int, factor: float, size: Sequence[int]) -> _Drawn:
    objects = data.objects(index)
    order = objects.areas.argsort(descending=True)[:_SHOWN].tolist()
    masks = None if objects.masks is None else [objects.masks[i] for i in order]
    classes = objects.labels[order].tolist()
    return _Drawn(
        objects.boxes[order] * factor,
        classes,
        [printable(data.classes[k]) for k in classes],
        _shrunk_masks(masks, data.shape(index), size),
    )


def _seen(
    data: CocoSet, detections: Detections, factor: float, size: Sequence[int], least_score: float
) -> _Drawn:
    order = detections.scores.argsort(descending=True)
    good = [i for i in order.tolist() if detections.scores[i] >= least_score][:_SHOWN]
    shown = (good or order.tolist()[:3])[::-1]
    masks = None
    if detections.masks is not None:
        masks = [detections.masks[i] for i in shown]
    classes = detections.labels[shown].tolist()
    names = [
        f"{printable(data.classes[k])} {detections.scores[i]:.2f}"
        for k, i in zip(classes, shown, strict=True)
    ]
    shape = (size[0], size[1])
    if masks:
        shape = (int(masks[0]["size"][0]), int(masks[0]["size"][1]))
    return _Drawn(
        detections.boxes[shown] * factor, classes, names, _shrunk_masks(masks, shape, size)
    )


def _draw(image: torch.Tensor, drawn: _Drawn) -> torch.Tensor:
    """Return the image with the outlines of objects, their masks and names."""
    from matplotlib import get_data_path
    from torchvision.utils import (  # type: ignore[import-untyped]
        draw_bounding_boxes,
        draw_segmentation_masks,
    )

    if not drawn.names:
        return image
    colors = [_COLORS[k % len(_COLORS)] for k in drawn.classes]
    if drawn.masks is not None:
        image = draw_segmentation_masks(image, drawn.masks, alpha=0.4, colors=colors)
    boxes = drawn.boxes.clamp(min=0)
    limit = torch.tensor([image.shape[2] - 1, image.shape[1] - 1]).repeat(2)
    boxes = boxes.minimum(limit)
    boxes[:, 2:] = boxes[:, 2:].maximum(boxes[:, :2])  # a box may have no width
    picture: torch.Tensor = draw_bounding_boxes(
        image,
        boxes,
        labels=drawn.names,
        colors=colors,
        width=2,
        font=str(Path(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")),
        font_size=13,
        label_colors="black",
        label_background_colors=colors,
        fill_labels=True,
    )
    return picture


def _shrunk(pixels: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return an image of at most the size that is drawn, and its scale; small ones grow."""
    height, width = pixels.shape[1:]
    factor = _LONGEST / max(height, width)
    size = [max(round(side * factor), 1) for side in (height, width)]
    resized = interpolate(pixels[None], size, mode="bilinear", antialias=True)
    return resized[0].contiguous(), factor


def _shrunk_masks(
    masks: list[Rle] | None, shape: tuple[int, int], size: Sequence[int]
) -> torch.Tensor | None:
    if masks is None:
        return None
    if not masks:
        return torch.zeros(0, *size, dtype=torch.bool)
    dense = dense_masks(masks, shape)[:, None].float()
    return interpolate(dense, list(size), mode="bilinear")[:, 0] > 0.5
