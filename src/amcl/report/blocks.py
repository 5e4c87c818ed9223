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
    """The text."""


@dataclass(frozen=True)
class Note:
    """A sentence that must not be missed, such as the reason why something is not shown."""

    kind: ClassVar = "note"
    text: str
    """The sentence."""


@dataclass(frozen=True, eq=False)
class Chart:
    """A drawing."""

    kind: ClassVar = "chart"
    figure: "Figure"
    """The figure of matplotlib."""
    alt: str
    """Description in words for readers who cannot see it."""
    caption: str = ""
    """Text below the drawing."""


@dataclass(frozen=True, eq=False)
class Picture:
    """Images side by side, with a title above and lines of text below."""

    images: Sequence[torch.Tensor]
    """The images, uint8 (3, H, W) each."""
    lines: Sequence[str] = ()
    """Lines of text below the images."""
    title: str = ""
    """Title above the images."""
    good: Sequence[bool | None] = ()
    """Mark of each image: right (True), wrong (False) or neither (None); empty for no marks."""

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
    """Pictures in rows."""

    kind: ClassVar = "gallery"
    items: Sequence[Picture]
    """The pictures."""
    caption: str = ""
    """Text below the pictures."""
    alt: str = "image"
    """Description of each image for readers who cannot see it."""
    large: bool = False
    """Show images large, for what is drawn on them to be read."""


@dataclass(frozen=True, eq=False)
class Map:
    """Images as points of a plane."""

    kind: ClassVar = "map"
    points: torch.Tensor
    """Positions of the images, (N, 2)."""
    thumbs: torch.Tensor
    """Small images that show what a reader points at, uint8 (N, 3, h, w)."""
    labels: Sequence[str] | None = None
    """Class of each image; None without classes."""
    caption: str = ""
    """Text below the map."""
    alt: str = "a map of images"
    """Description of the map for readers who cannot see it."""

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
    """The text."""
    title: str
    """Title that unfolds the text."""


@dataclass(frozen=True)
class Link:
    """A link to another page that lies on the same disk."""

    kind: ClassVar = "link"
    text: str
    """The text."""
    address: str
    """Address of the page, relative to this one, with escapes."""


@dataclass(frozen=True)
class Beside:
    """Columns side by side; one below the other on a narrow screen."""

    kind: ClassVar = "beside"
    columns: Sequence[tuple[str, Sequence["Block"]]]
    """Title of each column, or "", and its blocks."""


Block = Paragraph | Note | Table | Chart | Gallery | Map | Code | Link | Beside


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Example:
        >>> Section("Loss & probes", ()).anchor
        'loss-probes'
    """

    title: str
    """Title of the section."""
    blocks: Sequence[Block]
    """Blocks, one below the other."""
    note: str = ""
    """Text below the title that says how to read the section."""
    anchor: str = ""
    """End of a link to it; empty: made of the title."""
    folded: str = ""
    """Why the section does not apply: it is then folded below its title and this sentence."""

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
