"""Large-scale jitter: an image and its objects, scaled, cropped or padded to a square."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import interpolate

from amcl.data.coco import Objects
from amcl.data.coco_masks import dense_masks

_LEAST = 1.0  # pixels a side of an object that is still trained on


@dataclass(frozen=True, eq=False)
class Example:
    """An image with the objects that a detector is trained on; crowds are not among them."""

    pixels: torch.Tensor
    """uint8 (3, S, S)."""
    boxes: torch.Tensor
    """Corners x0, y0, x1, y1 in pixels, (n, 4)."""
    labels: torch.Tensor
    """Classes, (n,), from 0."""
    masks: torch.Tensor | None = None
    """bool (n, S, S); None for boxes alone."""


def jittered(
    pixels: torch.Tensor,
    objects: Objects,
    size: int,
    scale: tuple[float, float],
    flip_p: float,
    generator: torch.Generator,
    fill: Sequence[int] = (124, 116, 104),
) -> Example:
    """Scale an image at random and take a square of it, or pad it to one.

    The longest side becomes `size` times a random factor. What is larger than the square is cropped
    at random; what is smaller lies in its upper left corner.

    Args:
        pixels: The image, uint8 (3, H, W).
        objects: Its objects.
        size: Side S of the square.
        scale: Least and greatest factor.
        flip_p: Probability of a horizontal flip.
        generator: Source of randomness.
        fill: Color of the padding.

    Returns:
        The square with the objects that are seen in it.

    Example:
        >>> objects = Objects(
        ...     boxes=torch.tensor([[2.0, 2.0, 6.0, 6.0]]),
        ...     labels=torch.tensor([1]),
        ...     crowd=torch.tensor([False]),
        ...     areas=torch.tensor([16.0]),
        ...     masks=None,
        ... )
        >>> image = torch.zeros(3, 8, 16, dtype=torch.uint8)
        >>> example = jittered(image, objects, 32, (1.0, 1.0), 0.0, torch.Generator())
        >>> example.pixels.shape, example.boxes
        (torch.Size([3, 32, 32]), tensor([[ 4.,  4., 12., 12.]]))
    """
    height, width = pixels.shape[1:]
    crop = _Crop.draw(height, width, size, scale, flip_p, generator)
    boxes = crop.boxes(objects.boxes)
    sides = boxes[:, 2:] - boxes[:, :2]
    kept = (sides >= _LEAST).all(1) & ~objects.crowd
    masks = None
    if objects.masks is not None:
        rle = [mask for mask, keep in zip(objects.masks, kept.tolist(), strict=True) if keep]
        dense = dense_masks(rle, (height, width))
        masks = crop.square(dense * 255, torch.zeros(1, 1, 1, dtype=torch.uint8)) > 127
        visible = masks.flatten(1).any(1)
        masks = masks[visible]
        kept[kept.clone()] = visible
    color = torch.tensor(fill, dtype=torch.uint8)[:, None, None]
    return Example(crop.square(pixels, color), boxes[kept], objects.labels[kept], masks)


@dataclass(frozen=True, kw_only=True)
class _Crop:
    """The part of an image that is seen in a square, and its size there."""

    size: int
    """Side of the square."""
    y: tuple[int, int]
    """First row of the image, and the one behind the last."""
    x: tuple[int, int]
    """First column of the image, and the one behind the last."""
    height: int
    """Rows of the square that these rows become."""
    width: int
    """Columns of the square that these columns become."""
    flip: bool

    @staticmethod
    def draw(
        height: int,
        width: int,
        size: int,
        scale: tuple[float, float],
        flip_p: float,
        generator: torch.Generator,
    ) -> "_Crop":
        """Draw scale, position and flip for an image of this height and width."""
        low, high = scale
        draw = torch.rand(4, generator=generator).tolist()
        factor = size * (low + (high - low) * draw[0]) / max(height, width)
        scaled = [max(round(side * factor), 1) for side in (height, width)]
        # The part that is seen is cut out first, so that no more than a square of it is resized.
        top, left = (int(draw[i + 1] * (max(side - size, 0) + 1)) for i, side in enumerate(scaled))
        seen = [min(side, size) for side in scaled]
        return _Crop(
            size=size,
            y=_span(top, seen[0], scaled[0], height),
            x=_span(left, seen[1], scaled[1], width),
            height=seen[0],
            width=seen[1],
            flip=draw[3] < flip_p,
        )

    def square(self, image: torch.Tensor, background: torch.Tensor) -> torch.Tensor:
        """Return the square of an image, or of masks, on a background."""
        part = image[:, slice(*self.y), slice(*self.x)]
        part = _resized(part, self.height, self.width)
        canvas = background.expand(len(image), self.size, self.size).clone()
        canvas[:, : self.height, : self.width] = part.flip(2) if self.flip else part
        return canvas

    def boxes(self, boxes: torch.Tensor) -> torch.Tensor:
        """Return boxes in the square; those outside have no area.

        Boxes follow the pixels that were cut out, whose edges are whole numbers.
        """
        (top, bottom), (left, right) = self.y, self.x
        ratio = torch.tensor([self.width / (right - left), self.height / (bottom - top)]).repeat(2)
        boxes = (boxes - torch.tensor([left, top]).repeat(2)) * ratio
        boxes = boxes.minimum(torch.tensor([self.width, self.height]).repeat(2)).clamp(min=0)
        if self.flip:
            boxes[:, [0, 2]] = self.width - boxes[:, [2, 0]]
        return boxes


def _span(start: int, count: int, scaled: int, side: int) -> tuple[int, int]:
    """Return the pixels of a side that `count` of its `scaled` pixels from `start` on come from."""
    first = min(start * side // scaled, side - 1)
    last = -(-(start + count) * side // scaled)
    return first, max(min(last, side), first + 1)


def _resized(image: torch.Tensor, height: int, width: int) -> torch.Tensor:
    if not len(image):
        return image.new_zeros(0, height, width)
    return interpolate(image[None], (height, width), mode="bilinear", antialias=True)[0]
