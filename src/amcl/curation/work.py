"""A model at work on the images of a curation, with what is measured of them."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from amcl.checkpoints.loaded_model import LoadedModel
from amcl.curation.measure import Measurements, Pass, identity_of
from amcl.curation.neighbors import unit_features
from amcl.curation.request import Request
from amcl.curation.uncertainty import Absent, ViewPairs
from amcl.data import default_workers
from amcl.data.load import AllImages
from amcl.errors import RunError
from amcl.evaluation.cache import FeatureCache
from amcl.methods import HeadMethod
from amcl.metrics.features import Features, Transform
from amcl.training.hardware import find_accelerator

Part = Literal["images", "against"]


@dataclass(frozen=True)
class MeasuredSet:
    """Images of a source with what was measured of them."""

    all: AllImages
    """All images, unreadable ones among them."""
    facts: Measurements
    """What was measured of the rows, the images that can be read."""
    features: Features
    """Features of the rows."""
    x: torch.Tensor
    """The same, of unit length."""
    names: list[str]
    """Names of the rows."""
    file: Path
    """File with the features."""

    @property
    def paths(self) -> list[str]:
        """Absolute paths of the rows."""
        return [self.all.paths[i] for i in self.facts.indices.tolist()]


@dataclass(frozen=True, kw_only=True)
class Work:
    """A model at work on sets of images."""

    model: LoadedModel
    """The model."""
    method: HeadMethod | Absent
    """The method that it belongs to, or the reason why there is none."""
    transform: Transform
    """Input of the model from stored images."""
    request: Request
    """What the curation depends on."""
    source: str
    """Folder of the images, or name of their set, as absolute path."""
    out: Path
    """Folder of the curation."""
    measured: Path
    """Folder in which `measured/` is: the same, or that of an earlier curation."""
    workers: int | None
    """Processes that decode pictures; None for one a core."""
    accelerator: Literal["auto", "cpu", "cuda", "mps"]
    """Device that computes."""

    def measure(self, images: AllImages, part: Part) -> MeasuredSet:
        """Measure all images of a set, or take over what was measured.

        Args:
            images: The images.
            part: Part of the curation: only "images" are compared in pairs of views.
        """
        settings = self.request.settings
        device = find_accelerator(self.accelerator)
        views = None
        if part == "images" and not isinstance(self.method, Absent):
            if self.model.config is None:
                raise RuntimeError("a method belongs to a run")
            maker = self.transform.views(self.model.config.views)
            views = ViewPairs(self.method, maker, settings.pairs, device)
        fingerprint = images.images.fingerprint()
        identity = [self.request.model, self.request.transform, fingerprint]
        task = Pass(
            folder=self.measured / "measured" / part,
            images=images.images,
            model=self.model,
            transform=self.transform,
            cache=FeatureCache(self._features_folder()),
            views=views,
            seed=settings.seed,
            device=device,
            workers=default_workers() if self.workers is None else self.workers,
            identity=identity_of([*identity, settings.pairs, settings.seed]),
        )
        measured, features = task.run()
        if not torch.equal(measured.indices, features.indices):
            raise RunError(
                f"other images could be read before: remove {task.folder}, and the features in "
                f"{task.cache.folder}, and run again."
            )
        return MeasuredSet(
            images,
            measured,
            features,
            unit_features(features.values),
            [images.names[i] for i in measured.indices.tolist()],
            task.cache.path(self.model.backbone, images.images, self.transform),
        )

    def _features_folder(self) -> Path:
        """Return the folder of features, which is the run's if it can be: evaluations share it."""
        run = self.model.folder
        shared = run is not None and os.access(run, os.W_OK)
        return (run if run is not None and shared else self.measured) / "features"
