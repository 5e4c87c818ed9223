"""Settings of the detector around a backbone."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from amcl.settings import choose, non_negative, non_negative_int, whole_number

PyramidKind = Literal["auto", "fpn", "simple"]
Heads = Literal["auto", "standard", "conv"]
HeadNorm = Literal["group", "batch"]
BackboneNorm = Literal["auto", "frozen", "batch"]


@dataclass(frozen=True, kw_only=True)
class DetectorSettings:
    """Settings of the detector around a backbone; "auto" depends on the backbone.

    Example:
        >>> DetectorSettings(window=7).window
        7
        >>> DetectorSettings(heads="wide")
        Traceback (most recent call last):
        ValueError: heads must be one of 'auto', 'standard', 'conv'; got 'wide'.
    """

    pyramid: PyramidKind = "auto"
    """fpn: a feature pyramid network; simple: ViTDet's pyramid, from the last map of a vision
    transformer alone; auto: fpn."""
    window: int | None = None
    """Tokens a side of the windows within which a vision transformer attends, except in the last
    block of each quarter; none: the largest divisor of the token grid up to 16; 0: no windows."""
    heads: Heads = "auto"
    """standard: a box head of two linear layers, no norm; conv: convolutions with norm, in the
    pyramid too, as for vision transformers in arXiv 2111.11429; auto: conv for them, else
    standard."""
    head_norm: HeadNorm = "group"
    """Norm of conv heads: group, which does not depend on the batch; batch, as published,
    synchronized over processes on GPUs."""
    backbone_norm: BackboneNorm = "auto"
    """Batch norm of a convolutional backbone: frozen with its statistics; batch: trained,
    synchronized over processes on GPUs; auto: frozen with fewer than 16 images a step, batch from
    scratch."""
    drop_path: float | None = None
    """Rate at which blocks of the backbone are skipped in training, rising with depth; none: 0.1
    for vision transformers, 0 for others."""
    channels: int | None = None
    """Channels of the pyramid and of the convolutions in the heads; none: 256 as published for
    images of 512 pixels and more, 128 from 256 pixels on, 64 below."""
    samples: int | None = None
    """Proposals an image, at most, that the box head trains on; none: half as many as an image has
    pixels a side, from 64 to 512, which is as published for 1,024 pixels."""
    checkpointing: bool = False
    """Compute the blocks of a vision transformer a second time for gradients, to save memory."""

    def __post_init__(self) -> None:
        choose("pyramid", self.pyramid, ("auto", "fpn", "simple"))
        if self.window is not None:
            non_negative_int("window", self.window, "it is in tokens, and 0 stands for no windows")
        choose("heads", self.heads, ("auto", "standard", "conv"))
        choose("head_norm", self.head_norm, ("group", "batch"))
        choose("backbone_norm", self.backbone_norm, ("auto", "frozen", "batch"))
        if self.drop_path is not None:
            rate = non_negative("drop_path", self.drop_path, "0 switches it off")
            if rate >= 1:
                raise ValueError(f"drop_path must be below 1, got {self.drop_path}.")
        for name, advice in (("channels", "256 is"), ("samples", "512 is")):
            if getattr(self, name) is not None:
                fix = f"{advice} as published, 64 for small machines"
                whole_number(name, getattr(self, name), fix)
        if not isinstance(self.checkpointing, bool):
            raise ValueError(f"checkpointing must be True or False, got {self.checkpointing!r}.")

    def for_images(self, image_size: int) -> "DetectorSettings":
        """Return the settings with the sizes of heads that suit images.

        Args:
            image_size: Pixels a side of the images.

        Example:
            >>> settings = DetectorSettings(channels=32).for_images(320)
            >>> settings.channels, settings.samples
            (32, 160)
        """
        channels = 256 if image_size >= 512 else 128 if image_size >= 256 else 64
        samples = min(max(image_size // 2, 64), 512)
        return replace(self, channels=self.channels or channels, samples=self.samples or samples)

    def metadata(self) -> dict[str, Any]:
        """Return the settings as files have them.

        Example:
            >>> DetectorSettings().metadata()["head_norm"]
            'group'
        """
        return asdict(self)

    @staticmethod
    def from_metadata(metadata: Mapping[str, Any]) -> "DetectorSettings":
        """Return the settings that `metadata` describes; other entries of it are ignored.

        Args:
            metadata: Settings by name.

        Returns:
            The settings; what `metadata` lacks has its default.

        Example:
            >>> DetectorSettings.from_metadata(DetectorSettings(samples=64).metadata()).samples
            64
        """
        names = {field.name for field in fields(DetectorSettings)}
        return DetectorSettings(**{k: v for k, v in metadata.items() if k in names})
