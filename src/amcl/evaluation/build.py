"""The evaluation of a loaded model: options that are left out are taken from its run."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from amcl.backbones import SMALL
from amcl.checkpoints.loaded_model import LoadedModel
from amcl.checkpoints.run_folder import RunFolder
from amcl.config import DataSettings
from amcl.data import (
    DataSet,
    Images,
    default_workers,
    has_test_split,
    load_dataset,
    same_source,
    validation_source,
)
from amcl.errors import RunError
from amcl.evaluation.evaluation import Evaluation
from amcl.evaluation.registry import PROTOCOLS
from amcl.metrics.features import Transform
from amcl.printable import counted
from amcl.settings import choose
from amcl.training.hardware import find_accelerator

logger = logging.getLogger("amcl")

CROP = 0.875  # share of the shorter side: ImageNet's 224 of 256 pixels


@dataclass(frozen=True, kw_only=True)
class EvaluationData:
    """The images that a model is evaluated on. Options that are left out are as in the run."""

    data: str | None = None
    """A folder with a sub-folder for each class, a named set, or builtin; none: that of the run."""
    split: Literal["auto", "test", "validation"] = "auto"
    """The test split, or images held out of training; auto: test where there is one."""
    data_root: str | None = None
    """Folder of named sets; none: as in the run, else $AMCL_DATA, else ~/.cache/amcl."""
    labels: Literal["auto", "folders", "none"] | None = None
    """folders: the first level of folders, however deep images lie; auto: <class>/<file>."""
    validation: int | None = None
    """Number of images held out, at most a tenth; none: as in the run, else 1,000."""
    canvas: int | None = None
    """Pixels a side that pictures are kept at; none: as in the run, else 1.5 times the input."""
    crop: float | None = None
    """A central square of this share of the shorter side, 0: all of the picture; none: 0.875 where
    pictures are kept larger than inputs of more than 64 pixels, else all."""
    memory: float = 4.0
    """GiB up to which a set is kept decoded in memory."""
    workers: int | None = None
    """Processes that decode pictures; none: one a core, at most 8."""

    def __post_init__(self) -> None:
        choose("split", self.split, ("auto", "test", "validation"))


def make_evaluation(
    model: LoadedModel,
    options: EvaluationData | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    precision: Literal["32", "bf16"] = "32",
    seed: int = 0,
    folder: Path | None = None,
) -> Evaluation:
    """Make the evaluation of a loaded model, on the data set of its run or on another.

    Args:
        model: The model, as `open_model` returns it.
        options: The images to evaluate on; None for those of the run.
        settings: Settings of protocols by name; None for those that the run suggests.
        accelerator: Device that the model runs on.
        precision: Precision of fine-tuning.
        seed: Seed of everything random.
        folder: Folder of results and features; None for the run folder.
    """
    options = EvaluationData() if options is None else options
    folder = results_folder(model, folder)
    data = _load_data(model, options, seed)
    return Evaluation(
        model.backbone,
        data,
        input_transform(model, options.crop, data.train),
        name=model.name,
        notes=_notes(model, options, data),
        settings=run_settings(model) if settings is None else settings,
        device=find_accelerator(accelerator),
        workers=_workers(options),
        seed=seed,
        precision=precision,
        folder=folder,
    )


def run_settings(model: LoadedModel) -> dict[str, Any]:
    """Return the settings of protocols that follow from the run of a model, by name."""
    protocols = [PROTOCOLS[name] for name in PROTOCOLS]
    return {
        protocol.name: protocol.settings_of_run(model.config)
        for protocol in protocols
        if protocol.settings_of_run is not None and model.config is not None
    }


def input_transform(model: LoadedModel, crop: float | None, images: Images) -> Transform:
    """Return the transform from a test image to the input of a model.

    Args:
        model: The model.
        crop: Share of the shorter side, as `EvaluationData` has it.
        images: The images, whose size decides about the crop where `crop` is None.

    Raises:
        ValueError: The images have another number of channels than the model takes.
    """
    check_channels(model.name, model.backbone.channels, images)
    size = model.backbone.image_size
    if crop is None:
        crop = CROP if images.canvas[0] > size > SMALL else 0
    if not 0 <= crop <= 1:
        raise ValueError(f"crop must lie from 0 (no crop) to 1, got {crop}.")
    return Transform(image_size=size, mean=model.mean, std=model.std, crop=crop or None)


def check_channels(model: str, channels: int, images: Images) -> None:
    """Raise an error if images have another number of channels than a model takes.

    Args:
        model: Name of the model.
        channels: Number of channels that it takes.
        images: The images.
    """
    if images.channels == channels:
        return
    raise ValueError(
        f"{model} takes images of {counted(channels, 'channel')}, and these have "
        f"{images.channels}: name images of {counted(channels, 'channel')}, or a model of "
        f"{images.channels}. `amcl pretrain --data FOLDER --init MODEL` "
        "continues training from weights of RGB on images of other channels."
    )


def results_folder(model: LoadedModel, folder: Path | None) -> Path | None:
    """Return the folder of results; an error if it cannot be written to or is another run's."""
    path = folder or model.folder
    if path is None:
        return None
    if model.folder is None or path.resolve() != model.folder.resolve():
        if RunFolder(path).config.is_file():
            raise RunError(f"{path} is the folder of another run: choose another with --out.")
    elif not os.access(path, os.W_OK):
        raise RunError(f"{path} cannot be written to: say where results go, with --out FOLDER.")
    return path


def _load_data(model: LoadedModel, options: EvaluationData, seed: int) -> DataSet:
    run = model.config
    source = _source(model, options)
    trained_on = _trained_on(model, source)
    root = options.data_root or (run.data.data_root if run else None)
    settings = trained_on or DataSettings()
    try:
        data = load_dataset(
            source,
            root=Path(root) if root else None,
            image_size=model.backbone.image_size,
            canvas=settings.canvas if options.canvas is None else options.canvas,
            labels=options.labels or ("folders" if settings.labels == "folders" else "auto"),
            probe=_split(source, options),
            validation=settings.validation or 1000
            if options.validation is None
            else options.validation,
            memory=options.memory,
            workers=_workers(options),
            # The same images are held out as in the run: it was not trained on them.
            seed=seed if run is None or trained_on is None else run.run.seed,
            subset=settings.subset,
            bank=None,
            train_labels=trained_on is not None and _learned_labels(model, options),
            normalization=(model.mean, model.std),
            **model.image_options(),
        )
    except FileNotFoundError as error:
        if options.data is not None or run is None:
            raise
        raise FileNotFoundError(
            f"{error} It is what {model.name} was trained on; name it as it is called from here "
            "with --data."
        ) from error
    for warning in data.warnings:
        logger.warning(warning)
    return data


def _source(model: LoadedModel, options: EvaluationData) -> str:
    source = options.data or (model.config.data.source if model.config else None)
    if source is None:
        raise ValueError(
            f"{model.name} is no run, so it does not say what to evaluate it on: name a folder or "
            "set with --data."
        )
    return source


def _trained_on(model: LoadedModel, source: str) -> DataSettings | None:
    """Return the data settings of the run, if it was trained on this source."""
    if model.config is None or not same_source(source, model.config.data.source):
        return None
    return model.config.data


def _split(source: str, options: EvaluationData) -> Literal["test", "validation"]:
    has_test = has_test_split(source)
    if options.split == "test" and not has_test:
        raise ValueError(f"{source} has no labeled test split: use --split validation.")
    split: Literal["test", "validation"]
    split = "test" if has_test and options.split != "validation" else "validation"
    if options.validation and (split == "test" or validation_source(source) == "split"):
        raise ValueError(f"{source} brings its own {split} images: leave out --validation.")
    return split


def _notes(model: LoadedModel, options: EvaluationData, data: DataSet) -> tuple[str, ...]:
    """Return a note if the model was pre-trained on the images that it is evaluated on."""
    source = _source(model, options)
    trained_on = _trained_on(model, source)
    if (
        trained_on is None
        or _split(source, options) == "test"
        or not _holds_out_of_training(model, options)
    ):
        return ()
    held_out = trained_on.probe == "validation" and trained_on.labels != "none"
    held_out = held_out and trained_on.validation > 0
    # The images to train on are those of the run, if the hold-out is the same.
    others = model.images is not None and model.images != len(data.train)
    # The hold-out lies outside of a subset, whether or not the run itself held it out.
    if not others and (held_out or trained_on.subset is not None):
        return ()
    use = "with their labels" if _learned_labels(model, options) else "without labels"
    return (f"the images it is judged on are among those it was pre-trained on, {use}",)


def _learned_labels(model: LoadedModel, options: EvaluationData) -> bool:
    """Return whether the run learned from labels, and they are in use here."""
    needs_labels = model.config is not None and model.config.method.needs_labels
    return needs_labels and options.labels != "none"


def _holds_out_of_training(model: LoadedModel, options: EvaluationData) -> bool:
    """Return whether images to validate on are held out of those that the run was trained on."""
    origin = validation_source(_source(model, options))
    return origin == "training" or (origin == "unused" and _learned_labels(model, options))


def _workers(options: EvaluationData) -> int:
    return default_workers() if options.workers is None else options.workers
