"""All protocols on one model and one data set, with features taken once."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from amcl.checkpoints.evaluations import CLASSIFIER, Result
from amcl.data import DataSet, Images, Probe
from amcl.data.split import sample
from amcl.evaluation.cache import kept_features
from amcl.evaluation.few_labels import FewLabelsSettings, few_labels
from amcl.evaluation.finetuning import (
    FinetuneSettings,
    Precision,
    finetune,
    save_classifier,
    supervised,
)
from amcl.evaluation.linear import FixedFeatures, LinearSettings, TrainingFeatures, linear_probe
from amcl.evaluation.logistic import LogisticSettings, logistic
from amcl.files import digest
from amcl.metrics.features import (
    AugmentedFeatures,
    Features,
    Transform,
    fingerprint,
    pair_features,
)
from amcl.metrics.knn import KnnSettings, default_k, knn
from amcl.metrics.scores import by_class, caution, intervals, uneven
from amcl.metrics.unlabeled import UnlabeledSettings, unlabeled
from amcl.seeds import seed_of
from amcl.settings import choose
from amcl.views import ViewSettings

Protocol = Literal["knn", "linear", "logistic", "few-labels", "finetune", "unlabeled"]
PROTOCOLS: tuple[Protocol, ...] = Protocol.__args__  # type: ignore[attr-defined]


@dataclass(frozen=True, kw_only=True)
class Protocols:
    """The settings of every protocol."""

    knn: KnnSettings = field(default_factory=KnnSettings)
    linear: LinearSettings = field(default_factory=LinearSettings)
    logistic: LogisticSettings = field(default_factory=LogisticSettings)
    few_labels: FewLabelsSettings = field(default_factory=FewLabelsSettings)
    finetune: FinetuneSettings = field(default_factory=FinetuneSettings)
    unlabeled: UnlabeledSettings = field(default_factory=UnlabeledSettings)


class Evaluation:
    """Protocols on one model and one data set.

    - `model`: any module that turns images (N, 3, S, S) into features (N, D);
    - `data`: with labels (`data.probe`), or without, for the protocol "unlabeled" alone;
    - `notes`: what every result should say beside its numbers;
    - `folder`: a run folder, where results and features are kept; None keeps neither.

    >>> from amcl.data import load_dataset
    >>> transform = Transform(image_size=8)
    >>> pixels = Evaluation(nn.Flatten(), load_dataset("builtin"), transform)
    >>> 0.1 < pixels.run("knn").metrics["top1"] < 0.5
    True
    """

    def __init__(
        self,
        model: nn.Module,
        data: DataSet,
        transform: Transform,
        *,
        name: str = "model",
        notes: tuple[str, ...] = (),
        settings: Protocols | None = None,
        device: torch.device | str = "cpu",
        workers: int = 0,
        seed: int = 0,
        precision: Precision = "32",
        folder: Path | None = None,
    ) -> None:
        self.model, self.data, self.transform = model.to(device), data, transform
        self.settings = Protocols() if settings is None else settings
        self.name, self.device, self.workers, self.seed = name, device, workers, seed
        self.precision, self.folder = precision, folder
        self.notes = [*notes]
        self._note_unreadable(data.unreadable)

    def run(self, protocol: Protocol) -> Result:
        """The result of one protocol; it is written where there is a folder."""
        choose("protocol", protocol, PROTOCOLS)
        protocols: dict[str, Callable[[], Result]] = {
            "knn": self._knn,
            "linear": self._linear,
            "logistic": self._logistic,
            "few-labels": self._few_labels,
            "finetune": self._finetune,
            "unlabeled": self._unlabeled,
        }
        result = protocols[protocol]()
        if self.folder is not None:
            result.write(self.folder)
        return result

    @cached_property
    def probe(self) -> Probe:
        """The labeled images; an error where there are none, or classes that differ."""
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
    def bank(self) -> Features:
        """Features of the training images."""
        return self._noting(self.features(self.probe.bank.images))

    @cached_property
    def queries(self) -> Features:
        """Features of the images that are judged on."""
        return self._noting(self.features(self.probe.queries.images))

    def features(self, images: Images) -> Features:
        """Features of images, from the run folder where they were taken before."""
        return kept_features(
            None if self.folder is None else self.folder / "features",
            self.model,
            images,
            self.transform,
            device=self.device,
            workers=self.workers,
        )

    def _noting(self, found: Features) -> Features:
        self._note_unreadable(found.unreadable)
        return found

    def _note_unreadable(self, files: tuple[tuple[str, str], ...]) -> None:
        if files:
            path, reason = files[0]
            told = f"{len(files)} unreadable files left out, the first {path}: {reason}"
            if told not in self.notes:  # two protocols may read the same images
                self.notes.append(told)

    @property
    def _four(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Features and labels of the training images, and of those that are judged on."""
        bank, queries = self.bank, self.queries
        labels, truth = self.probe.bank.labels, self.probe.queries.labels
        return bank.values, labels[bank.indices], queries.values, truth[queries.indices]

    def _knn(self) -> Result:
        bank, labels, queries, truth = self._four
        settings, classes = self.settings.knn, len(self.probe.classes)
        if settings.k is None:  # the result says what was used
            settings = replace(settings, k=default_k(labels))
        cuda = torch.device(self.device).type == "cuda"  # others lack the float64 of euclidean
        bank = bank.to(self.device) if cuda else bank
        metrics, predicted = knn(bank, labels, queries, truth, settings, classes)
        return self._judged("knn", asdict(settings), metrics, {}, predicted, truth)

    def _linear(self) -> Result:
        bank, labels, queries, truth = self._four
        settings = self.settings.linear
        train: TrainingFeatures = FixedFeatures(bank, labels)
        if settings.augment:
            views = self.transform.views(
                ViewSettings(operations="ae", crop_scale=settings.crop_scale)
            )
            train = AugmentedFeatures(
                self.model,
                self.probe.bank.subset(self.bank.indices),
                views,
                dim=bank.shape[1],
                device=self.device,
                workers=self.workers,
                seed=self.seed,
            )
        found = linear_probe(
            train,
            queries,
            truth,
            len(self.probe.classes),
            settings,
            self.seed,
            plain=bank,
            device=self.device,
        )
        used = asdict(settings) | {"epochs": settings.epochs_on(len(labels))}
        del used["min_steps"]  # the epochs tell what came of it
        metrics, details = found.metrics(), found.details()
        return self._judged("linear", used, metrics, details, found.predicted, truth)

    def _logistic(self) -> Result:
        settings, classes = self.settings.logistic, len(self.probe.classes)
        bank, labels, queries, truth = self._four
        found = logistic(bank, labels, queries, truth, classes, settings, self.seed)
        predicted = found.pop("predicted")
        numbers = ("top1", "top5", "train_top1")
        metrics = {name: found.pop(name) for name in numbers}
        metrics = {name: value for name, value in metrics.items() if value is not None}
        return self._judged("logistic", asdict(settings), metrics, found, predicted, truth)

    def _few_labels(self) -> Result:
        settings = self.settings.few_labels
        bank, labels, queries, truth = self._four
        found = few_labels(
            *(bank, labels, queries, truth),
            self.probe.classes,
            settings,
            self.seed,
            self._supervised if settings.supervised else None,
        )
        more = {"finetune": asdict(self.settings.finetune), "precision": self.precision}
        used = asdict(settings) | (more if settings.supervised else {})
        metrics, details = found.metrics(), found.details()
        details["interval"] = intervals(metrics, len(truth))
        if uneven(labels, truth):
            metrics |= found.balanced()
        return self._result("few-labels", used, metrics, self._cautious(details, len(truth)))

    def _supervised(self, indices: torch.Tensor, number: int) -> float:
        """Test accuracy of the same backbone, trained from scratch on a few labeled images."""
        return supervised(
            self.model,
            self.probe.bank,
            self.bank.indices[indices],
            self.probe.queries,
            len(self.probe.classes),
            self.transform,
            self.settings.finetune,
            device=self.device,
            workers=self.workers,
            seed=seed_of(self.seed, "supervised", number),
            precision=self.precision,
        )

    def _finetune(self) -> Result:
        settings = self.settings.finetune
        if settings.scratch:  # as `finetune` takes it: the result says what was done
            settings = replace(settings, layer_decay=1.0)
        used = asdict(settings) | {"precision": self.precision}
        place = None
        if self.folder is not None:  # where it is known by what it will have been made of
            place = self._result("finetune", used, {}).path(self.folder)
            place.parent.mkdir(parents=True, exist_ok=True)
        found = finetune(
            self.model,
            self.probe.bank,
            self.probe.queries,
            len(self.probe.classes),
            self.transform,
            settings,
            device=self.device,
            workers=self.workers,
            seed=self.seed,
            precision=self.precision,
            checkpoint=None if place is None else place.with_suffix(".pt"),
        )
        if place is not None:
            save_classifier(
                place.with_suffix(CLASSIFIER),
                found.state_dict,
                self.probe.classes,
                self.model,
                self.transform,
            )
        metrics, details = found.metrics(), found.details()
        return self._judged("finetune", used, metrics, details, found.predicted, found.truth)

    def _unlabeled(self) -> Result:
        settings = self.settings.unlabeled
        images, split = self.data.train, "train"
        if self.data.probe is not None:
            images, split = self.data.probe.queries.images, self.data.probe.split
        chosen = images.subset(sample(len(images), settings.images, self.seed))
        found, unreadable = pair_features(
            self.model,
            chosen,
            self.transform,
            self.transform.views(ViewSettings(operations=settings.views)),
            device=self.device,
            workers=self.workers,
            seed=self.seed,
        )
        self._note_unreadable(unreadable)
        return self._result(
            "unlabeled",
            asdict(settings),
            unlabeled(*found),
            split=split,
            images={"images": found.shape[1], "sha256": chosen.identity()},
        )

    def _judged(
        self,
        protocol: Protocol,
        settings: dict[str, Any],
        metrics: dict[str, float],
        details: dict[str, Any],
        predicted: torch.Tensor,
        truth: torch.Tensor,
    ) -> Result:
        """The result of a classifier, with what it says of each class."""
        details = self._cautious(details, len(truth)) | by_class(
            predicted, truth, self.probe.classes
        )
        details["interval"] = intervals(metrics, len(truth))
        if uneven(self.probe.bank.labels, truth):
            top1 = {"top1": metrics["top1"], "balanced_top1": details["balanced_top1"]}
            metrics = top1 | metrics
        return self._result(protocol, settings, metrics, details)

    def _cautious(self, details: dict[str, Any], images: int) -> dict[str, Any]:
        return details | {"notes": [*details.get("notes", ()), *caution(images)]}

    def _result(
        self,
        protocol: Protocol,
        settings: dict[str, Any],
        metrics: dict[str, float],
        details: dict[str, Any] | None = None,
        split: str | None = None,
        images: dict[str, Any] | None = None,
    ) -> Result:
        transform = asdict(self.transform)
        return Result(
            protocol=protocol,
            data=self.data.name,
            split=split or self.probe.split,
            metrics=metrics,
            details=self._noted(details or {}),
            settings=_plain(settings | {"transform": transform}),
            seed=self.seed,
            model={"name": self.name, "sha256": self._sha256},
            images=images or self._counts,
        )

    def _noted(self, details: dict[str, Any]) -> dict[str, Any]:
        return {**details, "notes": [*self.notes, *details.get("notes", ())]}

    @cached_property
    def _sha256(self) -> str:
        return fingerprint(self.model)

    @cached_property
    def _counts(self) -> dict[str, Any]:
        parts = (self.probe.bank, self.probe.queries)
        shas = [part.images.identity().encode() for part in parts]
        shas += [part.labels.numpy().tobytes() for part in parts]
        return {
            "train": len(self.probe.bank.labels),
            self.probe.split: len(self.probe.queries.labels),
            "classes": len(self.probe.classes),
            "sha256": digest(shas),
        }


def _check_classes(probe: Probe, name: str) -> None:
    """Raise an error where classes are judged on that were not trained on, or a test lacks some.

    Images that were held out of training at random may lack a small class.
    """
    trained, judged = (set(part.labels.tolist()) for part in (probe.bank, probe.queries))
    if len(trained) < 2:
        raise ValueError(f"{name} has {len(trained)} class to train on: at least 2 are needed.")
    for missing, lacks in ((judged - trained, "training"), (trained - judged, probe.split)):
        if missing and (lacks == "training" or probe.split == "test"):
            names = ", ".join(probe.classes[label] for label in sorted(missing)[:5])
            raise ValueError(
                f"{name}: the {lacks} split has no readable image of {len(missing)} of the classes "
                f"({names}), which the other has: bring both splits to the same classes."
            )


def _plain(settings: Any) -> Any:
    """Settings as JSON has them: lists, and infinity as a word."""
    if isinstance(settings, dict):
        return {name: _plain(value) for name, value in settings.items()}
    if isinstance(settings, tuple):
        return [_plain(value) for value in settings]
    return str(settings) if settings == math.inf else settings
