"""The backbone of a detector: a copied network, its norm, its maps and the pyramid on them."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from amcl.backbones import Backbone
from amcl.evaluation.detection.detector_settings import DetectorSettings
from amcl.evaluation.detection.pyramid import (
    ConvolutionalMaps,
    FeaturePyramid,
    SimplePyramid,
    head_norm,
)
from amcl.evaluation.detection.vision_transformer import VisionTransformerMaps
from amcl.modules import is_vit

_ENOUGH = 16  # images a step whose statistics batch norm can learn from
_DROP_PATH = 0.1  # of vision transformers, as published for all but the largest


class PyramidBackbone(nn.Module):
    """A backbone's maps and the pyramid on them, as torchvision's detectors take it.

    Args:
        maps: Four maps of images.
        pyramid: Maps of the same channels with strides 4 to 64.
        channels: Number of these channels.
    """

    def __init__(
        self, maps: ConvolutionalMaps | VisionTransformerMaps, pyramid: nn.Module, channels: int
    ) -> None:
        super().__init__()
        self.maps = maps
        self.pyramid = pyramid
        self.out_channels = channels
        self.metadata: dict[str, Any] = {}

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        levels: dict[str, torch.Tensor] = self.pyramid(self.maps(images))
        return levels


def pyramid_backbone(
    backbone: Backbone,
    settings: DetectorSettings,
    image_size: int,
    scratch: bool,
    norm_images: int,
) -> tuple[DetectorSettings, list[str], PyramidBackbone]:
    """Return the backbone of a detector.

    Args:
        backbone: The backbone to start from, which is left as it is.
        settings: Settings of the detector.
        image_size: Pixels a side of the images.
        scratch: Take fresh weights.
        norm_images: Images of a training step over which batch norm has statistics.

    Returns:
        The settings without "auto", notes on what was chosen, and a copy of the backbone with its
        pyramid.
    """
    if backbone.channels != 3:
        raise ValueError(
            f"detection reads RGB images alone, and this backbone takes {backbone.channels} "
            "channels: choose a backbone that was trained on RGB."
        )
    vit = is_vit(backbone.network)
    if not vit:
        _check_convolutional(backbone.settings.name, settings)
    drop_path = settings.drop_path if settings.drop_path is not None else _DROP_PATH * vit
    network = backbone.copy_network(drop_path=drop_path, scratch=scratch)
    maps: ConvolutionalMaps | VisionTransformerMaps
    if vit:
        maps = VisionTransformerMaps(
            network,
            image_size,
            window=settings.window,
            scratch=scratch,
            checkpointing=settings.checkpointing,
        )
    else:
        maps = ConvolutionalMaps(network)
    notes = list(maps.notes)
    frozen = _freeze(maps, settings, scratch, norm_images, notes)
    settings = replace(
        settings,
        pyramid="fpn" if settings.pyramid == "auto" else settings.pyramid,
        window=maps.window if isinstance(maps, VisionTransformerMaps) else None,
        heads=("conv" if vit else "standard") if settings.heads == "auto" else settings.heads,
        backbone_norm="frozen" if frozen else "batch",
        drop_path=drop_path,
    )
    channels = settings.channels
    assert channels is not None  # `for_images` has set it
    sizes = (maps.widths, maps.strides, channels)
    if settings.pyramid == "simple":
        return settings, notes, PyramidBackbone(maps, SimplePyramid(*sizes), channels)
    norm = head_norm(settings.head_norm) if settings.heads == "conv" else None
    return settings, notes, PyramidBackbone(maps, FeaturePyramid(*sizes, norm), channels)


def _check_convolutional(name: str, settings: DetectorSettings) -> None:
    for setting, given in (
        ("pyramid", settings.pyramid == "simple"),
        ("window", settings.window is not None),
        ("checkpointing", settings.checkpointing),
    ):
        if given:
            raise ValueError(
                f"{setting}={getattr(settings, setting)!r} is for vision transformers, and "
                f"{name!r} is none: leave out --{setting}, or choose a network such as "
                "vit_small_patch16_224."
            )


def _freeze(
    maps: ConvolutionalMaps | VisionTransformerMaps,
    settings: DetectorSettings,
    scratch: bool,
    norm_images: int,
    notes: list[str],
) -> bool:
    """Freeze batch norm if the settings say so, or if a step has few images."""
    from timm.layers import freeze_batch_norm_2d  # type: ignore[attr-defined]

    if not any(isinstance(m, nn.BatchNorm2d) for m in maps.modules()):
        if settings.backbone_norm == "frozen":
            raise ValueError(
                "backbone_norm='frozen' is for backbones with batch norm, and this one has none: "
                "leave out --backbone-norm."
            )
        return False
    if settings.backbone_norm == "frozen" and scratch:
        raise ValueError(
            "backbone_norm='frozen' keeps statistics of a training, and fresh weights have none: "
            "use --backbone-norm batch."
        )
    few = norm_images < _ENOUGH
    frozen = settings.backbone_norm == "frozen" or (
        settings.backbone_norm == "auto" and few and not scratch
    )
    if frozen:
        maps.network = freeze_batch_norm_2d(maps.network)  # type: ignore[no-untyped-call]
    reason = ""
    if settings.backbone_norm == "auto":
        reason = (
            ": fresh weights have no statistics"
            if scratch
            else f": statistics of fewer than {_ENOUGH} images a step are noise"
            if few
            else f": it has statistics of {norm_images} images a step"
        )
    notes.append(f"batch norm of the backbone is {'frozen' if frozen else 'trained'}{reason}")
    return frozen
