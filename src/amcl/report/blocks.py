"""Blocks of a page, which know nothing of runs; tables are those of `amcl.results`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from amcl.results.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Paragraph:
    """Plain text, but for commands between `backticks`; so are notes and captions."""

    kind: ClassVar = "paragraph"
    text: str


@dataclass(frozen=True)
class Note:
    """A sentence that must not be missed, such as the reason why something is not shown."""

    kind: ClassVar = "note"
    text: str


@dataclass(frozen=True, eq=False)
class Chart:
    """A drawing; `alt` describes it in words for readers who cannot see it."""

    kind: ClassVar = "chart"
    figure: "Figure"
    alt: str
    caption: str = ""


@dataclass(frozen=True, eq=False)
class Picture:
    """Images (3, H, W) side by side, with a title above and lines of text below.

    `good`: for each image whether it is right, wrong or (None) neither; empty for all neither.
    """

    images: Sequence[torch.Tensor]
    lines: Sequence[str] = ()
    title: str = ""
    good: Sequence[bool | None] = ()

    def __post_init__(self) -> None:
        for image in self.images:
            check_pixels("An image", image, 3)
        if self.good and len(self.good) != len(self.images):
            raise ValueError(
                f"good must have a value for each of {len(self.images)} images, or be empty, got "
                f"{len(self.good)}."
            )

    @property
    def marked(self) -> list[tuple[torch.Tensor, bool | None]]:
        """Each image with its mark: right, wrong, or None."""
        return list(zip(self.images, self.good or [None] * len(self.images), strict=True))


@dataclass(frozen=True, eq=False)
class Gallery:
    """Pictures in rows; `alt` describes each image for readers who cannot see it."""

    kind: ClassVar = "gallery"
    items: Sequence[Picture]
    caption: str = ""
    alt: str = "image"


@dataclass(frozen=True, eq=False)
class Map:
    """Images as points (N, 2) of a plane; `thumbs` (N, 3, h, w) show where a reader points at."""

    kind: ClassVar = "map"
    points: torch.Tensor
    thumbs: torch.Tensor
    labels: Sequence[str] | None = None
    caption: str = ""
    alt: str = "a map of images"

    def __post_init__(self) -> None:
        check_pixels("thumbs", self.thumbs, 4)
        count = len(self.thumbs)
        if self.points.shape != (count, 2) or not self.points.isfinite().all():
            raise ValueError(
                f"points must be finite numbers of shape (N, 2) with N = {count}, one for each of "
                f"the thumbs, got {tuple(self.points.shape)}."
            )
        if self.labels is not None and len(self.labels) != count:
            raise ValueError(f"labels must be {count}, one for each point, got {len(self.labels)}.")


@dataclass(frozen=True)
class Code:
    """The text of a file, folded away below its title."""

    kind: ClassVar = "code"
    text: str
    title: str


@dataclass(frozen=True)
class Beside:
    """Columns side by side, each with a title or ""; one below the other on a narrow screen."""

    kind: ClassVar = "beside"
    columns: Sequence[tuple[str, Sequence["Block"]]]


Block = Paragraph | Note | Table | Chart | Gallery | Map | Code | Beside


@dataclass(frozen=True)
class Section:
    """A part of a page; `note` says below its title how to read it.

    >>> Section("Loss & probes", ()).anchor
    'loss-probes'
    """

    title: str
    blocks: Sequence[Block]
    note: str = ""
    anchor: str = ""
    """End of a link to it; empty: made of the title."""

    def __post_init__(self) -> None:
        anchor = self.anchor or re.sub(r"\W+", "-", self.title.lower()).strip("-")
        if not re.fullmatch(r"\w[\w-]*", anchor):
            raise ValueError(f"anchor must be made of letters, digits and -, got {anchor!r}.")
        object.__setattr__(self, "anchor", anchor)


def check_pixels(name: str, images: torch.Tensor, dim: int) -> None:
    """Raise an error unless these are bytes of pictures (…, 3, H, W)."""
    if images.dtype != torch.uint8 or images.ndim != dim or images.shape[-3] != 3:
        shape = "(3, H, W)" if dim == 3 else "(N, 3, H, W)"
        raise ValueError(
            f"{name} must be uint8 {shape}, got {images.dtype} {tuple(images.shape)}: multiply "
            "values in [0, 1] by 255 and call .to(torch.uint8)."
        )
