"""Large-scale jitter: where pixels, boxes and masks go."""

from dataclasses import replace

import pytest
import torch

from amcl.data.coco import Objects
from amcl.data.coco_masks import run_lengths
from amcl.evaluation.detection.jitter import jittered


def image_of_boxes(boxes, size=(40, 60), crowd=None):
    """A black image with white boxes, whose masks are the boxes."""
    pixels = torch.zeros(3, *size, dtype=torch.uint8)
    masks = torch.zeros(len(boxes), *size, dtype=torch.uint8)
    for mask, (x0, y0, x1, y1) in zip(masks, boxes, strict=True):
        mask[y0:y1, x0:x1] = 1
        pixels[:, y0:y1, x0:x1] = 255
    corners = torch.tensor(boxes, dtype=torch.float32).view(-1, 4)
    objects = Objects(
        boxes=corners,
        labels=torch.arange(len(boxes)),
        crowd=torch.tensor([False] * len(boxes) if crowd is None else crowd, dtype=torch.bool),
        areas=(corners[:, 2:] - corners[:, :2]).prod(1),
        masks=run_lengths(masks),
    )
    return pixels, objects


def draw(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("flip", [0.0, 1.0])
@pytest.mark.parametrize("scale", [(1.0, 1.0), (0.3, 0.3), (0.5, 2.0), (1.8, 2.0)])
def test_boxes_and_masks_stay_on_their_pixels(scale, flip):
    pixels, objects = image_of_boxes([(10, 5, 30, 25), (40, 20, 56, 38)])
    for seed in range(8):
        example = jittered(pixels, objects, 48, scale, flip, draw(seed), fill=(0, 0, 0))
        assert example.pixels.shape == (3, 48, 48)
        white = example.pixels[0] > 127
        inside = torch.zeros_like(white)
        for x0, y0, x1, y1 in example.boxes.round().int().tolist():
            inside[y0:y1, x0:x1] = True
        edge = 2 * (example.boxes[:, 2:] - example.boxes[:, :2]).sum() + 4
        assert (inside ^ white).sum() <= edge  # rounding is along the edges alone
        assert (example.masks.any(0) ^ white).sum() <= edge
        assert len(example.boxes) == len(example.labels) == len(example.masks)


def test_a_flip_mirrors_the_part_that_is_seen():
    pixels, objects = image_of_boxes([(0, 0, 10, 40)])
    example = jittered(pixels, objects, 30, (1.0, 1.0), 1.0, draw(0), fill=(7, 8, 9))
    assert example.boxes.tolist() == [[25.0, 0.0, 30.0, 20.0]]
    assert example.pixels[:, 25, 15].tolist() == [7, 8, 9]  # the padding below


def test_a_crop_follows_from_the_generator_and_drops_what_it_does_not_show():
    pixels, objects = image_of_boxes([(0, 0, 4, 4), (56, 36, 60, 40)])
    counts = set()
    for seed in range(20):
        one = jittered(pixels, objects, 40, (2.0, 2.0), 0.5, draw(seed))
        two = jittered(pixels, objects, 40, (2.0, 2.0), 0.5, draw(seed))
        assert torch.equal(one.pixels, two.pixels)
        assert torch.equal(one.boxes, two.boxes)
        counts.add(len(one.boxes))
    assert counts == {0, 1}


def test_crowds_and_objects_without_area_are_not_trained_on():
    pixels, objects = image_of_boxes([(5, 5, 25, 25), (30, 5, 50, 25)], crowd=[False, True])
    example = jittered(pixels, objects, 60, (1.0, 1.0), 0.0, draw(0))
    assert example.labels.tolist() == [0]
    flat = replace(objects, boxes=torch.tensor([[5.0, 5.0, 5.0, 25.0], [30.0, 5.0, 50.0, 5.0]]))
    flat = replace(flat, crowd=torch.tensor([False, False]))
    assert len(jittered(pixels, flat, 60, (1.0, 1.0), 0.0, draw(0)).labels) == 0


def test_images_without_objects_or_masks():
    pixels, objects = image_of_boxes([])
    example = jittered(pixels, objects, 32, (0.5, 2.0), 0.5, draw(0))
    assert example.boxes.shape == (0, 4)
    assert example.masks.shape == (0, 32, 32)
    pixels, objects = image_of_boxes([(5, 5, 25, 25)])
    boxes_only = replace(objects, masks=None)
    assert jittered(pixels, boxes_only, 32, (1.0, 1.0), 0.0, draw(0)).masks is None
