"""Pyramids of maps with strides 4 to 64, from the maps of convolutional networks or transformers.

Shape letters: N images, D width of a map, C channels of the pyramid.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

STRIDES = (4, 8, 16, 32)
_PROBE = 64  # pixels a side of an image on which a network's maps are measured

Norm = Callable[[int], nn.Module]
"""Returns a norm for a number of channels."""


class ConvolutionalMaps(nn.Module):
    """The maps of a convolutional network of timm with strides 4, 8, 16 and 32.

    What they do not need is removed: the state dict of `network` is timm's without it.

    Args:
        network: A network of timm with `forward_intermediates`, which is changed in place.

    Example:
        >>> import timm
        >>> maps = ConvolutionalMaps(timm.create_model("resnet18", num_classes=0))
        >>> [tuple(x.shape) for x in maps(torch.randn(1, 3, 64, 64))]
        [(1, 64, 16, 16), (1, 128, 8, 8), (1, 256, 4, 4), (1, 512, 2, 2)]
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.notes = _restore_stem(network)
        timm_network: Any = network
        self.network = timm_network
        self.strides = list(STRIDES)
        try:
            info = list(timm_network.feature_info)
            reductions = [entry["reduction"] for entry in info]
            # Of several maps with a stride, the last has seen the most.
            last = [len(reductions) - 1 - reductions[::-1].index(s) for s in STRIDES]
            timm_network.prune_intermediate_layers(last, prune_norm=True)
            self.indices = last
            self.widths = [int(info[i]["num_chs"]) for i in last]
            # Statistics of batch norm stay as they are in evaluation mode.
            maps = self.eval()(torch.zeros(1, 3, _PROBE, _PROBE))
            self.train()
        except (
            AssertionError,
            LookupError,
            AttributeError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as e:
            raise _no_maps(network) from e
        sides = [_PROBE // stride for stride in STRIDES]
        expected = [(1, width, n, n) for width, n in zip(self.widths, sides, strict=True)]
        if [tuple(x.shape) for x in maps] != expected:
            raise _no_maps(network)
        _remove_unused(network, maps)

    def forward(self, images: torch.Tensor) -> list[torch.Tensor]:
        maps: list[torch.Tensor] = self.network.forward_intermediates(
            images, indices=self.indices, intermediates_only=True
        )
        return maps


class FeaturePyramid(nn.Module):
    """A feature pyramid network (arXiv 1612.03144) on maps that are first scaled to its strides.

    It maps four maps (N, D, H, W) to maps "0" … "3" of strides 4 … 32 and "pool" of stride 64, of C
    channels. A map is scaled up by transposed convolutions, ×2 each, of its own width, with a norm
    and GELU in between; it is scaled down by max pooling.

    Args:
        widths: Width D of each map.
        strides: Stride of each map, a power of two.
        channels: Number C of channels.
        norm: Norm after each convolution of the pyramid; None: none.

    Example:
        >>> pyramid = FeaturePyramid([8] * 4, [16] * 4, 32)
        >>> maps = pyramid([torch.randn(1, 8, 4, 4)] * 4)
        >>> {name: tuple(x.shape[1:]) for name, x in maps.items()}
        {'0': (32, 16, 16), '1': (32, 8, 8), '2': (32, 4, 4), '3': (32, 2, 2), 'pool': (32, 1, 1)}
    """

    def __init__(
        self,
        widths: Sequence[int],
        strides: Sequence[int],
        channels: int,
        norm: Norm | None = None,
    ) -> None:
        super().__init__()
        from torchvision.ops import FeaturePyramidNetwork  # type: ignore[import-untyped]
        from torchvision.ops.feature_pyramid_network import (  # type: ignore[import-untyped]
            LastLevelMaxPool,
        )

        self.scales = nn.ModuleList(
            rescaling(width, stride, target, group_norm)
            for width, stride, target in zip(widths, strides, STRIDES, strict=True)
        )
        self.fpn = FeaturePyramidNetwork(
            list(widths), channels, extra_blocks=LastLevelMaxPool(), norm_layer=norm
        )

    def forward(self, maps: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        scaled = [scale(x) for scale, x in zip(self.scales, maps, strict=True)]
        named = OrderedDict((str(i), x) for i, x in enumerate(scaled))
        pyramid: dict[str, torch.Tensor] = self.fpn(named)
        return pyramid


class SimplePyramid(nn.Module):
    """The simple feature pyramid of ViTDet (arXiv 2203.16527): every level from the last map alone.

    The map is scaled to each stride by transposed convolutions, which halve its width with each ×2,
    or by max pooling; then come a 1×1 and a 3×3 convolution, each with layer norm. Takes and gives
    what `FeaturePyramid` does.

    Args:
        widths: Width of each map, of which the last counts.
        strides: Stride of each map.
        channels: Number C of channels.

    Example:
        >>> pyramid = SimplePyramid([8] * 4, [16] * 4, 32)
        >>> maps = pyramid([torch.randn(1, 8, 4, 4)] * 4)
        >>> {name: tuple(x.shape[1:]) for name, x in maps.items()}
        {'0': (32, 16, 16), '1': (32, 8, 8), '2': (32, 4, 4), '3': (32, 2, 2), 'pool': (32, 1, 1)}
    """

    def __init__(self, widths: Sequence[int], strides: Sequence[int], channels: int) -> None:
        super().__init__()
        from timm.layers import LayerNorm2d  # type: ignore[attr-defined]

        width, stride = widths[-1], strides[-1]
        self.levels = nn.ModuleList(
            nn.Sequential(
                rescaling(width, stride, target, LayerNorm2d, halve=True),
                nn.Conv2d(max(width * target // max(stride, target), 1), channels, 1, bias=False),
                LayerNorm2d(channels),
                nn.Conv2d(channels, channels, 3, padding=1, bias=False),
                LayerNorm2d(channels),
            )
            for target in STRIDES
        )

    def forward(self, maps: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        pyramid = OrderedDict((str(i), level(maps[-1])) for i, level in enumerate(self.levels))
        pyramid["pool"] = F.max_pool2d(pyramid["3"], 1, 2)  # as torchvision's LastLevelMaxPool
        return pyramid


def rescaling(
    width: int, stride: int, target: int, norm: Norm, *, halve: bool = False
) -> nn.Module:
    """Return a module that brings a map from one stride to another; both are powers of two.

    Args:
        width: Channels of the map.
        stride: Stride of the map.
        target: Stride that it is brought to.
        norm: Norm between transposed convolutions.
        halve: Halve the channels with each transposed convolution; else they stay.

    Returns:
        Transposed convolutions of 2×2 pixels, max pooling, or nothing.

    Example:
        >>> rescaling(8, 16, 4, group_norm)(torch.randn(1, 8, 4, 4)).shape
        torch.Size([1, 8, 16, 16])
        >>> rescaling(8, 16, 32, group_norm)
        MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    """
    if stride == target:
        return nn.Identity()
    if stride < target:
        return nn.MaxPool2d(target // stride)
    layers: list[nn.Module] = []
    for _ in range(int(math.log2(stride // target))):
        if layers:
            layers += [norm(width), nn.GELU()]
        out = max(width // 2, 1) if halve else width
        layers.append(nn.ConvTranspose2d(width, out, kernel_size=2, stride=2))
        width = out
    return nn.Sequential(*layers)


def group_norm(channels: int) -> nn.Module:
    """Return a group norm, of 32 groups where they divide the channels.

    Args:
        channels: Number of channels.

    Returns:
        The norm.

    Example:
        >>> group_norm(256).num_groups, group_norm(12).num_groups
        (32, 4)
    """
    return nn.GroupNorm(math.gcd(32, channels), channels)


def head_norm(name: str) -> Norm:
    """Return the norm of convolutions in the pyramid and the heads.

    Args:
        name: "group" or "batch", as `DetectorSettings.head_norm`.

    Returns:
        A function of the number of channels.

    Example:
        >>> type(head_norm("group")(64)).__name__
        'GroupNorm'
    """
    return group_norm if name == "group" else BatchNorm


class BatchNorm(nn.BatchNorm2d):
    """Batch norm that leaves an empty batch as it is: images may have nothing to learn masks from.

    Example:
        >>> BatchNorm(8)(torch.randn(0, 8, 14, 14)).shape
        torch.Size([0, 8, 14, 14])
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not len(x):  # weights are part of the sum so that they have a gradient, of zero
            return x * self.weight.sum() + self.bias.sum()
        return super().forward(x)


def _restore_stem(network: nn.Module) -> list[str]:
    """Let a ResNet with the stem for small images reduce them to a fourth, as others do."""
    from timm.models.resnet import ResNet

    resnet: Any = network
    if not isinstance(network, ResNet) or not isinstance(resnet.maxpool, nn.Identity):
        return []
    resnet.conv1.stride = (2, 2)
    resnet.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
    return [
        "the stem for small images got stride 2 and max pooling, for maps of strides 4 to 32; all "
        "its weights are kept"
    ]


def _remove_unused(network: nn.Module, maps: list[torch.Tensor]) -> None:
    """Remove modules without a gradient, such as a norm before the classifier.

    They would stop distributed training, and their weights would be saved for nothing.
    """
    parameters = list(network.parameters())
    total = torch.stack([x.sum() for x in maps]).sum()
    gradients = torch.autograd.grad(total, parameters, allow_unused=True)
    used = {id(p) for p, g in zip(parameters, gradients, strict=True) if g is not None}

    def clean(module: nn.Module) -> None:
        for name, child in module.named_children():
            own = list(child.parameters())
            if own and not any(id(p) in used for p in own):
                setattr(module, name, nn.Identity())
            else:
                clean(child)

    clean(network)


def _no_maps(network: nn.Module) -> ValueError:
    return ValueError(
        f"a {type(network).__name__} gives a detector no maps of strides 4, 8, 16 and 32 on images "
        "of any size: choose a ResNet (resnet50), another convolutional network of timm with such "
        "maps (convnext_tiny, efficientnet_b0, regnety_016), or a plain vision transformer "
        "(vit_small_patch16_224)."
    )
