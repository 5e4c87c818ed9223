"""Data sets by name: where they are, how they are read, and their registry."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from amcl.data import cifar10
from amcl.data.images import DataSet, Images, Labeled, MemoryImages, PerChannel, Probe
from amcl.data.options import LoadOptions
from amcl.data.source import packed_source
from amcl.data.split import choose_subset, sample, split_train_validation
from amcl.files import expand_home
from amcl.registry import Registry

ValidationSource = Literal["split", "unused", "training"]
Report = Callable[[str], None]

DOWNLOAD = (
    "run `amcl data {name} --root {{root}}`, or give the folder that it is in with --data-root."
)
"""Instructions for a set that `amcl data` gets."""


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
        download: Function that puts it into the data folder and reports what it does; None if that
            is left to the user.
    """

    path: str
    instructions: str
    image_size: int
    mean: PerChannel
    std: PerChannel
    load: Callable[[Path, "NamedDataSet", LoadOptions], DataSet]
    has_test_labels: bool = True
    validation_source: ValidationSource = "training"
    other_path: str | None = None
    download: Callable[[Path, Report], None] | None = None

    def exists(self, root: Path) -> bool:
        """Return whether it is in the data folder; nothing is read."""
        paths = [self.path] if self.other_path is None else [self.path, self.other_path]
        return any((root / path).exists() for path in paths)

    def missing_error(self, root: Path) -> FileNotFoundError:
        """Return the error for a set that is not in the data folder, with the way to get it."""
        instructions = self.instructions.format(root=root)
        return FileNotFoundError(f"{root / self.path} does not exist: {instructions}")


DATASETS = Registry[NamedDataSet]("data set", "amcl.data.sets", "amcl.datasets")
"""All data sets that have a name."""


def register_dataset(name: str, dataset: NamedDataSet) -> None:
    """Register a data set, so that `--data NAME` takes it.

    A package lists modules that register data sets in the entry-point group ``amcl.datasets``.

    Args:
        name: Name of the data set.
        dataset: Where it is, and how it is read.

    Example:
        >>> def load(root, dataset, options):
        ...     raise NotImplementedError
        >>> pets = NamedDataSet(
        ...     path="pets",
        ...     instructions="unpack pets.zip in {root}.",
        ...     image_size=128,
        ...     mean=(0.5, 0.5, 0.5),
        ...     std=(0.2, 0.2, 0.2),
        ...     load=load,
        ... )
        >>> register_dataset("pets", pets)
        >>> "pets" in DATASETS
        True
        >>> DATASETS.unregister("pets")
    """
    DATASETS.register(name, dataset, source=dataset.load)


def data_root(root: Path | None = None) -> Path:
    """Return the folder of named data sets: the argument, else $AMCL_DATA, else ~/.cache/amcl."""
    try:
        return expand_home(root or os.environ.get("AMCL_DATA") or "~/.cache/amcl")
    except ValueError as error:
        raise ValueError(f"{error} The variable AMCL_DATA names the data folder.") from None


def load_named(name: str, root: Path, options: LoadOptions) -> DataSet:
    """Load a data set by its name; it must be in `root` already."""
    dataset = DATASETS[name]
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
    messages = []
    for name in names:
        if name in DATASETS:
            folder = data_root(Path(root) if root else None)
            if not DATASETS[name].exists(folder):
                messages.append(str(DATASETS[name].missing_error(folder)))
        elif name != "builtin" and not (expand_home(name).is_dir() or packed_source(name)):
            messages.append(f"There is no folder {name!r}.")
    return messages


def from_tensors(
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
    return data_set(dataset, train.images, probe, options, train.labels)


def data_set(
    dataset: NamedDataSet,
    train: Images,
    probe: Probe | None,
    options: LoadOptions,
    labels: torch.Tensor | None = None,
) -> DataSet:
    """Return a data set of images in memory, with the size and statistics of a named one."""
    options.check_canvas(train)
    options.check_pixels(train)
    return DataSet(
        name="",
        train=train,
        labels=labels if options.train_labels else None,
        probe=probe,
        image_size=options.image_size or dataset.image_size,
        mean=dataset.mean,
        std=dataset.std,
    )
