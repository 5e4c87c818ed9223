"""Data sets by name: their location, and how they are read."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from amcl.data import cifar10
from amcl.data.file_dataset import MEAN, STD, dataset_from_files
from amcl.data.folder import label_by_folder
from amcl.data.images import DataSet, Images, Labeled, MemoryImages, Probe, Rgb
from amcl.data.listing import Listing, list_images
from amcl.data.options import LoadOptions
from amcl.data.split import choose_subset, hold_out, sample, split_train_validation

ValidationSource = Literal["split", "unused", "training"]


@dataclass(frozen=True, kw_only=True)
class NamedDataSet:
    """A data set that is known by its name.

    Args:
        path: Its path in the data folder.
        instructions: How to get it there; {root} is the data folder.
        image_size: Side of its images in pixels.
        mean: Mean of the channels, for values in [0, 1].
        std: Standard deviation of the channels.
        load: Function that reads it from the data folder.
        has_test_labels: True if the labels of its test split are public.
        validation_source: Origin of the images to validate on, see `validation_source`.
        other_path: Another path in the data folder that it is read from.
    """

    path: str
    instructions: str
    image_size: int
    mean: Rgb
    std: Rgb
    load: Callable[[Path, "NamedDataSet", LoadOptions], DataSet]
    has_test_labels: bool = True
    validation_source: ValidationSource = "training"
    other_path: str | None = None

    def exists(self, root: Path) -> bool:
        """Return whether it is in the data folder; nothing is read."""
        paths = [self.path] if self.other_path is None else [self.path, self.other_path]
        return any((root / path).exists() for path in paths)

    def missing_error(self, root: Path) -> FileNotFoundError:
        """Return the error for a set that is not in the data folder, with the way to get it."""
        instructions = self.instructions.format(root=root)
        return FileNotFoundError(f"{root / self.path} does not exist: {instructions}")


def data_root(root: Path | None = None) -> Path:
    """Return the folder of named data sets: the argument, else $AMCL_DATA, else ~/.cache/amcl."""
    return Path(root or os.environ.get("AMCL_DATA") or "~/.cache/amcl").expanduser()


def load_named(name: str, root: Path, options: LoadOptions) -> DataSet:
    """Load a data set by its name; it must be in `root` already."""
    dataset = NAMED[name]
    return replace(dataset.load(root, dataset, options), name=name)


def missing_sets(names: Sequence[str], root: str | Path | None = None) -> list[str]:
    """Return messages on the data sets that are missing, with the way to get them.

    Args:
        names: Names of data sets, or folders.
        root: The data folder; else $AMCL_DATA, else ~/.cache/amcl.

    Returns:
        A message for each set that is missing; nothing is read.

    Example:
        >>> missing_sets(["builtin", "no/such/folder"])
        ["There is no folder 'no/such/folder'."]
    """
    folder = data_root(Path(root) if root else None)
    messages = []
    for name in names:
        if name in NAMED:
            if not NAMED[name].exists(folder):
                messages.append(str(NAMED[name].missing_error(folder)))
        elif name != "builtin" and not Path(name).expanduser().is_dir():
            messages.append(f"There is no folder {name!r}.")
    return messages


def _load_cifar10(root: Path, dataset: NamedDataSet, options: LoadOptions) -> DataSet:
    tensors = cifar10.read(root)
    if tensors is None:
        raise dataset.missing_error(root)
    return _from_tensors(dataset, tensors, cifar10.CLASSES, options)


def _load_cifar100(root: Path, dataset: NamedDataSet, options: LoadOptions) -> DataSet:
    from torchvision.datasets import CIFAR100  # type: ignore[import-untyped]

    if not (root / dataset.path).is_dir():
        raise dataset.missing_error(root)
    tensors, classes = cifar10.read_torchvision_cifar(CIFAR100, root)
    return _from_tensors(dataset, tensors, classes, options)


def _from_tensors(
    dataset: NamedDataSet,
    tensors: cifar10.Tensors,
    classes: tuple[str, ...],
    options: LoadOptions,
) -> DataSet:
    """Make a labeled set of two splits; for validation, training images are held out."""
    train = Labeled(MemoryImages(tensors["train_pixels"]), tensors["train_labels"].long())
    test = Labeled(MemoryImages(tensors["test_pixels"]), tensors["test_labels"].long())
    probe: Probe | None
    if options.uses_labels and options.probe == "validation":
        count = min(options.validation, len(train.labels) // 10)
        train_indices, held_out = split_train_validation(
            train.labels, count, options.seed, options.subset
        )
        queries = train.subset(held_out)
        train = train.subset(train_indices)
        bank_size = options.bank_size(len(train.labels))
        bank = train.subset(sample(len(train.labels), bank_size, options.seed))
        probe = Probe(bank, queries, classes, "validation")
    else:
        train = train.subset(choose_subset(train.labels, options.subset))
        probe = Probe(train, test, classes, "test") if options.uses_labels else None
    return _data_set(dataset, train.images, probe, options)


def _data_set(
    dataset: NamedDataSet, train: Images, probe: Probe | None, options: LoadOptions
) -> DataSet:
    options.check_canvas(train)
    return DataSet(
        name="",
        train=train,
        probe=probe,
        image_size=options.image_size or dataset.image_size,
        mean=dataset.mean,
        std=dataset.std,
    )


STL10_CLASSES = (
    *("airplane", "bird", "car", "cat", "deer"),
    *("dog", "horse", "monkey", "ship", "truck"),
)
STL10_COUNTS = {"unlabeled": 100_000, "train": 5_000, "test": 8_000}


def _load_stl10(root: Path, dataset: NamedDataSet, options: LoadOptions) -> DataSet:
    """Load the unlabeled images to train on; the labeled training images are the bank."""
    folder = root / dataset.path
    if not folder.is_dir():
        raise dataset.missing_error(root)
    probe = None
    if options.uses_labels:
        bank = Labeled(_stl10_images(folder, "train"), _stl10_labels(folder, "train"))
        if options.split == "test":
            queries = Labeled(_stl10_images(folder, "test"), _stl10_labels(folder, "test"))
        else:  # not trained on, so that more can be held out than of images that are
            count = min(options.validation, len(bank.labels) // 5)
            remaining, held_out = hold_out(bank.labels, count, options.seed)
            queries = bank.subset(held_out)
            bank = bank.subset(remaining)
        probe = Probe(bank, queries, STL10_CLASSES, options.split)
    images = _stl10_images(folder, "unlabeled")
    chosen = choose_subset(torch.zeros(len(images)), options.subset)
    return _data_set(dataset, images.subset(chosen), probe, options)


def _stl10_images(folder: Path, split: str) -> MemoryImages:
    """Map images from the file: the system keeps the parts in use, once for all processes."""
    count = STL10_COUNTS[split]
    flat = _stl10_bytes(folder / f"{split}_X.bin", count * 3 * 96 * 96)
    return MemoryImages(flat.view(count, 3, 96, 96).transpose(2, 3))  # stored column by column


def _stl10_labels(folder: Path, split: str) -> torch.Tensor:
    return _stl10_bytes(folder / f"{split}_y.bin", STL10_COUNTS[split]).long() - 1


def _stl10_bytes(path: Path, size: int) -> torch.Tensor:
    actual = path.stat().st_size if path.is_file() else 0
    if actual != size:
        raise ValueError(
            f"{path} must be {size:,} bytes, found {actual:,}: remove {path.parent} and run "
            "`amcl data stl10` again."
        )
    return torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)


def _load_wordnet_folders(
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
    if options.uses_labels:
        train = _list_class_folders(folder / "train")
        queries = list_validation(folder / "val", train.classes)
    else:
        train = list_images(folder / "train")
    options = replace(options, image_size=options.image_size or dataset.image_size)
    return dataset_from_files(
        folder.name, train, queries, options, mean=dataset.mean, std=dataset.std
    )


def _list_class_folders(folder: Path, classes: tuple[str, ...] = ()) -> Listing:
    listing = list_images(folder)
    parts = [os.path.relpath(path, folder).split(os.sep) for path in listing.paths]
    return label_by_folder(listing, parts, str(folder), "folders", classes)[0]


def _list_annotated(folder: Path, classes: tuple[str, ...]) -> Listing:
    """List Tiny ImageNet's val/images, whose classes are in val_annotations.txt."""
    annotations = folder / "val_annotations.txt"
    if not annotations.is_file():
        raise FileNotFoundError(
            f"{annotations} does not exist: unpack the whole archive again, it holds the labels "
            "of the validation images."
        )
    index = {name: number for number, name in enumerate(classes)}
    paths = []
    labels = []
    for line in annotations.read_text().splitlines():
        name, wordnet_id, *_ = line.split("\t")
        if wordnet_id not in index:
            raise ValueError(
                f"{annotations} names the class {wordnet_id}, which has no folder in "
                f"{folder.parent / 'train'}: unpack the whole archive again."
            )
        paths.append(str(folder / "images" / name))
        labels.append(index[wordnet_id])
    return Listing(paths).with_labels(labels, classes)


_DOWNLOAD = (
    "run `amcl data {name} --root {{root}}`, or give the folder that it is in with --data-root."
)

NAMED: dict[str, NamedDataSet] = {
    "cifar10": NamedDataSet(
        path=cifar10.FILE,
        instructions=_DOWNLOAD.format(name="cifar10"),
        image_size=32,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        load=_load_cifar10,
        other_path=cifar10.BATCHES,
    ),
    "cifar100": NamedDataSet(
        path="cifar-100-python",
        instructions=_DOWNLOAD.format(name="cifar100"),
        image_size=32,
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        load=_load_cifar100,
    ),
    "stl10": NamedDataSet(
        path="stl10_binary",
        instructions=_DOWNLOAD.format(name="stl10"),
        image_size=96,
        mean=(0.4467, 0.4398, 0.4066),
        std=(0.2603, 0.2566, 0.2713),
        load=_load_stl10,
        validation_source="unused",
    ),
    "tinyimagenet": NamedDataSet(
        path="tiny-imagenet-200",
        instructions="get cs231n.stanford.edu/tiny-imagenet-200.zip and unpack it in {root}.",
        image_size=64,
        mean=(0.4802, 0.4481, 0.3975),
        std=(0.2770, 0.2691, 0.2821),
        load=partial(_load_wordnet_folders, list_validation=_list_annotated),
        has_test_labels=False,
        validation_source="split",
    ),
    "imagenet": NamedDataSet(
        path="imagenet",
        instructions="get ILSVRC2012 from image-net.org (an account is needed) and unpack it to "
        "{root}/imagenet/train/<class>/ and {root}/imagenet/val/<class>/, a folder for each "
        "of the 1,000 classes.",
        image_size=224,
        mean=MEAN,
        std=STD,
        load=partial(_load_wordnet_folders, list_validation=_list_class_folders),
        has_test_labels=False,
        validation_source="split",
    ),
}
