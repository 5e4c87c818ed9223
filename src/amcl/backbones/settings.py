"""Settings of a backbone."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import tyro

from amcl.backbones.model_names import check_model
from amcl.settings import choose, positive_number, whole_number

Stem = Literal["auto", "small", "standard"]
Pool = Literal["auto", "mean"]

SMALL = 64  # images of up to this many pixels a side get the small stem

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
