"""Anchors and heads of the detector, in proportion to its images."""

from typing import Any

import torch
from torch import nn
from torchvision.models.detection import FasterRCNN, MaskRCNN  # type: ignore[import-untyped]
from torchvision.models.detection.anchor_utils import (  # type: ignore[import-untyped]
    AnchorGenerator,
)
from torchvision.models.detection.faster_rcnn import (  # type: ignore[import-untyped]
    FastRCNNConvFCHead,
    FastRCNNPredictor,
    TwoMLPHead,
)
from torchvision.models.detection.mask_rcnn import (  # type: ignore[import-untyped]
    MaskRCNNHeads,
    MaskRCNNPredictor,
)
from torchvision.models.detection.rpn import RPNHead  # type: ignore[import-untyped]
from torchvision.ops import MultiScaleRoIAlign  # type: ignore[import-untyped]

from amcl.evaluation.detection.body import PyramidBackbone
from amcl.evaluation.detection.detector_settings import DetectorSettings
from amcl.evaluation.detection.pyramid import STRIDES, head_norm
from amcl.evaluation.detection.vision_transformer import VisionTransformerMaps

_PUBLISHED = 1024  # pixels a side of the images for which sizes of anchors were published
_FEATURES = 4  # channels of a box head's linear layers, for each of its convolutions
_DETECTIONS = 100  # of an image, at most, as COCO counts
_PROPOSALS = {"train": (2000, 500), "test": (1000, 250)}  # as published, and the least


class Anchors(AnchorGenerator):  # type: ignore[misc]
    """Anchors of sizes in proportion to the images, at the true strides of the pyramid.

    torchvision divides the sizes of image and map, which is wrong where the coarsest map is padded,
    and rounds anchors to whole pixels, which makes the small ones of small images all alike.

    Args:
        image_size: Pixels a side of the images; of 1024 pixels, anchors have 32 to 512 a side.

    Example:
        >>> [cell[1].tolist() for cell in Anchors(1024).cell_anchors[:2]]
        [[-16.0, -16.0, 16.0, 16.0], [-32.0, -32.0, 32.0, 32.0]]
    """

    def __init__(self, image_size: int) -> None:
        sizes = tuple((32 * 2**i * image_size / _PUBLISHED,) for i in range(5))
        super().__init__(sizes, ((0.5, 1.0, 2.0),) * 5)

    def generate_anchors(
        self,
        scales: list[float],
        aspect_ratios: list[float],
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> torch.Tensor:
        """Return the anchors of a cell (A, 4) around its center: as high as ratio × width."""
        sizes = torch.tensor(scales, dtype=dtype, device=device)
        roots = torch.tensor(aspect_ratios, dtype=dtype, device=device).sqrt()
        width = (sizes / roots[:, None]).flatten()
        height = (sizes * roots[:, None]).flatten()
        return torch.stack([-width, -height, width, height], dim=1) / 2

    def grid_anchors(
        self, grid_sizes: list[list[int]], strides: list[list[torch.Tensor]]
    ) -> list[torch.Tensor]:
        """Return the anchors of each map, whose strides are known."""
        true = [
            [torch.full_like(s, stride) for s in pair]
            for pair, stride in zip(strides, (*STRIDES, 2 * STRIDES[-1]), strict=True)
        ]
        anchors: list[torch.Tensor] = super().grid_anchors(grid_sizes, true)
        return anchors


def roi_pool(side: int, image_size: int) -> MultiScaleRoIAlign:
    """Return the pooling of boxes from the level that fits their size.

    Args:
        side: Pixels a side of what is pooled.
        image_size: Pixels a side of the images; of 1024 pixels, boxes of 224 are of the third
            level.

    Returns:
        The pooling, whose scales are those of the pyramid.

    Example:
        >>> roi_pool(7, 1024).scales
        [0.25, 0.125, 0.0625, 0.03125]
    """
    names = [str(i) for i in range(len(STRIDES))]
    scale = 224 * image_size / _PUBLISHED
    pool = MultiScaleRoIAlign(names, side, sampling_ratio=2, canonical_scale=scale)
    # It infers its scales from the first images it sees, wrongly where they are padded.
    largest = STRIDES[-1]
    maps = {n: torch.zeros(1, 1, *[largest // s] * 2) for n, s in zip(names, STRIDES, strict=True)}
    pool(maps, [torch.tensor([[0.0, 0.0, 1.0, 1.0]])], [(largest, largest)])
    return pool


def proposals(image_size: int) -> dict[str, int]:
    """Return numbers of proposals in proportion to the images, as arguments of torchvision.

    With those that were published for large images, small ones spend most of their time in
    comparing proposals.

    Args:
        image_size: Pixels a side of the images.

    Returns:
        Numbers of each level before overlapping ones are removed, and of an image after it.

    Example:
        >>> proposals(1024)["rpn_post_nms_top_n_test"], proposals(128)["rpn_post_nms_top_n_test"]
        (1000, 250)
    """
    share = min(image_size / _PUBLISHED, 1.0)
    return {
        f"rpn_{place}_nms_top_n_{stage}": max(round(published * share), least)
        for stage, (published, least) in _PROPOSALS.items()
        for place in ("pre", "post")
    }


def region_cnn(body: PyramidBackbone, settings: DetectorSettings) -> nn.Module:
    """Return the detector of torchvision around a backbone.

    Args:
        body: The backbone with its pyramid and its metadata.
        settings: Settings without "auto".

    Returns:
        Mask R-CNN, or Faster R-CNN for boxes alone.
    """
    facts = body.metadata
    channels = settings.channels
    assert channels is not None  # `for_images` has set it
    size, classes = facts["detector_image_size"], facts["num_classes"] + 1  # the background
    features = _FEATURES * channels
    conv = settings.heads == "conv"
    norm = head_norm(settings.head_norm)
    generator, box_pool = Anchors(size), roi_pool(7, size)
    anchors = generator.num_anchors_per_location()[0]
    box_head = (
        FastRCNNConvFCHead((channels, 7, 7), [channels] * 4, [features], norm_layer=norm)
        if conv
        else TwoMLPHead(channels * 7 * 7, features)
    )
    arguments: dict[str, Any] = {
        "min_size": size,
        "max_size": size,
        "image_mean": facts["mean"],
        "image_std": facts["std"],
        # A vision transformer has positions for images of one size.
        "size_divisible": size if isinstance(body.maps, VisionTransformerMaps) else STRIDES[-1],
        "_skip_resize": True,  # training images have their size
        "rpn_anchor_generator": generator,
        **proposals(size),
        "rpn_head": RPNHead(channels, anchors, conv_depth=2 if conv else 1),
        "box_roi_pool": box_pool,
        "box_head": box_head,
        "box_predictor": FastRCNNPredictor(features, classes),
        "box_batch_size_per_image": settings.samples,
        "box_detections_per_img": _DETECTIONS,
    }
    if facts["masks"]:
        arguments |= {
            "mask_roi_pool": roi_pool(14, size),
            "mask_head": MaskRCNNHeads(
                channels, [channels] * 4, dilation=1, norm_layer=norm if conv else None
            ),
            "mask_predictor": MaskRCNNPredictor(channels, channels, classes),
        }
    model: nn.Module = (MaskRCNN if facts["masks"] else FasterRCNN)(body, **arguments)
    return model
