"""One call for every source of images."""

import logging
import os
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import torch

from amcl.data.folder import label, load_folder
from amcl.data.images import DataSet, FileImages, Images, MemoryImages
from amcl.data.named import NAMED, data_root, load_named
from amcl.data.options import BANK, Labels, Options, ProbeSplit
from amcl.data.pictures import Listing, choose_sizes
from amcl.data.split import subset as choose_subset
from amcl.data.split_folders import find_splits
from amcl.data.walk import list_images

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
) -> DataSet:
    """Images to pre-train on: a folder, a known data set by its name, or "builtin".

    - `source`: a name comes first; write ./cifar10 for a folder that is called like a data set;
    - `root`: where known data sets lie; else $AMCL_DATA, else ~/.cache/amcl;
    - `image_size`: the side of the views. Default: the data set's own; for folders the largest of
      32, 64, 96, 128 and 224 that the median short side of the pictures reaches;
    - `canvas`: the side of the square that pictures are decoded to. Default: 1.5 × image_size, or
      the pictures' own side if they are all squares of one size up to that;
    - `labels`: "auto" takes folders as classes if every image lies in <class>/<file>; "folders"
      takes the first level of folders however deep the images lie; "none" uses no labels;
    - `probe`: which images the features are judged on. "validation" holds `validation` images (at
      most 10 %) out of training unless the source brings a validation split; "test" is for the
      last word; "none" and `validation=0` train on everything;
    - `memory`: sets of up to this many GiB are decoded once and kept, others are decoded as
      they are used;
    - `workers`: processes that decode. Default: one for each core, at most 8;
    - `subset`: number of images to train on, each class by its share: the same ones for every seed;
    - `bank`: greatest number of images that are compared with in "validation"; None takes all that
      are not held out, as "test" does.
    """
    options = Options(
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
    )
    if source == "builtin":
        return _load_builtin(options)
    if source in NAMED:
        return load_named(source, data_root(root), options)
    folder = Path(source).expanduser()
    if not source or not folder.is_dir():  # an empty path would be the working folder
        raise _unknown(source, folder)
    return load_folder(folder, options)


@dataclass(frozen=True)
class Pictures:
    """All images of a source; they are not read yet, so that some may be unreadable."""

    images: Images
    names: list[str]
    """Paths below the folder, or split/number in a set."""
    paths: list[str]
    """Of the files, absolute; empty where there are none."""
    labels: list[str]
    """The class of each image, "" where it is not known; empty where none is."""


def list_pictures(
    source: str, *, root: Path | None = None, image_size: int, canvas: int | None = None
) -> Pictures:
    """All images of a source, with their names, and their classes as `load_dataset` knows them."""
    options = Options(
        image_size=image_size,
        canvas=canvas,
        labels="none",
        probe="none",
        validation=0,
        memory=0,
        workers=0,
        seed=0,
        subset=None,
        bank=None,
    )
    if source == "builtin" or source in NAMED:
        return _named_pictures(source, data_root(root), options)
    folder = Path(source).expanduser()
    if not source or not folder.is_dir():
        raise _unknown(source, folder)
    listing = list_images(folder)
    for warning in listing.warnings:
        logger.warning(warning)
    paths = listing.paths
    _, side, _ = choose_sizes(paths, options)
    return Pictures(
        images=FileImages(paths, side),
        names=[os.path.relpath(path, folder) for path in paths],
        paths=[os.path.abspath(path) for path in paths],
        labels=_labels(folder, paths),
    )


def _labels(folder: Path, paths: list[str]) -> list[str]:
    """Classes by folders, those of each split on its own; "" where images are not sorted so."""
    splits = find_splits(folder)
    names = dict[str, str]()
    for root in (*splits.train, *splits.apart) if splits.train else (folder,):
        inside = [path for path in paths if Path(path).is_relative_to(root)]
        if not inside:
            continue
        parts = [splits.parts(path) for path in inside]
        listing, _ = label(Listing(inside), parts, str(root), "auto")
        if listing.labels is not None:
            numbers = listing.labels.tolist()
            names |= {p: listing.classes[n] for p, n in zip(inside, numbers, strict=True)}
    return [names.get(path, "") for path in paths] if names else []


def has_test_split(source: str) -> bool:
    """Return whether a source, as `load_dataset` takes it, brings a labeled test split."""
    if source in NAMED:
        return NAMED[source].test
    return source != "builtin" and _has_split(source, "test")


def validation_of(source: str) -> Literal["given", "spared", "cut"]:
    """Where a source's images to validate on come from.

    "given": a split of its own; "spared": cut from labeled images that are not pre-trained on;
    "cut": from those that are.
    """
    if source in NAMED:
        return NAMED[source].validation
    return "given" if source == "builtin" or _has_split(source, "validation") else "cut"


def _has_split(source: str, role: Literal["validation", "test"]) -> bool:
    folder = Path(source).expanduser()
    return folder.is_dir() and find_splits(folder).has(role)


def absolute_source(source: str) -> str:
    """A source by a name that means the same in every working folder.

    >>> absolute_source("cifar10"), absolute_source("/data/../data")
    ('cifar10', '/data/../data')

    A folder gets its absolute path. What is not there keeps its name, for the error to tell.
    """
    folder = Path(source).expanduser()
    if source in ("", "builtin", *NAMED) or folder.is_absolute() or not folder.is_dir():
        return source
    return str(folder.resolve() if ".." in folder.parts else folder.absolute())


def same_source(first: str, second: str) -> bool:
    """Return whether two names are of one source; a folder has many.

    >>> same_source("pictures", "./more/../pictures/"), same_source("builtin", "./builtin")
    (True, False)
    """
    if first == second or {first, second} & {"builtin", *NAMED}:
        return first == second
    return Path(first).expanduser().resolve() == Path(second).expanduser().resolve()


def default_workers() -> int:
    """One process for each core this process may use, at most 8."""
    if hasattr(os, "sched_getaffinity"):
        return min(8, len(os.sched_getaffinity(0)))
    return min(8, os.cpu_count() or 1)


def nearest(name: str) -> str:
    """ " Did you mean …?" for the name of nearly a known set or folder, else nothing."""
    matches = get_close_matches(name.lower(), ["builtin", *NAMED], n=1)
    if not matches and (path := Path(name)).parent.is_dir():
        folders = {each.name: str(each) for each in path.parent.iterdir() if each.is_dir()}
        matches = [folders[near] for near in get_close_matches(path.name, folders, n=1)]
    return f" Did you mean {matches[0]!r}?" if matches else ""


def _named_pictures(source: str, root: Path, options: Options) -> Pictures:
    """Both labeled splits of a set that is kept as tensors."""
    test = has_test_split(source)
    if source in NAMED and not test:
        raise ValueError(
            f"{source} is a folder of pictures: give its path, {root / NAMED[source].place}, "
            "so that they are known by their names."
        )
    options = replace(options, labels="auto", probe="test" if test else "validation", validation=1)
    named = load_named(source, root, options) if test else _load_builtin(options)
    if named.probe is None:
        raise RuntimeError(f"{source} has labels")
    parts = {"train": named.probe.bank, named.probe.split: named.probe.queries}
    sets = {split: part.images for split, part in parts.items()}
    pixels = torch.cat([images[torch.arange(len(images))] for images in sets.values()])
    numbers = torch.cat([part.labels for part in parts.values()])
    return Pictures(
        images=MemoryImages(pixels),
        names=[f"{split}/{i:05d}" for split, images in sets.items() for i in range(len(images))],
        paths=[],
        labels=[named.probe.classes[number] for number in numbers.tolist()],
    )


def _load_builtin(options: Options) -> DataSet:
    from amcl.data.builtin import builtin

    if options.probe == "test":
        raise ValueError("The built-in set has no test split: use probe='validation'.")
    images = builtin()
    options.check_canvas(images.train)
    image_size = options.image_size or images.image_size
    if images.probe is None:
        raise RuntimeError("the built-in set has labels")
    bank = images.probe.bank.subset(choose_subset(images.probe.bank.labels, options.subset))
    probe = replace(images.probe, bank=bank) if options.probes else None
    return replace(images, train=bank.images, probe=probe, image_size=image_size)


def _unknown(source: str, folder: Path) -> FileNotFoundError | NotADirectoryError:
    names = ", ".join(["builtin", *NAMED])
    if source and folder.exists():
        return NotADirectoryError(
            f"{source!r} is a file: give the folder that holds the images, unpacked, or one of "
            f"{names}."
        )
    here = f" (from here: {folder.absolute()})" if source and not folder.is_absolute() else ""
    return FileNotFoundError(
        f"{source!r} is neither a folder nor a known data set{here}.{nearest(source)} Give the "
        f"folder that holds the images, or one of {names}."
    )
