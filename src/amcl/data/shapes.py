"""A built-in set of pictures with colored shapes, to try object detection with."""

import colorsys
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from amcl.data.named import data_root
from amcl.files import temporary_folder, write_text
from amcl.seeds import seed_of
from amcl.text_files import to_json

CLASSES = ("circle", "square", "triangle")
VERSION = 2  # raised when the pictures change, so that they are drawn again
_TRAIN = 300
_TEST = 100
_SIZE = (96, 128)
_EMPTY = 16  # one picture of this number has no shapes
_MOST = 6  # shapes in a picture
_RADIUS = (0.07, 0.30)  # of a shape, as a share of the shorter side
_LEAST_VISIBLE = 0.6  # of a shape behind others
_SMOOTHNESS = 4  # a pixel's share of a shape is measured on this number of rows and columns
_CORNERS = {"circle": 40, "square": 4, "triangle": 3}

Mask = NDArray[np.bool_]
Pixels = NDArray[np.float32]
Points = NDArray[np.float64]


@dataclass
class _Shape:
    label: int
    corners: Points  # (n, 2)
    whole: Mask
    visible: Mask


def builtin_shapes() -> Path:
    """Return the folder of the built-in set, which is drawn at its first use.

    It is in the data folder: $AMCL_DATA, else ~/.cache/amcl.
    """
    folder = data_root() / f"shapes-{VERSION}"
    if not _is_whole(folder):
        shutil.rmtree(folder, ignore_errors=True)
        shapes(folder)
    return folder


def shapes(
    folder: str | Path,
    *,
    train: int = _TRAIN,
    test: int = _TEST,
    size: tuple[int, int] = _SIZE,
    seed: int = 0,
) -> Path:
    """Draw pictures of shapes, with boxes and masks, into a new folder that is laid out as COCO's.

    A class is a kind of shape: circles, squares and triangles. Its color, size, place and rotation
    are random, and so is the texture behind it. Shapes hide parts of others, and some pictures have
    none. The first pictures are the same, whatever their number.

    Args:
        folder: The folder, which must not exist.
        train: Number of pictures to train on.
        test: Number of pictures to evaluate on.
        size: Least and largest side in pixels.
        seed: Seed of the pictures.

    Returns:
        The folder.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as parent:
        ...     folder = shapes(Path(parent) / "shapes", train=2, test=1)
        ...     sorted(path.name for path in folder.iterdir())
        ['annotations', 'train2017', 'val2017']
    """
    folder = Path(folder)
    if folder.exists():
        raise FileExistsError(f"{folder} exists: give a folder that does not.")
    with temporary_folder(folder) as unfinished:
        for split, count in (("train2017", train), ("val2017", test)):
            (unfinished / split).mkdir()
            table = _draw_split(unfinished / split, count, size, seed)
            write_text(_annotations(unfinished, split), to_json(table, indent=None))
        try:
            unfinished.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was faster
                raise
    return folder


def _is_whole(folder: Path) -> bool:
    """Return whether nothing of the built-in set was removed."""
    return all(
        _annotations(folder, split).is_file() and len(list((folder / split).glob("*"))) == count
        for split, count in (("train2017", _TRAIN), ("val2017", _TEST))
    )


def _annotations(folder: Path, split: str) -> Path:
    return folder / "annotations" / f"instances_{split}.json"


def _draw_split(folder: Path, count: int, size: tuple[int, int], seed: int) -> dict[str, Any]:
    """Draw the pictures of a split, and return their annotations in COCO's format."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number in range(count):
        rng = np.random.default_rng(seed_of("shapes", seed, folder.name, number))
        pixels, drawn = _draw(rng, size, 0 if number % _EMPTY == _EMPTY - 1 else _MOST)
        name = f"{number:06}.jpg"
        Image.fromarray(pixels.clip(0, 255).round().astype(np.uint8)).save(
            folder / name, quality=92
        )
        height, width = pixels.shape[:2]
        images.append({"id": number + 1, "file_name": name, "height": height, "width": width})
        for shape in drawn:
            identity = {"id": len(annotations) + 1, "image_id": number + 1}
            annotations.append(identity | _annotation(shape))
    categories = [{"id": index, "name": name} for index, name in enumerate(CLASSES, 1)]
    return {"images": images, "annotations": annotations, "categories": categories}


def _draw(
    rng: np.random.Generator, size: tuple[int, int], most: int
) -> tuple[Pixels, list[_Shape]]:
    """Return the pixels (H, W, 3) of a picture from 0 to 255, and its shapes."""
    height, width = rng.integers(size[0], size[1] + 1, 2).tolist()
    pixels = _texture(rng, height, width)
    drawn: list[_Shape] = []
    for _ in range(rng.integers(1, most + 1) if most else 0):
        label = int(rng.integers(len(CLASSES)))
        corners = _corners(rng, CLASSES[label], height, width)
        cover = _cover(corners, height, width)
        mask = cover >= 0.5
        if any((s.visible & ~mask).sum() < _LEAST_VISIBLE * s.whole.sum() for s in drawn):
            continue
        for shape in drawn:
            shape.visible &= ~mask
        drawn.append(_Shape(label, corners, mask, mask.copy()))
        inside = _color(rng) + 0.25 * (_texture(rng, height, width) - 128)
        pixels += cover[..., None] * (inside - pixels)
    pixels += rng.normal(0, 4, pixels.shape)
    return pixels, drawn


def _texture(rng: np.random.Generator, height: int, width: int) -> Pixels:
    """Return clouds between two colors: a sum of noise, coarse and fine."""
    noise = np.zeros((height, width), np.float32)
    for cells, weight in ((3, 0.5), (9, 0.3), (27, 0.2)):
        coarse = Image.fromarray(rng.random((cells, cells), dtype=np.float32))
        noise += weight * np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))
    start, end = _color(rng), _color(rng)
    return (start + noise[..., None] * (end - start)).astype(np.float32)


def _color(rng: np.random.Generator) -> Pixels:
    hue, saturation, value = rng.random(), rng.uniform(0.2, 1), rng.uniform(0.3, 1)
    return 255 * np.array(colorsys.hsv_to_rgb(hue, saturation, value), np.float32)


def _corners(rng: np.random.Generator, kind: str, height: int, width: int) -> Points:
    """Return the corners (n, 2) of a shape that lies within the picture."""
    radius = min(height, width) * np.exp(rng.uniform(*np.log(_RADIUS)))
    count = _CORNERS[kind]
    angles = rng.uniform(0, 2 * np.pi) + 2 * np.pi * np.arange(count) / count
    center = [rng.uniform(radius, side - radius) for side in (width, height)]
    # A square and a triangle that are as large as the circle around them look smaller.
    radius *= {"circle": 0.85, "square": 1.0, "triangle": 1.0}[kind]
    corners: Points = center + radius * np.stack([np.cos(angles), np.sin(angles)], 1)
    return corners.round(2)


def _cover(corners: Points, height: int, width: int) -> Pixels:
    """Return the share (H, W) of each pixel that is inside."""
    canvas = Image.new("L", (width * _SMOOTHNESS, height * _SMOOTHNESS))
    points = [tuple(point) for point in (corners * _SMOOTHNESS - 0.5).tolist()]
    ImageDraw.Draw(canvas).polygon(points, fill=255)
    small = canvas.resize((width, height), Image.Resampling.BOX)
    return np.asarray(small, np.float32) / np.float32(255)


def _annotation(shape: _Shape) -> dict[str, Any]:
    """Return box and mask of the visible part: a polygon for a shape that nothing hides."""
    rows = np.flatnonzero(shape.visible.any(1))
    columns = np.flatnonzero(shape.visible.any(0))
    top, left = int(rows[0]), int(columns[0])
    bottom, right = int(rows[-1]) + 1, int(columns[-1]) + 1
    is_whole = bool((shape.visible == shape.whole).all())
    return {
        "category_id": shape.label + 1,
        "bbox": [left, top, right - left, bottom - top],
        "area": int(shape.visible.sum()),
        "iscrowd": 0,
        "segmentation": [shape.corners.ravel().tolist()] if is_whole else _runs(shape.visible),
    }


def _runs(mask: Mask) -> dict[str, Any]:
    """Return the run lengths of a mask, column by column, beginning with those of zeros."""
    values = mask.T.ravel()
    changes = np.flatnonzero(np.diff(values, prepend=False)).tolist()
    return {"size": list(mask.shape), "counts": list(_lengths(changes, values.size))}


def _lengths(changes: list[int], end: int) -> Iterator[int]:
    start = 0
    for change in [*changes, end]:
        yield change - start
        start = change
