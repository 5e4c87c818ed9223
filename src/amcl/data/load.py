"""Loading of images from any source: a folder, a named data set, the built-in one."""

import logging
import os
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import torch

from amcl.data.builtin import load_builtin
from amcl.data.file_dataset import choose_sizes
from amcl.data.folder import label_by_folder, load_folder
from amcl.data.images import DataSet, FileImages, Images, MemoryImages
from amcl.data.listing import Listing, list_images
from amcl.data.named import DATASETS, ValidationSource, data_root, load_named
from amcl.data.options import BANK, Labels, LoadOptions, ProbeSplit, missing_labels
from amcl.data.records import FileRecords
from amcl.data.split_folders import Role, find_splits
from amcl.files import expand_home

logger = logging.getLogger("amcl")


def load_dataset(
    source: str,
    *,
    root: Path | None = None,
    image_size: int | None = None,
    canvas: int | None = None,
    labels: Labels = "auto",
    probe: ProbeSplit = "validation",
    validation: int = 1000,
    memory: float = 4.0,
    workers: int | None = None,
    seed: int = 0,
    subset: int | None = None,
    bank: int | None = BANK,
    train_labels: bool = False,
) -> DataSet:
    """Load images to pre-train on.

    Args:
        source: A folder, the name of a data set, or "builtin". A name comes first: write ./cifar10
            for a folder with the name of a data set.
        root: Folder of the named data sets; else $AMCL_DATA, else ~/.cache/amcl.
        image_size: Side of the views in pixels. Default: that of the data set; for folders the
            largest of 32, 64, 96, 128 and 224 that the median short side of the images reaches.
        canvas: Side of the square that images are decoded to. Default: 1.5 × image_size, or the
            side of the images if they are all squares of one size up to that.
        labels: "auto" takes folders as classes if every image is at <class>/<file>; "folders"
            takes the first level of folders however deep the images are; "none" uses no labels.
        probe: Images that features are judged on. "validation" holds `validation` images (at most
            10 %) out of training unless the source has a validation split; "test" is for final
            results; "none" and ``validation=0`` train on everything.
        validation: Number of images to hold out.
        memory: Sets of up to this many GiB are decoded once and kept, others are decoded as they
            are used.
        workers: Number of processes that decode. Default: one for each core, at most 8.
        seed: Seed of the choice of images that are held out.
        subset: Number of images to train on, each class by its share: the same for every seed.
        bank: Greatest number of images to compare with in "validation"; None takes all that are
            not held out, as "test" does.
        train_labels: Load the classes of the images to train on too, for a method that learns from
            them; an error if they have none. STL-10 then trains on its labeled images.

    Returns:
        The images, and labeled ones to judge features on.

    Example:
        >>> data = load_dataset("builtin")
        >>> data.image_size, len(data.probe.classes)
        (32, 10)
    """
    options = LoadOptions(
        image_size=image_size,
        canvas=canvas,
        labels=labels,
        probe=probe,
        validation=validation,
        memory=memory,
        workers=default_workers() if workers is None else workers,
        seed=seed,
        subset=subset,
        bank=bank,
        train_labels=train_labels,
    )
    data = _load(source, root, options)
    if train_labels and data.labels is None:
        raise ValueError(missing_labels(f"those of {source} have none"))
    return data


def _load(source: str, root: Path | None, options: LoadOptions) -> DataSet:
    if source == "builtin":
        return load_builtin(options)
    if source in DATASETS:
        return load_named(source, data_root(root), options)
    return load_folder(_existing_folder(source), options)


@dataclass(frozen=True)
class AllImages:
    """All images of a source. Files are not read yet, so that some may be unreadable."""

    images: Images
    names: list[str]
    """Paths below the folder, or split/number in a named data set."""
    paths: list[str]
    """Absolute paths of the files; empty if there are none."""
    labels: list[str]
    """Class of each image, "" if it has none; empty if no image has one."""


def load_all_images(
    source: str, *, root: Path | None = None, image_size: int, canvas: int | None = None
) -> AllImages:
    """Load all images of a source, whatever their split, with their names and classes.

    Args:
        source: A folder, the name of a data set, or "builtin".
        root: Folder of the named data sets; else $AMCL_DATA, else ~/.cache/amcl.
        image_size: Side of the model's input in pixels.
        canvas: Side of the square that images are decoded to; by default as in `load_dataset`.

    Returns:
        The images with their names, paths and classes.

    Example:
        >>> load_all_images("builtin", image_size=32).names[0]
        'train/00000'
    """
    options = LoadOptions(
        image_size=image_size,
        canvas=canvas,
        labels="none",
        probe="none",
        validation=0,
        memory=0,
        workers=0,
    )
    if source == "builtin" or source in DATASETS:
        return _all_named_images(source, root, options)
    folder = _existing_folder(source)
    listing = list_images(folder)
    for warning in listing.warnings:
        logger.warning(warning)
    paths = listing.paths
    _, side, _ = choose_sizes(listing.records, options)
    return AllImages(
        images=FileImages(listing.records, side),
        names=[os.path.relpath(path, folder) for path in paths],
        paths=[os.path.abspath(path) for path in paths],
        labels=_folder_labels(folder, paths),
    )


def has_test_split(source: str) -> bool:
    """Return whether a source has a labeled test split.

    Args:
        source: A folder, the name of a data set, or "builtin".

    Returns:
        True if features can be judged with ``probe="test"``.

    Example:
        >>> has_test_split("cifar10"), has_test_split("builtin")
        (True, False)
    """
    if source in DATASETS:
        return DATASETS[source].has_test_labels
    return source != "builtin" and _has_split(source, "test")


def validation_source(source: str) -> ValidationSource:
    """Return where the images to validate on come from.

    Args:
        source: A folder, the name of a data set, or "builtin".

    Returns:
        "split" for a split of its own; "unused" for labeled images that are not pre-trained on;
        "training" for images held out of those that are.

    Example:
        >>> [validation_source(name) for name in ("imagenet", "stl10", "cifar10")]
        ['split', 'unused', 'training']
    """
    if source in DATASETS:
        return DATASETS[source].validation_source
    return "split" if source == "builtin" or _has_split(source, "validation") else "training"


def absolute_source(source: str) -> str:
    """Return a name of a source that means the same in every working folder.

    A folder gets its absolute path. If there is none, the name stays, for the error to show.

    Args:
        source: A folder, the name of a data set, or "builtin".

    Returns:
        The absolute path of a folder; other names as they are.

    Example:
        >>> absolute_source("cifar10"), absolute_source("/data/../data")
        ('cifar10', '/data/../data')
    """
    folder = Path(source)
    if source in ("", "builtin", *DATASETS) or folder.is_absolute() or not folder.is_dir():
        return source
    return str(folder.resolve() if ".." in folder.parts else folder.absolute())


def same_source(first: str, second: str) -> bool:
    """Return whether two names mean the same source; a folder has many.

    Args:
        first: A folder, the name of a data set, or "builtin".
        second: Another one.

    Returns:
        True if both are the same name, or paths of the same folder.

    Example:
        >>> same_source("images", "./more/../images/"), same_source("builtin", "./builtin")
        (True, False)
    """
    if first == second or {first, second} & {"builtin", *DATASETS}:
        return first == second
    return expand_home(first).resolve() == expand_home(second).resolve()


def default_workers() -> int:
    """Return one process for each core that this process may use, at most 8.

    Returns:
        The number of processes that decode images by default.

    Example:
        >>> 1 <= default_workers() <= 8
        True
    """
    if hasattr(os, "sched_getaffinity"):
        return min(8, len(os.sched_getaffinity(0)))
    return min(8, os.cpu_count() or 1)


def suggestion(name: str) -> str:
    """Return " Did you mean …?" if a data set or folder has nearly this name, else "".

    >>> suggestion("cifar1O")
    " Did you mean 'cifar10'?"
    """
    matches = get_close_matches(name.lower(), ["builtin", *DATASETS], n=1)
    if not matches and (path := Path(name)).parent.is_dir():
        folders = {entry.name: str(entry) for entry in path.parent.iterdir() if entry.is_dir()}
        matches = [folders[match] for match in get_close_matches(path.name, folders, n=1)]
    return f" Did you mean {matches[0]!r}?" if matches else ""


def _folder_labels(folder: Path, paths: list[str]) -> list[str]:
    """Return classes by folders, for each split by itself; "" for images that have none."""
    splits = find_splits(folder)
    names: dict[str, str] = {}
    for root in (*splits.train, *splits.not_trained_on) if splits.train else (folder,):
        inside = [path for path in paths if Path(path).is_relative_to(root)]
        if not inside:
            continue
        parts = [splits.parts(path) for path in inside]
        listing, _ = label_by_folder(Listing(FileRecords(inside)), parts, str(root), "auto")
        if listing.labels is not None:
            classes = [listing.classes[index] for index in listing.labels.tolist()]
            names |= dict(zip(inside, classes, strict=True))
    return [names.get(path, "") for path in paths] if names else []


def _has_split(source: str, role: Role) -> bool:
    folder = expand_home(source)
    return folder.is_dir() and find_splits(folder).has(role)


def _all_named_images(source: str, root: Path | None, options: LoadOptions) -> AllImages:
    """Return both labeled splits of a data set that is stored as tensors."""
    has_test = has_test_split(source)
    if source in DATASETS and not has_test:
        folder = data_root(root) / DATASETS[source].path
        raise ValueError(
            f"{source} is a folder of images: give its path, {folder}, so that they have the names "
            "of their files."
        )
    probe: ProbeSplit = "test" if has_test else "validation"
    options = replace(options, labels="auto", probe=probe, validation=1)
    data = load_named(source, data_root(root), options) if has_test else load_builtin(options)
    if data.probe is None:
        raise RuntimeError(f"{source} has labels")
    splits = {"train": data.probe.bank, data.probe.split: data.probe.queries}
    pixels = [part.images[torch.arange(len(part.images))] for part in splits.values()]
    labels = torch.cat([part.labels for part in splits.values()])
    return AllImages(
        images=MemoryImages(torch.cat(pixels)),
        names=[
            f"{split}/{i:05d}" for split, part in splits.items() for i in range(len(part.images))
        ],
        paths=[],
        labels=[data.probe.classes[label] for label in labels.tolist()],
    )


def _existing_folder(source: str) -> Path:
    folder = expand_home(source)
    if source and folder.is_dir():  # an empty path would be the working folder
        return folder
    names = ", ".join(["builtin", *DATASETS])
    if source and folder.exists():
        raise NotADirectoryError(
            f"{source!r} is a file: give the folder that holds the images, unpacked, or one of "
            f"{names}."
        )
    here = f" (from here: {folder.absolute()})" if source and not folder.is_absolute() else ""
    raise FileNotFoundError(
        f"{source!r} is neither a folder nor a known data set{here}.{suggestion(source)} Give the "
        f"folder that holds the images, or one of {names}."
    )
