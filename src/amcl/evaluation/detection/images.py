"""Images that a detector is trained and tested on."""

from dataclasses import dataclass
from typing import Any

import torch

from amcl.data.coco import CocoSet, load_coco
from amcl.evaluation.detection.settings import DetectionSettings
from amcl.files import digest


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
        """Read the annotations that settings name."""
        settings.check()
        files = settings.image_files()
        train, test = load_coco(**files, categories=settings.categories, subset=settings.subset)
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
