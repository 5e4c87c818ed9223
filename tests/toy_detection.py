"""Small detectors, and pictures of shapes for them."""

import os
from pathlib import Path

import pytest
import torch

from amcl.backbones import Backbone, BackboneSettings
from amcl.data.shapes import shapes
from amcl.evaluation.detection import DetectionSettings, DetectorSettings, detect
from amcl.evaluation.detection.task import DetectionTask

MEAN = (0.5, 0.5, 0.5)
STD = (0.25, 0.25, 0.25)
SMALL = DetectorSettings(channels=16, samples=8)


def resnet() -> Backbone:
    """A narrow ResNet with random weights."""
    torch.manual_seed(0)
    settings = BackboneSettings(name="resnet10t", width=0.125, stem="standard")
    return Backbone(settings, image_size=64)


def vit() -> Backbone:
    """timm's smallest vision transformer with random weights."""
    torch.manual_seed(0)
    return Backbone(BackboneSettings(name="test_vit", patch=8), image_size=32)


def shapes_folder(folder: Path, train: int = 12, test: int = 4) -> Path:
    """Pictures of shapes in COCO's layout."""
    return shapes(folder / "shapes", train=train, test=test)


def settings_for(data: Path, **values) -> DetectionSettings:
    """Two epochs of three steps."""
    defaults = {"epochs": 2, "batch_size": 4, "image_size": 64, "detector": SMALL}
    return DetectionSettings(data=str(data), **(defaults | values))


def trained(data: Path, folder: Path | None = None, backbone: Backbone | None = None, **values):
    """The result of a short training."""
    seed = values.pop("seed", 0)
    return detect(
        resnet() if backbone is None else backbone,
        settings_for(data, **values),
        mean=MEAN,
        std=STD,
        folder=folder,
        seed=seed,
    )


def signal_at(patch: pytest.MonkeyPatch, step: int, number: int) -> None:
    """Let this process get a signal during a step."""
    before_step = DetectionTask.before_step

    def call(self, now):
        if now == step:
            os.kill(os.getpid(), number)
        return before_step(self, now)

    patch.setattr(DetectionTask, "before_step", call)
