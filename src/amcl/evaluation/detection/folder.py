"""The folder of a detector: what its training writes, and what it leaves at its end."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from amcl.checkpoints.files import save_tensors
from amcl.checkpoints.training_folder import TrainingFolder
from amcl.data.coco import CocoSet
from amcl.evaluation.detection.average_precision import Detections, Kind, to_coco_results
from amcl.evaluation.detection.networks import detector_metadata, detector_of
from amcl.files import remove_unfinished, whole_file, write_text
from amcl.tensor_files import read_safetensors


class DetectionFolder(TrainingFolder):
    """The files of a detector.

    They are those of every training and, at its end, `detector.safetensors`, `boxes.json` and
    `masks.json` (detections in COCO's format of results) and `pictures/`.

    Args:
        path: The folder.

    Example:
        >>> DetectionFolder(Path("runs/first/evaluation/detect-coco")).detector.name
        'detector.safetensors'
    """

    @property
    def detector(self) -> Path:
        """File of the trained detector."""
        return self.path / "detector.safetensors"

    @property
    def pictures(self) -> Path:
        """Folder of pictures of detections beside the truth."""
        return self.path / "pictures"

    def has_result(self) -> bool:
        """Return whether the trained detector is there."""
        return self.detector.is_file()

    def save_detector(self, model: nn.Module, classes: Sequence[str]) -> None:
        """Write the trained detector with all that is needed to use it.

        Args:
            model: The detector.
            classes: Names of the classes.
        """
        metadata = {**detector_metadata(model), "classes": list(classes)}
        tensors = {name: value.cpu() for name, value in model.state_dict().items()}
        save_tensors(self.detector, tensors, metadata)

    def save_detections(self, data: CocoSet, detections: Sequence[Detections]) -> None:
        """Write detections in COCO's format of results: `boxes.json` and `masks.json`.

        Args:
            data: The images.
            detections: The detections, an entry for each image.
        """
        kinds: list[Kind] = ["box", "mask"] if data.has_masks else ["box"]
        for kind in kinds:
            rows = to_coco_results(data, detections, kind)
            name = {"box": "boxes.json", "mask": "masks.json"}[kind]
            write_text(self.path / name, json.dumps(rows) + "\n")

    def save_pictures(self, pictures: Sequence[torch.Tensor]) -> None:
        """Write pictures as PNG files.

        Args:
            pictures: The pictures, uint8 (3, H, W) each.
        """
        from PIL import Image

        for number, picture in enumerate(pictures):
            with whole_file(self.pictures / f"{number:02d}.png") as file:
                pixels = picture.permute(1, 2, 0).contiguous().numpy()
                Image.fromarray(pixels).save(file, "PNG", optimize=True)

    def remove_leftovers(self) -> None:
        """Remove what is of no use once all is there: checkpoints, files of killed processes."""
        for path in self.checkpoints():
            path.unlink(missing_ok=True)
        for folder in (self.path, self.checkpoint.parent):
            remove_unfinished(folder)


class LoadedDetector(nn.Module):
    """A detector with the names of its classes, ready to use.

    Args:
        model: The detector of torchvision: a list of images (3, H, W) in [0, 1] → a dictionary of
            boxes, labels, scores and masks for each.
        classes: Names of the classes; label k is that of `classes[k - 1]`.

    Example:
        >>> detector = LoadedDetector(nn.Identity(), ["cat", "dog"])
        >>> detector.classes
        ('cat', 'dog')
    """

    def __init__(self, model: nn.Module, classes: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.classes = tuple(classes)

    def forward(self, images: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        outputs: list[dict[str, torch.Tensor]] = self.model(images)
        return outputs


def load_detector(path: str | Path) -> LoadedDetector:
    """Read a detector that `amcl detect` has trained; nothing in the file is executed.

    Args:
        path: Its file, `detector.safetensors`.

    Returns:
        The detector in evaluation mode, with the names of its classes.

    Raises:
        ValueError: The file is damaged, or holds no detector.

    Example:
        >>> detector = load_detector("detector.safetensors")  # doctest: +SKIP
        >>> detector([torch.rand(3, 240, 320)])[0]["boxes"].shape  # doctest: +SKIP
        torch.Size([12, 4])
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    tensors, metadata = read_safetensors(path)
    stored: dict[str, Any] = metadata or {}
    classes = stored.get("classes")
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise ValueError(
            f"{path} is no detector: give the detector.safetensors that `amcl detect` has left."
        )
    return LoadedDetector(detector_of(stored, tensors, path), classes)
