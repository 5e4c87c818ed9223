"""ImageNet, and what it shares with parts of it."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from amcl.data.file_dataset import MEAN, STD, dataset_from_files
from amcl.data.folder import label_by_folder
from amcl.data.images import DataSet
from amcl.data.listing import Listing, list_images
from amcl.data.named import NamedDataSet, register_dataset
from amcl.data.options import LoadOptions


def load_class_folders(
    root: Path,
    dataset: NamedDataSet,
    options: LoadOptions,
    *,
    list_validation: Callable[[Path, tuple[str, ...]], Listing],
) -> DataSet:
    """Load ImageNet or a part of it: train/ has a folder for each class."""
    folder = root / dataset.path
    if not (folder / "train").is_dir():
        raise dataset.missing_error(root)
    if options.probe == "test":
        raise ValueError(
            f"The labels of the test split of {folder.name} are not public: use "
            "probe='validation', which queries the validation split."
        )
    queries = None
    if options.reads_labels:
        train = _list_class_folders(folder / "train")
    else:
        train = list_images(folder / "train")
    if options.uses_labels:
        queries = list_validation(folder / "val", train.classes)
    options = replace(options, image_size=options.image_size or dataset.image_size)
    return dataset_from_files(
        folder.name, train, queries, options, mean=dataset.mean, std=dataset.std
    )


def _list_class_folders(folder: Path, classes: tuple[str, ...] = ()) -> Listing:
    listing = list_images(folder)
    parts = [os.path.relpath(path, folder).split(os.sep) for path in listing.paths]
    return label_by_folder(listing, parts, str(folder), "folders", classes)[0]


register_dataset(
    "imagenet",
    NamedDataSet(
        path="imagenet",
        instructions="get ILSVRC2012 from image-net.org (an account is needed) and unpack it to "
        "{root}/imagenet/train/<class>/ and {root}/imagenet/val/<class>/, a folder for each "
        "of the 1,000 classes.",
        image_size=224,
        mean=MEAN,
        std=STD,
        load=partial(load_class_folders, list_validation=_list_class_folders),
        has_test_labels=False,
        validation_source="split",
    ),
)
