"""Images with annotated objects, in COCO's JSON format."""

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from amcl.data.coco_categories import of_categories, with_same_classes
from amcl.data.coco_file import Annotations, read_annotations
from amcl.data.coco_layout import Role, Source, find_only_source, find_source
from amcl.data.coco_masks import Rle, mask_areas
from amcl.data.decode import decode_whole
from amcl.data.records import FileRecord
from amcl.data.shapes import builtin_shapes
from amcl.data.split import choose_subset, split_train_validation
from amcl.files import digest, expand_home
from amcl.printable import counted
from amcl.settings import whole_number

logger = logging.getLogger("amcl")

_LEFT_OUT = -1  # label of objects whose category was left out; it is that of the last of a list


@dataclass(frozen=True, eq=False)
class Objects:
    """Annotated objects of one image.

    Args:
        boxes: Left, top, right and bottom in pixels, float32 (n, 4).
        labels: Indices of the classes of the set, int64 (n,).
        crowd: True for a region with many objects of a class, bool (n,).
        areas: Areas in pixels as the file has them, float32 (n,).
        masks: Run lengths of each mask; None if the set has boxes only.
    """

    boxes: Tensor
    labels: Tensor
    crowd: Tensor
    areas: Tensor
    masks: list[Rle] | None


class CocoSet:
    """N images with their objects, which are decoded on demand.

    Args:
        name: Name of the set.
        folder: Folder that the images are in.
        annotations: What the annotation file says.
        has_masks: False leaves masks out.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from amcl.data.shapes import shapes
        >>> with TemporaryDirectory() as folder:
        ...     train, test = load_coco(shapes(Path(folder) / "shapes", train=8, test=4))
        ...     train.read(0).shape == (3, *train.shape(0))
        True
        >>> len(train), len(test), train.classes, train.objects(0).boxes.shape[1]
        (8, 4, ('circle', 'square', 'triangle'), 4)
    """

    def __init__(
        self, name: str, folder: Path, annotations: Annotations, *, has_masks: bool = True
    ) -> None:
        self.name = name
        self.classes = tuple(annotations.classes.values())
        self.class_ids = tuple(annotations.classes)
        self._folder = folder
        self._annotations = annotations
        self._masks = annotations.masks if has_masks else None
        self._indices: NDArray[np.int64] = np.arange(len(annotations.ids))

    @property
    def has_masks(self) -> bool:
        """Whether objects have masks."""
        return self._masks is not None

    def __len__(self) -> int:
        return len(self._indices)

    def image_id(self, index: int) -> int:
        """Return the id of an image in the annotation file."""
        return int(self._annotations.ids[self._indices[index]])

    def path(self, index: int) -> str:
        """Return the path of an image."""
        name = bytes(self._annotations.names[self._indices[index]])
        return os.path.join(self._folder, os.fsdecode(name))

    def shape(self, index: int) -> tuple[int, int]:
        """Return height and width of an image."""
        height, width = self._annotations.sizes[self._indices[index]].tolist()
        return height, width

    def read(self, index: int) -> Tensor:
        """Return the pixels of an image, uint8 (3, H, W), or raise `UnreadableImage`."""
        return decode_whole(FileRecord(self.path(index)), self.shape(index))

    def objects(self, index: int) -> Objects:
        """Return the objects of an image."""
        boxes, areas = self.file_values(index)
        rows = self._rows(index)
        corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
        return Objects(
            boxes=torch.from_numpy(corners.astype(np.float32)),
            labels=torch.from_numpy(self._annotations.labels[rows]),
            crowd=torch.from_numpy(self._annotations.crowd[rows]),
            areas=torch.from_numpy(areas.astype(np.float32)),
            masks=self._rles(index),
        )

    def file_values(self, index: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return boxes and areas of the objects of an image, to the last digit of the file.

        Args:
            index: The image.

        Returns:
            Left, top, width and height (n, 4), and areas (n,). An object that has none in the file
            has that of its mask or, without masks, that of its box.
        """
        rows = self._rows(index)
        boxes = self._annotations.boxes[rows]
        areas = self._annotations.areas[rows]
        missing = np.isnan(areas)
        if missing.any():
            rles = self._rles(index)
            measured = boxes[:, 2] * boxes[:, 3] if rles is None else mask_areas(rles)
            areas[missing] = measured[missing]
        return boxes, areas

    def subset(self, indices: Sequence[int] | Tensor) -> "CocoSet":
        """Return the images with these indices, in their order, without a copy of the rest."""
        images = CocoSet(self.name, self._folder, self._annotations, has_masks=self.has_masks)
        images._indices = self._indices[np.asarray(indices, dtype=np.int64)]
        return images

    def with_classes(self, classes: dict[int, str]) -> "CocoSet":
        """Return the same images with more classes.

        Args:
            classes: Name of each class by its id, with all classes of this set.
        """
        index_of = {identity: index for index, identity in enumerate(classes)}
        return self._with_labels(classes, [index_of[identity] for identity in self.class_ids])

    def with_categories(self, names: Sequence[str]) -> "CocoSet":
        """Return the same images with the objects of some classes alone.

        Args:
            names: Names of these classes, in any order.
        """
        classes = {
            identity: name
            for identity, name in zip(self.class_ids, self.classes, strict=True)
            if name in names
        }
        index_of = {identity: index for index, identity in enumerate(classes)}
        indices = [index_of.get(identity, _LEFT_OUT) for identity in self.class_ids]
        return self._with_labels(classes, indices)

    def without_masks(self) -> "CocoSet":
        """Return the same images with boxes only."""
        images = CocoSet(self.name, self._folder, self._annotations, has_masks=False)
        images._indices = self._indices
        return images

    def fingerprint(self) -> str:
        """Return a hash of the annotations, the names and sizes of the images, and their order."""
        file = self._annotations
        arrays = (file.ids, file.sizes, file.ends, file.boxes, file.labels, file.crowd)
        parts = [values.tobytes() for values in (*arrays, file.areas, file.names, self._indices)]
        masks = [] if self._masks is None else self._masks.parts()
        return digest([repr(file.classes).encode(errors="replace"), *parts, *masks])

    def _with_labels(self, classes: dict[int, str], indices: Sequence[int]) -> "CocoSet":
        """Return the same images with other classes, by the new index of each present one."""
        labels = np.array([*indices, _LEFT_OUT], np.int64)[self._annotations.labels]
        annotations = replace(self._annotations, classes=classes, labels=labels)
        images = CocoSet(self.name, self._folder, annotations, has_masks=self.has_masks)
        images._indices = self._indices
        return images

    def _rows(self, index: int) -> NDArray[np.int64]:
        """Return the places of the objects of an image among those of all."""
        image = self._indices[index]
        start, stop = self._annotations.ends[image : image + 2].tolist()
        kept = self._annotations.labels[start:stop] != _LEFT_OUT
        rows: NDArray[np.int64] = np.arange(start, stop)[kept]
        return rows

    def _rles(self, index: int) -> list[Rle] | None:
        if self._masks is None:
            return None
        size = self.shape(index)
        return [self._masks.rle(number, size) for number in self._rows(index).tolist()]


def load_coco(
    data: str | Path | None,
    *,
    train_annotations: str | Path | None = None,
    train_images: str | Path | None = None,
    test_annotations: str | Path | None = None,
    test_images: str | Path | None = None,
    categories: Sequence[str] = (),
    seed: int = 0,
    subset: int | None = None,
) -> tuple[CocoSet, CocoSet]:
    """Load a set in COCO's format: images to train on, and others to evaluate on.

    A folder is laid out as COCO 2017 and 2014, as exports of Roboflow, or with annotations in
    `train.json` and `val.json`; files elsewhere are given one by one. Without a file to evaluate
    on, a tenth of the images is held out.

    Args:
        data: Folder of the set, or "builtin" for pictures of shapes; None if the files are given.
        train_annotations: Annotation file of the images to train on.
        train_images: Folder of these images.
        test_annotations: Annotation file of the images to evaluate on.
        test_images: Folder of these images.
        categories: Names of the categories whose objects are kept; none: all. Images without any of
            them stay.
        seed: Seed of the choice of images that are held out.
        subset: Number of images to train on; None for all. It is the same for every seed.

    Returns:
        The images to train on, and those to evaluate on. Both have the same classes; both have
        masks, or none has.

    Raises:
        FileNotFoundError: A file or folder is missing, or images that annotations name are.
        ValueError: A file is not in COCO's format, the two do not fit each other, or a category is
            unknown.

    Example:
        >>> load_coco("no/such/folder")
        Traceback (most recent call last):
        FileNotFoundError: There is no folder 'no/such/folder': give that of a set in COCO's format.
    """
    root = _root(data)
    train_source = find_source("train", root, train_annotations, train_images)
    test_source = find_source("test", root, test_annotations, test_images)
    if train_source is None:
        if root is None:
            raise ValueError(
                "There is nothing to train on: give --data with a folder in COCO's format, or "
                "--train-annotations with a file."
            )
        if test_source is not None and test_annotations is None:
            raise FileNotFoundError(
                f"{root} has the annotations {test_source.annotations.relative_to(root)} to "
                "evaluate on, and none to train on: name a file with --train-annotations."
            )
        train_source = find_only_source(root, train_images)
    name = _name(data, root, train_source)
    train = _load(name, "train", train_source)
    if test_source is None:
        if test_images is not None:
            raise ValueError(
                f"--test-images {test_images} has no annotations: name their file with "
                "--test-annotations."
            )
        train, test = _hold_out(train, seed, subset)
        return of_categories(train, test, categories)
    test = _load(name, "test", test_source)
    test = with_same_classes(train, test)
    if train.has_masks != test.has_masks:
        without = (test_source if train.has_masks else train_source).annotations
        logger.warning("%s has no masks: those of the other annotations are left out", without)
        train, test = train.without_masks(), test.without_masks()
    return of_categories(train.subset(_choose(len(train), subset)), test, categories)


def _root(data: str | Path | None) -> Path | None:
    if data is None:
        return None
    if data == "builtin":
        return builtin_shapes()
    root = expand_home(data)
    if root.is_file():
        raise ValueError(
            f"--data {data} is a file: give the folder of the set, or an annotation file with "
            "--train-annotations."
        )
    if not root.is_dir():
        raise FileNotFoundError(
            f"There is no folder {str(data)!r}: give that of a set in COCO's format."
        )
    return root


def _name(data: str | Path | None, root: Path | None, source: Source) -> str:
    if data == "builtin":
        return "builtin"
    return source.annotations.stem if root is None else root.absolute().name


def _load(name: str, role: Role, source: Source) -> CocoSet:
    option = f"--{role}-images"
    annotations, folder = read_annotations(source.annotations, source.folders, option)
    if annotations.maskless:
        logger.warning(
            "%s: %s of %s have no mask: all masks are left out, and boxes alone are learned",
            source.annotations,
            f"{annotations.maskless:,}",
            counted(len(annotations.labels), "object"),
        )
    return CocoSet(name, folder, annotations)


def _hold_out(data: CocoSet, seed: int, subset: int | None) -> tuple[CocoSet, CocoSet]:
    if len(data) < 2:
        raise ValueError(
            f"{data.path(0)} is the only image, and one is needed to evaluate on: give others "
            "with --test-annotations."
        )
    count = max(1, len(data) // 10)
    strata = torch.zeros(len(data))
    train, held_out = split_train_validation(strata, count, seed, _checked(subset))
    logger.info(
        "%s has no annotations to evaluate on: a tenth of its images is held out (%s), chosen by "
        "the seed",
        data.name,
        counted(len(held_out), "image"),
    )
    return data.subset(train), data.subset(held_out)


def _choose(total: int, subset: int | None) -> Tensor:
    return choose_subset(torch.zeros(total), _checked(subset))


def _checked(subset: int | None) -> int | None:
    advice = "give the number of images to train on, or None for all"
    return None if subset is None else whole_number("subset", subset, advice)
