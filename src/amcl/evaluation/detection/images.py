"""Images that a detector is trained and tested on."""

from dataclasses import dataclass
from typing import Any

import torch

from amcl.data.coco import CocoSet, Objects, load_coco
from amcl.data.coco_layout import Role
from amcl.evaluation.detection.settings import DetectionSettings
from amcl.files import digest
from amcl.printable import counted


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectionData:
    """Training and test images of a detector.

    Example:
        >>> data = DetectionData.of(DetectionSettings(data="builtin"))  # doctest: +SKIP
        >>> data.train.classes  # doctest: +SKIP
        ('circle', 'square', 'triangle')
    """

    train: CocoSet
    """Training images."""
    test: CocoSet
    """Test images, of the same classes, with masks if the others have them."""

    @staticmethod
    def of(settings: DetectionSettings) -> "DetectionData":
        """Read the annotations that settings name.

        Raises:
            FileNotFoundError: A file or folder is missing, or images that annotations name are.
            ValueError: A file is not in COCO's format, or there is no object to learn or to find.
        """
        settings.check()
        files = settings.image_files()
        train, test = load_coco(**files, categories=settings.categories, subset=settings.subset)
        _require_objects(train, "train", settings.subset)
        _require_objects(test, "test", None)
        return DetectionData(train=train, test=test)

    def longest(self) -> int:
        """Return the longest side of a typical training image: the median over all."""
        sides = [max(self.train.shape(i)) for i in range(len(self.train))]
        return int(torch.tensor(sides).median())

    def identity(self) -> dict[str, Any]:
        """Return numbers of images and a digest of all annotations."""
        contents = [part.fingerprint().encode() for part in (self.train, self.test)]
        return {
            "train": len(self.train),
            "test": len(self.test),
            "classes": len(self.train.classes),
            "sha256": digest(contents),
        }


def _require_objects(data: CocoSet, role: Role, subset: int | None) -> None:
    """Raise an error, before anything is trained, if the images have no object that counts."""
    boxes = data.without_masks()  # masks take long to decode
    if any(_counts(boxes.objects(index)) for index in range(len(boxes))):
        return
    images = counted(len(data), "training image" if role == "train" else "test image")
    more = "" if subset is None else f", or a larger --subset than {subset}"
    raise ValueError(
        f"none of the {images} of {data.name} has an object: crowds and boxes without area do not "
        f"count. Give annotations with objects by --data or --{role}-annotations{more}."
    )


def _counts(objects: Objects) -> bool:
    """Return whether there is an object that is no crowd and whose box has an area."""
    sides = objects.boxes[:, 2:] - objects.boxes[:, :2]
    return bool(((sides > 0).all(1) & ~objects.crowd).any())
