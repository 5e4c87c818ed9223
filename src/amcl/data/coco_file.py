"""Annotation files in COCO's JSON format, checked as they are read, and packed into arrays."""

import gc
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from amcl.data.coco_layout import find_images
from amcl.data.coco_masks import SegmentationReader, Segmentations
from amcl.data.decode import MAX_MEGAPIXELS, MAX_SIDE

_MAX_BYTES = 1 << 32  # nine times COCO's largest file
_MAX_ID = 1 << 63
_MAX_NAME = 4096  # of a path in Linux
_LARGEST = 1e18  # boxes become float32
_KINDS = {dict: "a table", int: "a whole number", list: "a list", str: "text"}


@dataclass(frozen=True, eq=False)
class Annotations:
    """What a file says of N images and their M objects, which are in the order of the images.

    Args:
        classes: Name of each category by its id, in the order of ids.
        ids: Ids of the images (N,).
        names: Paths of the images below their folder (N,).
        sizes: Heights and widths (N, 2).
        ends: End of the objects of each image in those of all, after a 0 (N + 1,).
        boxes: Left, top, width and height in pixels (M, 4).
        labels: Place of the category among `classes` (M,).
        crowd: True for a region with many objects (M,).
        areas: Area in pixels; NaN where the file has none (M,).
        masks: Masks of all objects; None if there are boxes only.
        maskless: Number of objects without a mask in a file that has masks, too.
    """

    classes: dict[int, str]
    ids: NDArray[np.int64]
    names: NDArray[np.bytes_]
    sizes: NDArray[np.int32]
    ends: NDArray[np.int64]
    boxes: NDArray[np.float64]
    labels: NDArray[np.int64]
    crowd: NDArray[np.bool_]
    areas: NDArray[np.float64]
    masks: Segmentations | None
    maskless: int


def read_annotations(path: Path, folders: Sequence[Path], option: str) -> tuple[Annotations, Path]:
    """Read an annotation file and find its images.

    Args:
        path: The file.
        folders: Folders that its images may be in.
        option: Option that names the folder, for errors.

    Returns:
        What it says, and the folder that has the images.

    Raises:
        ValueError: The file is not in COCO's format; the message says what is wrong where.
        FileNotFoundError: Images are absent.
    """
    table = _read(path)
    file = _File(path)
    rows = {name: file.rows(table, name) for name in ("images", "categories", "annotations")}
    for name in ("images", "categories"):
        if not rows[name]:
            raise ValueError(f"{path} has no {name}: its list of {name} is empty.")
    classes = _read_categories(file, rows["categories"])
    ids, names, sizes = _read_images(file, rows["images"])
    folder = find_images(path, names, folders, option)
    annotations = rows["annotations"]
    order, ends, labels = _sort_by_image(file, annotations, ids, classes)
    boxes, crowd, areas = _read_objects(file, annotations, order)
    masks, maskless = _read_masks(file, annotations, order, np.diff(ends), sizes, crowd)
    packed = Annotations(
        classes=classes,
        ids=np.array(ids, np.int64),
        names=np.array([os.fsencode(name) for name in names], np.bytes_),
        sizes=np.array(sizes, np.int32).reshape(-1, 2),
        ends=ends,
        boxes=boxes,
        labels=labels,
        crowd=crowd,
        areas=areas,
        masks=masks,
        maskless=maskless,
    )
    return packed, folder


def _read(path: Path) -> Any:
    """Return the values in a JSON file, which `text_files` would not: COCO's have 450 MB."""
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{path} is larger than {_MAX_BYTES >> 30} GB: divide it.")
    try:
        with _no_garbage_collection():
            return json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{path} is no JSON ({reason}): give a file in COCO's format.") from None


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause the search for circles, which takes most of the time where millions of lists grow."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it has the number {name}")


class _File:
    """A file with its errors."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fault(self, what: str) -> ValueError:
        return ValueError(f"{self._path} is damaged: {what}.")

    def rows(self, table: Any, name: str) -> list[Any]:
        """Return one of the lists that COCO's format has."""
        accepted = "COCO's format is a table with the lists images, annotations and categories"
        if not isinstance(table, dict):
            kind = "a list" if isinstance(table, list) else f"{table!r:.60}"
            raise ValueError(f"{self._path} is not in COCO's format: it is {kind}. {accepted}.")
        if name not in table:
            raise ValueError(f"{self._path} is not in COCO's format: it has no {name}. {accepted}.")
        rows = table[name]
        if not isinstance(rows, list):
            raise ValueError(
                f"{self._path} is not in COCO's format: {name} is {rows!r:.60}. {accepted}."
            )
        return rows

    def value(self, row: Any, name: str, kind: type, where: tuple[str, int]) -> Any:
        """Return a value of an entry of a list, of this very type: true is no whole number."""
        if type(row) is not dict:
            raise self.fault(f"{_place(row, where)} is {row!r:.60} instead of a table")
        value = row.get(name)
        if type(value) is not kind:
            found = f"{value!r:.60} instead of {_KINDS[kind]}" if name in row else "missing"
            raise self.fault(f"{name} of {_place(row, where)} is {found}")
        if type(value) is int and not -_MAX_ID <= value < _MAX_ID:
            raise self.fault(f"{name} of {_place(row, where)} has more than 64 bits")
        return value

    def numbers(self, row: Any, name: str, values: Sequence[Any], where: tuple[str, int]) -> None:
        """Raise an error unless values are finite numbers."""
        for value in values:
            if type(value) not in (int, float):
                raise self.fault(f"{name} of {_place(row, where)} has {value!r:.60} for a number")
            if not abs(value) < _LARGEST:
                fault = "that is not finite" if abs(value) == math.inf else "beyond any image"
                raise self.fault(f"{name} of {_place(row, where)} has a number {fault}")


def _place(row: Any, where: tuple[str, int]) -> str:
    """Return the words for an entry of a list, by its id if it has one."""
    noun, number = where
    given = row.get("id") if isinstance(row, dict) else None
    return f"{noun} {given}" if type(given) is int else f"{noun} number {number + 1} in the file"


def _read_categories(file: _File, rows: list[Any]) -> dict[int, str]:
    classes: dict[int, str] = {}
    for number, row in enumerate(rows):
        where = ("category", number)
        identity = file.value(row, "id", int, where)
        name = file.value(row, "name", str, where) if row.get("name") is not None else ""
        if not name.strip():
            raise file.fault(f"{_place(row, where)} has no name: name every category")
        if identity in classes:
            raise file.fault(
                f"the categories {classes[identity]!r} and {name!r} have one id, {identity}"
            )
        classes[identity] = name
    names = list(classes.values())
    return {  # exports of Roboflow may have two of one name
        identity: name if names.count(name) == 1 else f"{name} (category {identity})"
        for identity, name in sorted(classes.items())
    }


def _read_images(
    file: _File, rows: list[Any]
) -> tuple[list[int], list[str], list[tuple[int, int]]]:
    ids, names, sizes = [], [], []
    for number, row in enumerate(rows):
        where = ("image", number)
        ids.append(file.value(row, "id", int, where))
        name = file.value(row, "file_name", str, where)
        height = file.value(row, "height", int, where)
        width = file.value(row, "width", int, where)
        if not (0 < height <= MAX_SIDE and 0 < width <= MAX_SIDE) or (
            height * width > MAX_MEGAPIXELS * 10**6
        ):
            raise file.fault(
                f"{_place(row, where)} has {width} × {height} pixels: sides have 1 to {MAX_SIDE:,} "
                f"pixels, and images up to {MAX_MEGAPIXELS} megapixels"
            )
        if _leads_out(name):
            raise file.fault(
                f"file_name of {_place(row, where)} is {name!r:.60}: it must be a path below the "
                "image folder, without .. and / at its beginning"
            )
        names.append(name)
        sizes.append((height, width))
    if len(set(ids)) < len(ids):
        seen: set[int] = set()
        twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise file.fault(f"two images have one id, {twice}")
    return ids, names, sizes


def _leads_out(name: str) -> bool:
    return (
        not name
        or len(name) > _MAX_NAME
        or "\0" in name
        or os.path.isabs(name)
        or bool(os.path.splitdrive(name)[0])
        or ".." in name.replace(os.sep, "/").split("/")
    )


def _sort_by_image(
    file: _File, rows: list[Any], ids: list[int], classes: dict[int, str]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the order of objects by their images, the end of each image, and labels in it."""
    image_of = {identity: index for index, identity in enumerate(ids)}
    label_of = {identity: index for index, identity in enumerate(classes)}
    images = np.empty(len(rows), np.int64)
    labels = np.empty(len(rows), np.int64)
    for number, row in enumerate(rows):
        where = ("annotation", number)
        image = image_of.get(file.value(row, "image_id", int, where))
        label = label_of.get(file.value(row, "category_id", int, where))
        if image is None or label is None:
            kind, key = ("image", "image_id") if image is None else ("category", "category_id")
            raise file.fault(
                f"{_place(row, where)} is of the {kind} {row[key]}, which is not in the file"
            )
        images[number] = image
        labels[number] = label
    order = np.argsort(images, kind="stable")
    ends = np.concatenate([[0], np.bincount(images, minlength=len(ids)).cumsum()])
    return order, ends.astype(np.int64), labels[order]


def _read_objects(
    file: _File, rows: list[Any], order: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]:
    """Return boxes, crowds and areas in an order."""
    boxes = np.empty((len(rows), 4), np.float64)
    crowd = np.empty(len(rows), np.bool_)
    areas = np.empty(len(rows), np.float64)
    for place, number in enumerate(order.tolist()):
        row = rows[number]
        where = ("annotation", number)
        box = file.value(row, "bbox", list, where)
        if len(box) != 4:
            raise file.fault(
                f"bbox of {_place(row, where)} is {box!r:.60} instead of [x, y, width, height]"
            )
        file.numbers(row, "bbox", box, where)
        if box[2] < 0 or box[3] < 0:
            raise file.fault(
                f"bbox of {_place(row, where)} is {box!r:.60}: width and height, the last two, "
                "cannot be negative"
            )
        is_crowd = row.get("iscrowd", 0)
        if is_crowd not in (0, 1):
            raise file.fault(f"iscrowd of {_place(row, where)} is {is_crowd!r:.60}, not 0 or 1")
        area = row.get("area")
        if area is not None:
            file.numbers(row, "area", [area], where)
            if area < 0:
                raise file.fault(f"area of {_place(row, where)} is negative: {area}")
        boxes[place] = box
        crowd[place] = is_crowd
        areas[place] = math.nan if area is None else area
    return boxes, crowd, areas


def _read_masks(
    file: _File,
    rows: list[Any],
    order: NDArray[np.int64],
    counts: NDArray[np.int64],
    sizes: Sequence[tuple[int, int]],
    crowd: NDArray[np.bool_],
) -> tuple[Segmentations | None, int]:
    """Return the masks, and the number of objects that have none if others have one.

    Crowds are not detected, so they may lack masks: they get an empty one.
    """
    reader = SegmentationReader()
    maskless = 0
    has_any = False
    size_of: Iterable[int] = np.repeat(np.arange(len(sizes)), counts)
    for number, image, is_crowd in zip(order.tolist(), size_of, crowd, strict=True):
        segmentation = rows[number].pop("segmentation", None)  # frees memory as arrays grow
        try:
            reader.add(segmentation, sizes[image])
        except ValueError as error:
            raise file.fault(f"{_place(rows[number], ('annotation', number))}: {error}") from None
        has_any |= bool(segmentation)
        maskless += not segmentation and not is_crowd
    if maskless:
        return None, maskless if has_any else 0
    return reader.finish(), 0
