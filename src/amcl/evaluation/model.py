"""What a model is judged on, taken from its run where nothing else is said."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from amcl.backbones import SMALL
from amcl.checkpoints.run_folder import RunFolder
from amcl.checkpoints.subject import Subject
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
from amcl.evaluation import Evaluation, KnnSettings, Protocols, Transform
from amcl.settings import choose
from amcl.training.hardware import find_accelerator

logger = logging.getLogger("amcl")

CROP = 0.875  # of the shorter side: ImageNet's 224 of 256 pixels


@dataclass(frozen=True, kw_only=True)
class JudgedOn:
    """The images a model is judged on. What is left out is as in the run."""

    data: str | None = None
    """A folder with a sub-folder for each class, a named set, or builtin; none: the run's own."""
    split: Literal["auto", "test", "validation"] = "auto"
    """The test split, or images held out of training; auto: test where there is one."""
    data_root: str | None = None
    """Where named sets lie; none: as in the run, else $AMCL_DATA, else ~/.cache/amcl."""
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


def evaluation_of(
    subject: Subject,
    on: JudgedOn | None = None,
    *,
    settings: Protocols | None = None,
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = "auto",
    precision: Literal["32", "bf16"] = "32",
    seed: int = 0,
    folder: Path | None = None,
) -> Evaluation:
    """The evaluation of a model on its run's own data set, or on another.

    Results and features go to the run folder, or to `folder`.
    """
    on = JudgedOn() if on is None else on
    folder = _writable(subject, folder)
    data, notes = _data(subject, on, seed)
    return Evaluation(
        subject.backbone,
        data,
        transform_of(subject, on.crop, data.train),
        name=subject.name,
        notes=notes,
        settings=settings_of(subject) if settings is None else settings,
        device=find_accelerator(accelerator),
        workers=_workers(on),
        seed=seed,
        precision=precision,
        folder=folder,
    )


def _writable(subject: Subject, folder: Path | None) -> Path | None:
    """Where results go: an error where they cannot, or would pass for those of another run."""
    place = folder or subject.folder
    if place is None:
        return None
    if subject.folder is None or place.resolve() != subject.folder.resolve():
        if RunFolder(place).config.is_file():
            raise RunError(f"{place} is the folder of another run: choose another with --out.")
    elif not os.access(place, os.W_OK):
        raise RunError(f"{place} cannot be written to: say where results go, with --out FOLDER.")
    return place


def settings_of(subject: Subject) -> Protocols:
    """The protocols as a model's run had them: kNN with as many neighbors."""
    if subject.config is None:
        return Protocols()
    return Protocols(knn=KnnSettings(k=subject.config.run.knn_k))


def _data(subject: Subject, on: JudgedOn, seed: int) -> tuple[DataSet, tuple[str, ...]]:
    """The images, and what is to be told of them."""
    run = subject.config
    source = on.data or (run.data.source if run else None)
    if source is None:
        raise ValueError(
            f"{subject.name} is no run, so it does not say what to judge it on: name a folder or "
            "set with --data."
        )
    own = run is not None and same_source(source, run.data.source)
    trained = run.data if run is not None and own else DataSettings()
    split = _split(source, on)
    root = on.data_root or (run.data.data_root if run else None)
    try:
        data = load_dataset(
            source,
            root=Path(root) if root else None,
            image_size=subject.backbone.image_size,
            canvas=trained.canvas if on.canvas is None else on.canvas,
            labels=on.labels or ("folders" if trained.labels == "folders" else "auto"),
            probe=split,
            validation=trained.validation or 1000 if on.validation is None else on.validation,
            memory=on.memory,
            workers=_workers(on),
            # The same images are held out as in the run: it has not seen them.
            seed=run.run.seed if run is not None and own else seed,
            subset=trained.subset,
            bank=None,
        )
    except FileNotFoundError as error:
        if on.data is not None or run is None:
            raise
        raise FileNotFoundError(
            f"{error} It is what {subject.name} was trained on; name it as it is called from here "
            "with --data."
        ) from error
    for warning in data.warnings:
        logger.warning(warning)
    seen = own and split == "validation" and _seen(subject, trained, source, data)
    told = "the images it is judged on are among those it was pre-trained on, without labels"
    return data, (told,) if seen else ()


def _split(source: str, on: JudgedOn) -> Literal["test", "validation"]:
    test = has_test_split(source)
    if on.split == "test" and not test:
        raise ValueError(f"{source} has no labeled test split: use --split validation.")
    split: Literal["test", "validation"]
    split = "test" if on.split == "test" or (on.split == "auto" and test) else "validation"
    if on.validation and (split == "test" or validation_source(source) == "split"):
        raise ValueError(f"{source} brings its own {split} images: leave out --validation.")
    return split


def _seen(subject: Subject, trained: DataSettings, source: str, data: DataSet) -> bool:
    """Return whether the run was trained on images that are judged on, its hold-out aside."""
    if validation_source(source) != "training":
        return False
    held = trained.probe == "validation" and trained.labels != "none" and trained.validation > 0
    # What is left to train on here is what the run was trained on, if the hold-out is the same.
    others = subject.images is not None and subject.images != len(data.train)
    # What is held out lies outside of a subset, whether or not the run itself held it out.
    return others or not (held or trained.subset is not None)


def transform_of(subject: Subject, crop: float | None, images: Images) -> Transform:
    """The test transform of a model; `crop` as `JudgedOn` has it."""
    size = subject.backbone.image_size
    if crop is None:
        crop = CROP if images.canvas[0] > size > SMALL else 0
    if not 0 <= crop <= 1:
        raise ValueError(f"crop must lie from 0 (no crop) to 1, got {crop}.")
    return Transform(image_size=size, mean=subject.mean, std=subject.std, crop=crop or None)


def _workers(on: JudgedOn) -> int:
    return default_workers() if on.workers is None else on.workers
