"""How timm makes the network of a backbone: its stem, width and patches."""

import json
import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import nn

from amcl.backbones.settings import SMALL, BackboneSettings

_PATCHES = 8  # patches a side that a vision transformer sees of small images


@dataclass(frozen=True)
class Design:
    """Arguments with which timm makes a network, and the replacement of its stem."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    conv: dict[str, int] | None = None
    pool: bool = True
    channels: int = 3

    def make(self, extra: dict[str, Any]) -> Any:
        """Return the network, with random weights."""
        import timm

        arguments = self._all_arguments() | extra
        try:
            network: Any = timm.create_model(self.name, num_classes=0, **arguments)
        except TypeError as error:
            if "in_chans" not in str(error):
                raise
            raise ValueError(
                f"{self.name!r} takes RGB alone, and the images have {self.channels} channels: "
                "choose another network, such as resnet18 or vit_tiny_patch16_224."
            ) from error
        if self.conv is not None:
            sizes: dict[str, Any] = self.conv
            network.conv1 = nn.Conv2d(self.channels, network.bn1.num_features, **sizes, bias=False)
            nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        if not self.pool:
            network.maxpool = nn.Identity()
        return network

    def _all_arguments(self) -> dict[str, Any]:
        """Return the arguments with the number of channels, where that is not 3."""
        return self.arguments | ({} if self.channels == 3 else {"in_chans": self.channels})

    def code(self, network: Any) -> list[str]:
        """Return the lines of Python that make the network."""
        arguments = [json.dumps(self.name), "num_classes=0"]
        for name, value in self._all_arguments().items():
            arguments.append(
                f"{name}={json.dumps(value) if isinstance(value, str) else repr(value)}"
            )
        lines = [f"model = timm.create_model({', '.join(arguments)})"]
        if self.conv is not None:
            sizes = ", ".join(f"{name}={value}" for name, value in self.conv.items())
            planes = network.bn1.num_features
            lines.append(
                f"model.conv1 = torch.nn.Conv2d({self.channels}, {planes}, {sizes}, bias=False)"
            )
        if not self.pool:
            lines.append("model.maxpool = torch.nn.Identity()")
        return lines


@cache
def _published(name: str) -> Any:
    """Return the network as timm has it, without weights, for inspection."""
    import timm

    with torch.device("meta"):
        return timm.create_model(name)


def design_of(settings: BackboneSettings, image_size: int) -> Design:
    """Return the design of the network that settings describe, for images of a size."""
    from timm.models.resnet import ResNet
    from timm.models.vision_transformer import VisionTransformer

    name = settings.name
    width = settings.width
    published = _published(name)
    small = settings.stem == "small" or (settings.stem == "auto" and image_size <= SMALL)
    if isinstance(published, VisionTransformer):
        return _vision_transformer(settings, published, image_size, small)
    if (settings.patch, settings.pool) != (None, "auto"):
        raise ValueError(
            f"patch and pool are known for the vision transformer family, and {name!r} is a "
            f"{type(published).__name__}: leave them out (--pool auto), or choose a "
            "network such as vit_tiny_patch16_224."
        )
    if isinstance(published, ResNet):
        return _resnet(name, published, width, small)
    if width != 1:
        raise ValueError(
            f"width={width} is known for the ResNet and vision transformer families, and "
            f"{name!r} is a {type(published).__name__}: use width=1 or a model of those families."
        )
    if settings.stem == "small":
        raise ValueError(
            f"a small stem is known for the ResNet and vision transformer families, and {name!r} "
            f"is a {type(published).__name__}: use stem='standard' or a model of those families."
        )
    if small:
        warnings.warn(
            f"{name!r} keeps its stem for large images, on images of {image_size} pixels: little "
            "is left of them after it. A ResNet or a vision transformer gets a small one.",
            stacklevel=3,
        )
    return Design(name)


def _resnet(name: str, published: Any, width: float, small: bool) -> Design:
    arguments: dict[str, Any] = {}
    deep = isinstance(published.conv1, nn.Sequential)
    if width != 1:
        stages = [stage[-1] for stage in (getattr(published, f"layer{i}") for i in range(1, 5))]
        planes = [_last_norm(stage).num_features // type(stage).expansion for stage in stages]
        # timm widens a deep stem only; a plain one is made deep here and replaced afterwards.
        inplanes = published.bn1.num_features
        arguments = {
            "channels": tuple(_scaled(p, width) for p in planes),
            # A tiered stem begins with three quarters of it, by whole fours.
            "stem_width": max(_scaled(inplanes // 2, width), 4 if deep else 1),
        }
        if not deep:
            arguments["stem_type"] = "deep"
    if small:
        return Design(name, arguments, {"kernel_size": 3, "stride": 1, "padding": 1}, pool=False)
    if arguments and not deep:
        return Design(name, arguments, {"kernel_size": 7, "stride": 2, "padding": 3})
    return Design(name, arguments)


def _last_norm(block: nn.Module) -> Any:
    return [m for m in block.modules() if isinstance(m, nn.BatchNorm2d)][-1]


def _vision_transformer(
    settings: BackboneSettings, published: Any, image_size: int, small: bool
) -> Design:
    name = settings.name
    width = settings.width
    embed = published.patch_embed
    default_patch = max(image_size // _PATCHES, 1) if small else embed.patch_size[0]
    patch = settings.patch or default_patch
    if image_size % patch:
        raise ValueError(
            f"{name!r} cuts images into patches of {patch} pixels, and {image_size} is no multiple "
            f"of it: use an image size of {image_size // patch * patch or patch}, or other patches "
            "(--patch)."
        )
    arguments: dict[str, Any] = {}
    if embed.img_size != (image_size, image_size):
        arguments["img_size"] = image_size
    if embed.patch_size != (patch, patch):
        arguments["patch_size"] = patch
    if width != 1:
        arguments |= _scaled_heads(name, published, width)
    if settings.pool == "mean" and published.global_pool != "avg":
        class_tokens = published.num_prefix_tokens - published.num_reg_tokens
        if published.global_pool != "token" or class_tokens != 1:
            raise ValueError(
                f"{name!r} does not end in a class token, in whose place the mean could be taken: "
                "use pool='auto', or a network such as vit_tiny_patch16_224."
            )
        # timm would move the norm behind the pooling; where it is, tokens are normalized too.
        arguments |= {"global_pool": "avg", "fc_norm": False}
    return Design(name, arguments)


def _scaled_heads(name: str, published: Any, width: float) -> dict[str, int]:
    """Return arguments for another number of attention heads, each as wide as it was."""
    attention = getattr(published.blocks[0], "attn", None)
    if attention is None:
        raise ValueError(
            f"width={width} is not known for the blocks of {name!r}: use width=1 or another model."
        )
    heads = max(round(attention.num_heads * width), 1)
    if heads == attention.num_heads:
        return {}
    return {
        "embed_dim": published.embed_dim // attention.num_heads * heads,
        "num_heads": heads,
    }


def _scaled(channels: int, width: float) -> int:
    return max(round(channels * width), 1)
