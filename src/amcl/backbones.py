"""Backbones: any timm model by name, with a stem for small images and a width multiplier."""

import difflib
import json
import os
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import timm
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from timm.models.resnet import ResNet
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from amcl.settings import choose, positive_number, whole_number

Stem = Literal["auto", "small", "standard"]

SMALL = 64  # images of up to so many pixels a side get the small stem
_PATCHES = 8  # a vision transformer on small images sees so many patches a side


@dataclass(frozen=True, kw_only=True)
class BackboneSettings:
    """Which backbone is trained."""

    backbone: str = "resnet18"
    """A timm model by name."""
    width: float = 1.0
    """Multiplies every width: 2 or 4 for wide networks, 0.25 for small machines."""
    stem: Stem = "auto"
    """small: 3×3, stride 1, no pooling (CIFAR); standard: as timm; auto: small up to 64 pixels."""

    def __post_init__(self) -> None:
        if not timm.is_model(self.backbone):
            raise ValueError(_unknown(self.backbone))
        positive_number("width", self.width, "1 is the network as published, 0.25 a small one")
        choose("stem", self.stem, ("auto", "small", "standard"))


class Backbone(nn.Module):
    """A timm network that ends in pooled features. images: (N, 3, S, S). Returns h: (N, `dim`).

    `network` is the plain timm module: its state dict has timm's own keys.

    >>> backbone = Backbone(BackboneSettings(backbone="resnet18", width=0.25), image_size=32)
    >>> backbone(torch.randn(2, 3, 32, 32)).shape
    torch.Size([2, 128])
    """

    normalisation: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Mean and std of the channels, where the backbone was loaded from a run."""

    def __init__(self, settings: BackboneSettings, image_size: int) -> None:
        super().__init__()
        self.settings = settings
        self.image_size = whole_number("image_size", image_size)
        self.network = _network(settings, image_size)
        # Some families widen their features once more behind the pooling.
        wider = getattr(self.network, "head_hidden_size", None)
        self.dim: int = wider or self.network.num_features

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = self.network(images)
        return h

    def metadata(self) -> dict[str, Any]:
        """What `Backbone` needs to be made again."""
        return asdict(self.settings) | {"image_size": self.image_size}


def load_backbone(path: str | os.PathLike[str]) -> Backbone:
    """A trained backbone from a run folder, or from its `backbone.safetensors`.

    `normalisation` of what comes back are the mean and std of the channels it was trained with.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "backbone.safetensors"
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}: a run leaves its backbone there when it ends; `amcl pretrain "
            f"--resume {file.parent}` finishes one that was stopped."
        )
    with safe_open(file, "pt") as stored:
        made = json.loads((stored.metadata() or {}).get("amcl", "null"))
    if made is None:
        raise ValueError(f"{file} was not written by amcl: it does not say which network it holds.")
    mean, std, image_size = (made.pop(name) for name in ("mean", "std", "image_size"))
    backbone = Backbone(BackboneSettings(**made), image_size)
    backbone.network.load_state_dict(load_file(file))
    backbone.normalisation = (tuple(mean), tuple(std))
    return backbone.eval()


def _network(settings: BackboneSettings, image_size: int) -> Any:
    name, width = settings.backbone, settings.width
    with torch.device("meta"):
        published = timm.create_model(name)
    small = settings.stem == "small" or (settings.stem == "auto" and image_size <= SMALL)
    if isinstance(published, ResNet):
        return _resnet(name, published, width, small)
    if isinstance(published, VisionTransformer):
        return _vision_transformer(name, published, width, image_size, small)
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
            stacklevel=2,
        )
    return timm.create_model(name, num_classes=0)


def _resnet(name: str, published: Any, width: float, small: bool) -> Any:
    changed: dict[str, Any] = {}
    deep = isinstance(published.conv1, nn.Sequential)
    if width != 1:
        stages = [stage[-1] for stage in (getattr(published, f"layer{i}") for i in range(1, 5))]
        planes = [_last_norm(stage).num_features // type(stage).expansion for stage in stages]
        # timm widens a deep stem only; a plain one is made deep here and replaced below.
        inplanes = published.bn1.num_features
        changed = {
            "channels": tuple(_scaled(p, width) for p in planes),
            "stem_width": _scaled(inplanes // 2, width),
        }
        if not deep:
            changed["stem_type"] = "deep"
    network: Any = timm.create_model(name, num_classes=0, **changed)
    inplanes = network.bn1.num_features
    if small:
        network.conv1 = nn.Conv2d(3, inplanes, kernel_size=3, padding=1, bias=False)
        network.maxpool = nn.Identity()
    elif changed and not deep:
        network.conv1 = nn.Conv2d(3, inplanes, kernel_size=7, stride=2, padding=3, bias=False)
    else:
        return network
    nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
    return network


def _last_norm(block: nn.Module) -> Any:
    return [m for m in block.modules() if isinstance(m, nn.BatchNorm2d)][-1]


def _vision_transformer(
    name: str, published: Any, width: float, image_size: int, small: bool
) -> Any:
    attention = published.blocks[0].attn
    patch = max(image_size // _PATCHES, 1) if small else published.patch_embed.patch_size[0]
    if image_size % patch:
        raise ValueError(
            f"{name!r} cuts images into patches of {patch} pixels, and {image_size} is no multiple "
            f"of it: use an image size of {image_size // patch * patch or patch}."
        )
    heads = max(round(attention.num_heads * width), 1)
    return timm.create_model(
        name,
        num_classes=0,
        img_size=image_size,
        patch_size=patch,
        embed_dim=published.embed_dim // attention.num_heads * heads,
        num_heads=heads,
        global_pool="avg",
    )


def _scaled(channels: int, width: float) -> int:
    return max(round(channels * width), 1)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, timm.list_models(), n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else "timm.list_models() lists them all."
    return f"there is no timm model called {name!r}: {hint}"
