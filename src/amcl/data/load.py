"""Loading of images from any source: a folder, a named data set, the built-in one."""

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from amcl.data.builtin import load_builtin
from amcl.data.file_dataset import choose_pixels, choose_sizes, read_headers
from amcl.data.images import DataSet, FileImages, Images, MemoryImages, PerChannel
from amcl.data.locate import find_source, has_test_split
from amcl.data.named import DATASETS, data_root, load_named
from amcl.data.options import (
    BANK,
    Channels,
    Labels,
    LoadOptions,
    ProbeSplit,
    missing_labels,
)
from amcl.data.pixel_format import PixelFormat, ValueRange

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
    channels: Channels = "auto",
    value_range: ValueRange | None = None,
    pixels: PixelFormat | None = None,
    normalization: tuple[PerChannel, PerChannel] | None = None,
) -> DataSet:
    """Load images to pre-train on.

    Args:
        source: A folder, shards, the name of a data set, or "builtin". A name comes first: write
            ./cifar10 for a folder with the name of a data set. Shards are a folder of them, or a
            pattern such as shards/{0000..0999}.tar.
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
        channels: Number of channels of the images. "auto" takes 8-bit pictures as RGB, and that of
            most files for others.
        value_range: Values that count as 0 and 1, of images with more than 8 bits. Default: by the
            bits in use; of fractions and signed values it is measured.
        pixels: Format of the pixels, for a model that was trained on others. Default: chosen by
            `channels`, `value_range` and the files.
        normalization: Mean and standard deviation of the channels. Default: those of a named set,
            those of ImageNet for 8-bit RGB; of other images they are measured.

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
        channels=channels,
        value_range=value_range,
        pixels=pixels,
        normalization=normalization,
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
    return find_source(source).load(options)


@dataclass(frozen=True)
class AllImages:
    """All images of a source. Files are not read yet, so that some may be unreadable."""

    images: Images
    names: list[str]
    """Paths below the folder, shard/name in shards, or split/number in a named data set."""
    paths: list[str]
    """Absolute paths of the files; empty if there are none."""
    labels: list[str]
    """Class of each image, "" if it has none; empty if no image has one."""


def load_all_images(
    source: str,
    *,
    root: Path | None = None,
    image_size: int,
    canvas: int | None = None,
    pixels: PixelFormat | None = None,
    channels: Channels = "auto",
) -> AllImages:
    """Load all images of a source, whatever their split, with their names and classes.

    Args:
        source: A folder, shards, the name of a data set, or "builtin".
        root: Folder of the named data sets; else $AMCL_DATA, else ~/.cache/amcl.
        image_size: Side of the model's input in pixels.
        canvas: Side of the square that images are decoded to; by default as in `load_dataset`.
        pixels: Format of the pixels, that of the images that a model was trained on; by default it
            is chosen by `channels` and the files.
        channels: Number of channels, as in `load_dataset`.

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
        pixels=pixels,
        channels=channels,
    )
    if source == "builtin" or source in DATASETS:
        return _all_named_images(source, root, options)
    catalog = find_source(source).catalog()
    for warning in catalog.listing.warnings:
        logger.warning(warning)
    records = catalog.listing.records
    headers = read_headers(records, options)
    stored, _ = choose_pixels(records, headers, options)
    _, side, _ = choose_sizes(headers.values(), options)
    return AllImages(
        images=FileImages(records, side, stored),
        names=catalog.names,
        paths=catalog.paths,
        labels=catalog.labels,
    )


def default_workers() -> int:
    """Return one process for each core that this process may use, at most 8.

    Returns:
        The number of processes that decode images by default.

    Example:
        >>> 1 <= default_workers() <= 8
        True
    """
    return min(8, usable_cores())


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
