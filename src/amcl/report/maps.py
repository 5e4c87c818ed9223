"""A map of images, as the page draws it."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from amcl.drawing import BLUE, PALETTE, on_page
from amcl.report.blocks import Map
from amcl.report.pictures import sheet_uri

WIDTH, HEIGHT, MARGIN = 820, 560, 20
THUMB = 64
"""Pixels a side beyond which thumbs are made smaller."""
_SHAPES = ("M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z", "M0,-6.5L6.5,0 0,6.5 -6.5,0z")
"""A disc, and a square on its corner for the classes that begin the colors anew."""


@dataclass(frozen=True)
class Kind:
    """A class of points: its name and its mark."""

    name: str
    color: str
    shape: str


@dataclass(frozen=True)
class MapDrawing:
    """A map as the page draws it."""

    points: list[tuple[float, float, int]]
    """x, y and the index of the kind of each image."""
    kinds: list[Kind]
    """Classes of points."""
    named: bool
    """True if kinds have different marks, for which there is a legend."""
    sheet: str
    """All thumbs on one image, as a `data:` address."""
    columns: int
    """Thumbs in a row of the sheet."""
    aspect: float
    """Width over height of a thumb."""


def draw_map(block: Map) -> MapDrawing:
    """Return positions in the frame, marks of classes, and all thumbs on one sheet."""
    labels = [""] * len(block.points) if block.labels is None else list(block.labels)
    names = sorted(set(labels))
    marks = [(color, shape) for shape in _SHAPES for color in PALETTE]
    named = 1 < len(names) <= len(marks)
    kinds = [
        Kind(name, on_page(color), shape)
        for name, (color, shape) in zip(
            names, marks if named else [(BLUE, _SHAPES[0])] * len(names), strict=False
        )
    ]
    positions = scaled(block.points).tolist()
    thumbs = _small(block.thumbs)
    sheet, columns = sheet_uri(thumbs)
    index = {name: i for i, name in enumerate(names)}
    return MapDrawing(
        points=[(x, y, index[label]) for (x, y), label in zip(positions, labels, strict=True)],
        kinds=kinds,
        named=named,
        sheet=sheet,
        columns=columns,
        aspect=thumbs.shape[3] / thumbs.shape[2],
    )


def scaled(points: torch.Tensor) -> torch.Tensor:
    """Return points in the frame, with one scale for both directions and y upwards."""
    points = points.double()
    low = points.min(0).values
    high = points.max(0).values
    room = torch.tensor([WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN], dtype=torch.float64)
    scale = (room / (high - low).clamp(min=1e-12)).min()
    middle = torch.tensor([WIDTH, HEIGHT], dtype=torch.float64) / 2
    centered = (points - (low + high) / 2) * scale
    return (middle + centered * torch.tensor([1.0, -1.0])).round(decimals=1)


def _small(thumbs: torch.Tensor) -> torch.Tensor:
    """Return thumbs of at most `THUMB` pixels a side."""
    height, width = thumbs.shape[2:]
    if max(height, width) <= THUMB:
        return thumbs.cpu()
    scale = THUMB / max(height, width)
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    smaller = F.interpolate(thumbs.cpu().float(), size=size, mode="bilinear", antialias=True)
    return smaller.round().clamp(0, 255).to(torch.uint8)
