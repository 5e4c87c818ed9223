"""Backbones: any timm model by name, with a stem for small images and a width multiplier."""

import difflib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import torch
import tyro
from torch import nn

from amcl.settings import choose, positive_number, whole_number
from amcl.tensor_files import read_metadata, read_safetensors
from amcl.text_files import require

Stem = Literal["auto", "small", "standard"]
Pool = Literal["auto", "mean"]

SMALL = 64  # images of up to this many pixels a side get the small stem
_PATCHES = 8  # patches a side that a vision transformer sees of small images

# Models of the recipes. timm has them for certain, and so settings that name them are made without
# importing timm, which takes longer than all else that `amcl pretrain --help` does.
USUAL = frozenset(
    {
        "resnet10t",
        "resnet18",
        "resnet50",
        "test_vit",
        "vit_base_patch16_224",
        "vit_large_patch16_224",
        "vit_small_patch16_224",
        "vit_tiny_patch16_224",
    }
)


@dataclass(frozen=True, kw_only=True)
class BackboneSettings:
    """Settings of the backbone that is trained."""

    name: Annotated[str, tyro.conf.arg(name="backbone", metavar="NAME")] = "resnet18"
    """A timm model by name."""
    width: float = 1.0
    """Multiplies every width: 2 or 4 for wide networks, 0.25 for small machines."""
    stem: Stem = "auto"
    """small: 3×3, stride 1, no pooling (CIFAR); standard: as timm; auto: small up to 64 pixels. Of
    a vision transformer: the size of its patches, unless patch sets it."""
    patch: int | None = None
    """Pixels a side of a vision transformer's patches; none: an eighth of small images, else as
    timm."""
    pool: Pool = "auto"
    """Features of a vision transformer; auto: as timm, mostly the class token; mean: the mean of
    the patch tokens."""

    def __post_init__(self) -> None:
        if self.name not in USUAL:
            check_model(self.name)
        positive_number("width", self.width, "1 is the network as published, 0.25 a small one")
        choose("stem", self.stem, ("auto", "small", "standard"))
        if self.patch is not None:
            whole_number("patch", self.patch, "it is in pixels")
        choose("pool", self.pool, ("auto", "mean"))

    def metadata(self) -> dict[str, Any]:
        """Return the settings as files have them, where the name is that of the backbone.

        >>> BackboneSettings(name="resnet50").metadata()["backbone"]
        'resnet50'
        """
        values = asdict(self)
        return {"backbone": values.pop("name")} | values

    @staticmethod
    def from_metadata(metadata: Mapping[str, Any]) -> "BackboneSettings":
        """Return the settings that `metadata` describes; other entries of it are ignored.

        >>> BackboneSettings.from_metadata(BackboneSettings(width=0.5).metadata()).width
        0.5
        """
        return BackboneSettings(
            name=metadata["backbone"],
            width=metadata["width"],
            stem=metadata["stem"],
            patch=metadata.get("patch"),  # files of the first versions do not say these
            pool=metadata.get("pool", "auto"),
        )


class Backbone(nn.Module):
    """A timm network that ends in pooled features.

    It maps images (N, 3, S, S) to features h (N, `dim`). `network` is the plain timm module: its
    state dict has the keys of timm.

    Args:
        settings: Name, width, stem, patches and pooling of the network.
        image_size: Side S of the images in pixels.
        drop_path: Rate at which whole blocks are skipped in training (stochastic depth).

    >>> backbone = Backbone(BackboneSettings(name="resnet18", width=0.25), image_size=32)
    >>> backbone(torch.randn(2, 3, 32, 32)).shape
    torch.Size([2, 128])
    """

    normalization: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    """Mean and std of the channels if the backbone was loaded from a run, else None."""

    def __init__(
        self, settings: BackboneSettings, image_size: int, *, drop_path: float = 0.0
    ) -> None:
        super().__init__()
        self.settings = settings
        self.image_size = whole_number("image_size", image_size)
        self._design = _design(settings, image_size)
        # Drop path has no weights: a state dict fits with and without it.
        extra = {"drop_path_rate": drop_path} if drop_path else {}
        self.network = self._design.make(extra)
        # Some families widen their features once more behind the pooling.
        head_size = getattr(self.network, "head_hidden_size", None)
        self.dim: int = head_size or self.network.num_features

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if images.ndim != 4 or images.shape[1] != 3:
            gray = images.ndim == 4 and images.shape[1] == 1
            hint = "images.expand(-1, 3, -1, -1) makes three channels of one" if gray else "RGB"
            raise ValueError(
                f"a backbone takes images (N, 3, S, S), got {tuple(images.shape)}: {hint}."
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
                copied = Backbone(self.settings, self.image_size, drop_path=drop_path)
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
        """Return what is needed to make the backbone again."""
        return self.settings.metadata() | {"image_size": self.image_size}

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
        """Return whether this is the network of timm, with nothing changed."""
        return self._design == _Design(self.settings.name)

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


def load_backbone(path: str | os.PathLike[str]) -> Backbone:
    """Load a trained backbone.

    Args:
        path: A run folder, or its `backbone.safetensors`.

    Returns:
        The backbone in evaluation mode; its `normalization` has the mean and std of the channels
        that it was trained with.
    """
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"there is no file or folder {str(path)!r}.")
    if file.is_dir():
        file = file / "backbone.safetensors"
    if file.suffix != ".safetensors":
        raise ValueError(
            f"{file} is no backbone: give a run folder or its backbone.safetensors; `amcl export "
            "CHECKPOINT --out FOLDER` makes one of a checkpoint."
        )
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file}: a run leaves its backbone there when it ends; `amcl pretrain "
            f"--resume {file.parent}` finishes one that was stopped."
        )
    tensors, metadata = read_safetensors(file)
    if metadata is None:
        raise ValueError(f"{file} was not written by amcl: it does not say which network it holds.")
    return backbone_of(metadata, tensors, file)


def backbone_of(
    metadata: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], where: object
) -> Backbone:
    """Return the backbone that a file's metadata describes, with its weights.

    Args:
        metadata: Network, image size and normalization, as `read_metadata` returns them.
        tensors: Weights by name.
        where: The file, for errors.

    Returns:
        The backbone in evaluation mode.
    """
    require(metadata, _Metadata, f"the metadata of {where}")
    try:
        settings = BackboneSettings.from_metadata(metadata)
        with own_randomness():
            backbone = Backbone(settings, metadata["image_size"])
    except ValueError as error:
        raise ValueError(f"the metadata of {where} describe no network: {error}") from None
    backbone.load(tensors, where)
    backbone.normalization = (tuple(metadata["mean"]), tuple(metadata["std"]))
    return backbone.eval()


def stored_image_size(file: Path) -> int | None:
    """Return the pixels a side of the images that a stored backbone takes.

    Args:
        file: File of the backbone.

    Returns:
        The side; None if the file was not written by amcl.

    Example:
        >>> stored_image_size(Path("run/backbone.safetensors"))  # doctest: +SKIP
        32
    """
    metadata = read_metadata(file)
    if metadata is None:
        return None
    require(metadata, _Metadata, f"the metadata of {file}")
    return int(metadata["image_size"])


class _Metadata(TypedDict):
    """What a file says of the backbone that it holds; it may say more."""

    backbone: str
    width: float
    stem: str
    patch: NotRequired[int | None]
    pool: NotRequired[str]
    image_size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


@contextmanager
def own_randomness(seed: int = 0) -> Iterator[None]:
    """Seed the weights of modules made in this context; other random numbers do not change."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def some(names: list[str], most: int = 3) -> str:
    """Return the first few names, and the number of others.

    >>> some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


@dataclass(frozen=True)
class _Design:
    """Arguments with which timm makes a network, and the replacement of its stem."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    conv: dict[str, int] | None = None
    pool: bool = True

    def make(self, extra: dict[str, Any]) -> Any:
        """Return the network, with random weights."""
        import timm

        network: Any = timm.create_model(self.name, num_classes=0, **self.arguments, **extra)
        if self.conv is not None:
            sizes: dict[str, Any] = self.conv
            network.conv1 = nn.Conv2d(3, network.bn1.num_features, **sizes, bias=False)
            nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
        if not self.pool:
            network.maxpool = nn.Identity()
        return network

    def code(self, network: Any) -> list[str]:
        """Return the lines of Python that make the network."""
        arguments = [json.dumps(self.name), "num_classes=0"]
        for name, value in self.arguments.items():
            arguments.append(
                f"{name}={json.dumps(value) if isinstance(value, str) else repr(value)}"
            )
        lines = [f"model = timm.create_model({', '.join(arguments)})"]
        if self.conv is not None:
            sizes = ", ".join(f"{name}={value}" for name, value in self.conv.items())
            planes = network.bn1.num_features
            lines.append(f"model.conv1 = torch.nn.Conv2d(3, {planes}, {sizes}, bias=False)")
        if not self.pool:
            lines.append("model.maxpool = torch.nn.Identity()")
        return lines


@cache
def _published(name: str) -> Any:
    """Return the network as timm has it, without weights, for inspection."""
    import timm

    with torch.device("meta"):
        return timm.create_model(name)


def _design(settings: BackboneSettings, image_size: int) -> _Design:
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
    return _Design(name)


def _resnet(name: str, published: Any, width: float, small: bool) -> _Design:
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
        return _Design(name, arguments, {"kernel_size": 3, "stride": 1, "padding": 1}, pool=False)
    if arguments and not deep:
        return _Design(name, arguments, {"kernel_size": 7, "stride": 2, "padding": 3})
    return _Design(name, arguments)


def _last_norm(block: nn.Module) -> Any:
    return [m for m in block.modules() if isinstance(m, nn.BatchNorm2d)][-1]


def _vision_transformer(
    settings: BackboneSettings, published: Any, image_size: int, small: bool
) -> _Design:
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
    return _Design(name, arguments)


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


def check_model(model: str) -> None:
    """Raise an error unless timm has a model of this name, and weights of its tag if it has one."""
    import timm

    if not timm.is_model(model):
        raise ValueError(unknown_model(model))
    name, _, tag = model.partition(".")
    if tag and model not in timm.list_pretrained(f"{name}.*"):
        raise ValueError(
            f"there is no {model!r}: timm's weights of {name} are "
            f"{', '.join(timm.list_pretrained(f'{name}.*'))}."
        )


def unknown_model(name: str) -> str:
    """Return the message that timm has no such model, with similar names."""
    import timm

    matches = difflib.get_close_matches(name, timm.list_models(), n=3, cutoff=0.5)
    hint = (
        f"did you mean {', '.join(matches)}?" if matches else "timm.list_models() lists them all."
    )
    return f"there is no timm model called {name!r}: {hint}"
