"""The evaluation of one model on one data set, by any number of protocols."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from amcl.checkpoints.evaluations import Result
from amcl.data import DataSet, Images, Probe
from amcl.evaluation.cache import cached_features
from amcl.evaluation.finetuning import Precision
from amcl.evaluation.registry import PROTOCOLS, Outcome
from amcl.files import digest
from amcl.metrics.features import Features, Transform, fingerprint
from amcl.metrics.scores import by_class, caution, intervals, uneven
from amcl.printable import counted

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Evaluation:
    """Runs protocols on one model and one data set. Features are computed once for all of them.

    Args:
        model: Any module that turns images (N, C, S, S) into features (N, D).
        data: Images with labels, or without for protocols that need none; None for protocols that
            have images of their own.
        transform: How a test image becomes the input of the model.
        name: Name of the model in results.
        notes: Sentences that every result shows beside its numbers.
        settings: Settings of protocols by the name of the protocol; the others have their defaults.
        device: Device that the model runs on.
        workers: Processes that decode pictures.
        seed: Seed of everything random.
        precision: Precision of fine-tuning.
        folder: A run folder to keep results and features in; None keeps neither.
        fabric: Processes that train together; None for this one alone.

    Example:
        >>> from amcl.data import load_dataset
        >>> transform = Transform(image_size=8)
        >>> evaluation = Evaluation(nn.Flatten(), load_dataset("builtin"), transform)
        >>> 0.1 < evaluation.run("knn").metrics["top1"] < 0.5
        True
    """

    def __init__(
        self,
        model: nn.Module,
        data: DataSet | None,
        transform: Transform,
        *,
        name: str = "model",
        notes: tuple[str, ...] = (),
        settings: Mapping[str, Any] | None = None,
        device: torch.device | str = "cpu",
        workers: int = 0,
        seed: int = 0,
        precision: Precision = "32",
        folder: Path | None = None,
        fabric: "Fabric | None" = None,
    ) -> None:
        self.model = model.to(device)
        self._data = data
        self.transform = transform
        self.name = name
        self.notes = [*notes]
        self.settings = check_settings(settings or {})
        self.device = device
        self.workers = workers
        self.seed = seed
        self.precision: Precision = precision
        self.folder = folder
        self.fabric = fabric
        if data is not None:
            self.note_unreadable(data.unreadable)

    @property
    def data(self) -> DataSet:
        """The images; an error where there are none."""
        if self._data is None:
            raise ValueError("this protocol needs images, and the evaluation was made without any.")
        return self._data

    def run(self, protocol: str) -> Result:
        """Run a protocol; with a folder, the result is written there.

        Args:
            protocol: Name of a registered protocol.

        Returns:
            The numbers, with all that they depend on.
        """
        registered = PROTOCOLS[protocol]
        if registered.needs_labels:
            self.probe  # noqa: B018 - an error before anything is computed
        outcome = registered.run(self, self.settings_for(protocol))
        if outcome.stored is not None:
            return outcome.stored
        result = self._result(protocol, outcome)
        if self.folder is not None and (self.fabric is None or self.fabric.is_global_zero):
            result.write(self.folder)
        return result

    def settings_for(self, protocol: str) -> Any:
        """Return the settings of a protocol."""
        return self.settings.get(protocol) or PROTOCOLS[protocol].settings()

    def result_path(self, protocol: str, outcome: Outcome) -> Path | None:
        """Return the file that the result of a protocol will be written to; None without a folder.

        Args:
            protocol: Name of the protocol.
            outcome: The outcome so far: the metrics and details may be missing.
        """
        if self.folder is None:
            return None
        path = self._result(protocol, outcome).path(self.folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @cached_property
    def probe(self) -> Probe:
        """The labeled images; an error where there are none, or where classes differ."""
        probe = self.data.probe
        if probe is None:
            raise ValueError(
                f"this needs labels, and {self.data.name} has none in use: put the images of each "
                f"class, two or more, into a folder of its own, {self.data.name}/CLASS/FILE, and "
                "leave out --labels none and --validation 0."
            )
        _check_classes(probe, self.data.name)
        return probe

    @cached_property
    def train_features(self) -> Features:
        """Features of the labeled training images."""
        return self.features(self.probe.bank.images)

    @cached_property
    def test_features(self) -> Features:
        """Features of the labeled test images."""
        return self.features(self.probe.queries.images)

    @property
    def labeled_features(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Features and labels of the training images, then of the test images."""
        train = self.train_features
        test = self.test_features
        train_y = self.probe.bank.labels[train.indices]
        test_y = self.probe.queries.labels[test.indices]
        return train.values, train_y, test.values, test_y

    def features(self, images: Images) -> Features:
        """Return features of images; those computed before come from the folder."""
        features = cached_features(
            None if self.folder is None else self.folder / "features",
            self.model,
            images,
            self.transform,
            device=self.device,
            workers=self.workers,
        )
        self.note_unreadable(features.unreadable)
        return features

    def note_unreadable(self, files: tuple[tuple[str, str], ...]) -> None:
        """Add a note about files that could not be read, each with the reason."""
        if files:
            path, reason = files[0]
            note = f"{counted(len(files), 'unreadable file')} left out, the first {path}: {reason}"
            if note not in self.notes:  # two protocols may read the same images
                self.notes.append(note)

    def _result(self, protocol: str, outcome: Outcome) -> Result:
        metrics = outcome.metrics
        details = dict(outcome.details)
        notes = [*self.notes, *details.get("notes", ())]
        if outcome.truth is not None:
            notes += caution(len(outcome.truth))
            details["interval"] = intervals(metrics, len(outcome.truth))
        if outcome.truth is not None and outcome.predicted is not None:
            details |= by_class(outcome.predicted, outcome.truth, self.probe.classes)
            if uneven(self.probe.bank.labels, outcome.truth):
                balanced = {"balanced_top1": details["balanced_top1"]}
                metrics = {"top1": metrics["top1"]} | balanced | metrics
        settings = outcome.settings
        if settings is None:
            settings = asdict(self.settings_for(protocol))
        return Result(
            protocol=protocol,
            data=outcome.data or self.data.name,
            split=outcome.split or self.probe.split,
            metrics=metrics,
            details=details | {"notes": notes},
            settings=_json_values(settings | {"transform": asdict(self.transform)}),
            shown=list(PROTOCOLS[protocol].shown),
            seed=self.seed,
            model={"name": self.name, "sha256": self._model_sha256},
            images=outcome.images or self._labeled_images,
        )

    @cached_property
    def _model_sha256(self) -> str:
        return fingerprint(self.model)

    @cached_property
    def _labeled_images(self) -> dict[str, Any]:
        parts = (self.probe.bank, self.probe.queries)
        contents = [part.images.identity().encode() for part in parts]
        contents += [part.labels.numpy().tobytes() for part in parts]
        return {
            "train": len(self.probe.bank.labels),
            self.probe.split: len(self.probe.queries.labels),
            "classes": len(self.probe.classes),
            "sha256": digest(contents),
        }


def has_labels(data: DataSet) -> bool:
    """Return whether a data set has labels in use."""
    return data.probe is not None


def check_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of protocols by name; an error for unknown names and other classes."""
    for name, value in settings.items():
        expected = PROTOCOLS[name].settings
        if not isinstance(value, expected):
            raise TypeError(
                f"the settings of {name!r} must be {expected.__name__}, got {type(value).__name__}."
            )
    return dict(settings)


def _check_classes(probe: Probe, name: str) -> None:
    """Raise an error where one of the splits lacks classes of the other.

    Images that were held out of training at random may lack a small class.
    """
    train, test = (set(part.labels.tolist()) for part in (probe.bank, probe.queries))
    if len(train) < 2:
        raise ValueError(f"{name} has {len(train)} class to train on: at least 2 are needed.")
    for missing, split in ((test - train, "training"), (train - test, probe.split)):
        if missing and (split == "training" or probe.split == "test"):
            names = ", ".join(probe.classes[label] for label in sorted(missing)[:5])
            raise ValueError(
                f"{name}: the {split} split has no readable image of {len(missing)} of the classes "
                f"({names}), which the other has: bring both splits to the same classes."
            )


def _json_values(settings: Any) -> Any:
    """Return settings as JSON has them: tuples as lists, and infinity as a word."""
    if isinstance(settings, dict):
        return {name: _json_values(value) for name, value in settings.items()}
    if isinstance(settings, tuple):
        return [_json_values(value) for value in settings]
    return str(settings) if settings == math.inf else settings
