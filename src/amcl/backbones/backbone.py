"""A timm network as a backbone: images in, pooled features out."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from amcl.backbones.design import Design, design_of
from amcl.backbones.settings import SMALL, BackboneSettings
from amcl.settings import whole_number


class Backbone(nn.Module):
    """A timm network that ends in pooled features.

    It maps images (N, C, S, S) to features h (N, `dim`). `network` is the plain timm module: its
    state dict has the keys of timm.

    Args:
        settings: Name, width, stem, patches and pooling of the network.
        image_size: Side S of the images in pixels.
        channels: Number C of channels of the images.
        drop_path: Rate at which whole blocks are skipped in training (stochastic depth).

    >>> backbone = Backbone(BackboneSettings(name="resnet18", width=0.25), image_size=32)
    >>> backbone(torch.randn(2, 3, 32, 32)).shape
    torch.Size([2, 128])
    """

    normalization: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Mean and std of the channels if the backbone was loaded from a run, else None."""

    def __init__(
        self,
        settings: BackboneSettings,
        image_size: int,
        *,
        channels: int = 3,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.image_size = whole_number("image_size", image_size)
        self.channels = whole_number("channels", channels)
        self._design = replace(design_of(settings, image_size), channels=channels)
        # Drop path has no weights: a state dict fits with and without it.
        extra = {"drop_path_rate": drop_path} if drop_path else {}
        self.network = self._design.make(extra)
        # Some families widen their features once more behind the pooling.
        head_size = getattr(self.network, "head_hidden_size", None)
        self.dim: int = head_size or self.network.num_features

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if images.ndim != 4 or images.shape[1] != self.channels:
            hint = "give the channels that it was trained on"
            if self.channels == 3:
                gray = images.ndim == 4 and images.shape[1] == 1
                hint = "images.expand(-1, 3, -1, -1) makes three channels of one" if gray else "RGB"
            raise ValueError(
                f"this backbone takes images (N, {self.channels}, S, S), got "
                f"{tuple(images.shape)}: {hint}."
            )
        if not images.is_floating_point():
            raise TypeError(
                f"a backbone takes floating-point images, got {images.dtype}: divide pixels by "
                "255, then normalize them with the mean and std of backbone.normalization."
            )
        h: torch.Tensor = self.network(images)
        return h

    @property
    def patch(self) -> int:
        """Pixels a side of the patches of a vision transformer; 1 for other networks."""
        embed = getattr(self.network, "patch_embed", None)
        sides = getattr(embed, "patch_size", None)
        return int(sides[0]) if sides else 1

    def allow_crops(self) -> None:
        """Let a vision transformer take images of other sizes, for which it interpolates positions.

        Convolutional networks take them anyway. Images of its own size give the same features.

        Example:
            >>> backbone = Backbone(BackboneSettings(name="test_vit"), image_size=32)
            >>> backbone.allow_crops()
            >>> backbone(torch.randn(2, 3, 16, 16)).shape
            torch.Size([2, 64])
        """
        from timm.layers.format import Format
        from timm.models.vision_transformer import VisionTransformer

        network: Any = self.network
        if isinstance(self.network, VisionTransformer):
            # As timm makes it with dynamic_img_size=True.
            network.dynamic_img_size = True
            network.patch_embed.strict_img_size = False
            network.patch_embed.flatten = False
            network.patch_embed.output_fmt = Format.NHWC

    def copy_network(self, *, drop_path: float = 0.0, scratch: bool = False) -> nn.Module:
        """Return the network once more, to be trained on.

        Args:
            drop_path: Rate at which whole blocks are skipped in training (stochastic depth).
            scratch: Take fresh weights, from the global generator, instead of the same.

        Returns:
            The plain timm module.

        Example:
            >>> backbone = Backbone(BackboneSettings(name="test_vit"), image_size=32)
            >>> network = backbone.copy_network(drop_path=0.1)
            >>> torch.equal(network.cls_token, backbone.network.cls_token)
            True
        """
        with warnings.catch_warnings():  # they came when the backbone was made
            warnings.simplefilter("ignore")
            try:
                copied = Backbone(
                    self.settings, self.image_size, channels=self.channels, drop_path=drop_path
                )
            except TypeError as error:
                if "drop_path_rate" not in str(error):
                    raise
                raise ValueError(
                    f"{self.settings.name!r} has no drop path: set drop_path=0."
                ) from error
        network: nn.Module = copied.network
        if not scratch:
            network.load_state_dict(self.network.state_dict())
        return network

    def set_drop_path(self, rate: float) -> None:
        """Let a vision transformer skip blocks in training (stochastic depth).

        Args:
            rate: Rate at which the last block is skipped; it rises from 0 in the first.

        Raises:
            ValueError: If the network is no vision transformer.

        Example:
            >>> backbone = Backbone(BackboneSettings(name="test_vit"), image_size=32)
            >>> backbone.set_drop_path(0.1)
            >>> backbone.network.blocks[-1].drop_path1
            DropPath(drop_prob=0.100)
        """
        from timm.layers.drop import DropPath
        from timm.models.vision_transformer import VisionTransformer

        blocks: Any = self.network.blocks if isinstance(self.network, VisionTransformer) else []
        if not blocks or not all(hasattr(block, "drop_path1") for block in blocks):
            raise ValueError(
                f"drop_path={rate} skips blocks of vision transformers, and {self.settings.name!r} "
                "has none of them: leave it out (--drop-path 0), or choose a network such as "
                "vit_tiny_patch16_224."
            )
        for block, share in zip(blocks, torch.linspace(0, rate, len(blocks)).tolist(), strict=True):
            block.drop_path1 = DropPath(share)
            block.drop_path2 = DropPath(share)

    def check_crops(self, size: int) -> None:
        """Raise an error if the network cannot take crops of a size.

        Args:
            size: Pixels a side.
        """
        patch = self.patch
        if size % patch:
            raise ValueError(
                f"local crops of {size} pixels are no multiple of the patches of "
                f"{self.settings.name!r}, {patch} pixels: use --local-size "
                f"{max(round(size / patch), 1) * patch}, or other patches (--patch)."
            )

    def fixed_settings(self) -> BackboneSettings:
        """Return settings that make the same stem and patches for images of any size.

        Example:
            >>> backbone = Backbone(BackboneSettings(name="resnet18"), image_size=32)
            >>> backbone.settings.stem, backbone.fixed_settings().stem
            ('auto', 'small')
        """
        from timm.models.resnet import ResNet
        from timm.models.vision_transformer import VisionTransformer

        if isinstance(self.network, VisionTransformer):
            return replace(self.settings, patch=self.patch)
        if isinstance(self.network, ResNet) and self.settings.stem == "auto":
            return replace(self.settings, stem="small" if self.image_size <= SMALL else "standard")
        return self.settings

    def metadata(self) -> dict[str, Any]:
        """Return what is needed to make the backbone again; of RGB the channels are not said."""
        channels = {} if self.channels == 3 else {"channels": self.channels}
        return self.settings.metadata() | {"image_size": self.image_size} | channels

    def code(self, weights: str = "backbone.safetensors") -> str:
        """Return Python that makes this network and loads its weights, with timm and torch alone.

        >>> backbone = Backbone(BackboneSettings(name="resnet18"), image_size=32)
        >>> print(backbone.code())
        import timm
        import torch
        from safetensors.torch import load_file
        <BLANKLINE>
        model = timm.create_model("resnet18", num_classes=0)
        model.conv1 = torch.nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
        model.maxpool = torch.nn.Identity()
        model.load_state_dict(load_file("backbone.safetensors"))
        model = model.eval()
        """
        lines = self._design.code(self.network)
        imports = ["import timm", "import torch"] if len(lines) > 1 else ["import timm"]
        return "\n".join(
            [
                *imports,
                "from safetensors.torch import load_file",
                "",
                *lines,
                f"model.load_state_dict(load_file({json.dumps(weights, ensure_ascii=False)}))",
                "model = model.eval()",
            ]
        )

    @property
    def as_published(self) -> bool:
        """Return whether this is the network of timm for RGB, with nothing changed."""
        return self._design == Design(self.settings.name)

    def load(self, tensors: Mapping[str, torch.Tensor], where: object) -> None:
        """Load weights with the keys of timm; all of the network and no others, or an error.

        Args:
            tensors: Weights by name.
            where: Their origin, for the error.
        """
        state = self.network.state_dict()
        faults = [f"{name} is missing" for name in state if name not in tensors]
        faults += [f"{name} is one too many" for name in tensors if name not in state]
        faults += [
            f"{name} is {tuple(tensors[name].shape)} instead of {tuple(value.shape)}"
            for name, value in state.items()
            if name in tensors and tensors[name].shape != value.shape
        ]
        if faults:
            raise ValueError(
                f"the weights in {where} are not those of {self.settings.name} as it is made "
                f"here: {some(faults)}. They may come from another version of amcl or timm."
            )
        self.network.load_state_dict(tensors)


def some(names: list[str], most: int = 3) -> str:
    """Return the first few names, and the number of others.

    >>> some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
