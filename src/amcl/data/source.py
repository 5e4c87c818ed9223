"""Sources of images, each stored in one way: their splits, labels and loading."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from amcl.data.file_dataset import dataset_from_files
from amcl.data.images import DataSet
from amcl.data.listing import Listing
from amcl.data.options import Labels, LoadOptions, missing_labels
from amcl.data.split_folders import Role
from amcl.printable import counted
from amcl.registry import Registry

_USES: dict[Role, str] = {
    "train": "taken for training",
    "validation": "kept for validation",
    "test": "kept for evaluation",
}


@dataclass(frozen=True)
class Catalog:
    """All images of a source, whatever their split."""

    listing: Listing
    names: list[str]
    """Names below the source."""
    paths: list[str]
    """Absolute paths of the files; empty if images have no files of their own."""
    labels: list[str]
    """Class of each image, "" if it has none; empty if no image has one."""


class Source(ABC):
    """Images of a user that are stored in one way: as files in folders, in shards, in tables."""

    @classmethod
    @abstractmethod
    def find(cls, path: str) -> Self | None:
        """Return the images that a path stands for; None if they are not stored in this way."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the data set."""

    @property
    @abstractmethod
    def key(self) -> tuple[str, ...]:
        """What is the same for two paths of the same images."""

    @abstractmethod
    def has(self, role: Role) -> bool:
        """Return whether there is such a split, next to one to train on."""

    @abstractmethod
    def where(self, role: Role, *, short: bool = False) -> str:
        """Return the files or folders of a split in words, by their names if `short`."""

    @abstractmethod
    def listings(self) -> dict[Role, Listing]:
        """Return the images of each split; without one to train on, that of all other images."""

    @abstractmethod
    def label(
        self, role: Role, listing: Listing, mode: Labels, classes: tuple[str, ...] = ()
    ) -> tuple[Listing, str]:
        """Label the images of a split.

        Args:
            role: The split.
            listing: Its images.
            mode: "folders" raises an error if the images have no classes, "auto" gives the reason.
            classes: Classes of the training split, if this is another one: it may have no others.

        Returns:
            The labeled images and "", or the images as they are and the reason why not.
        """

    @abstractmethod
    def parts(self, listing: Listing) -> list[list[str]]:
        """Return the parts of the name of each image below its split: folders, and its own name."""

    @abstractmethod
    def catalog(self) -> Catalog:
        """Return all images with their names and classes."""

    @property
    @abstractmethod
    def how_to_label(self) -> str:
        """What a user does so that all images have labels."""

    def warnings(self, listings: dict[Role, Listing]) -> list[str]:
        """Return messages on what may not be as the user means it."""
        return [line for listing in listings.values() for line in listing.warnings]

    def load(self, options: LoadOptions) -> DataSet:
        """Load the images to train on, and those to probe with.

        Without a validation split, and with labels, some images are held out to probe with.
        """
        listings = self.listings()
        if options.probe == "test" and not (self.has("test") and len(listings["test"])):
            raise ValueError(self.no_test_split)
        train, queries, reason = self._label_splits(listings, options)
        notes = [*self._notes(listings), *([reason] if reason else [])]
        data = dataset_from_files(self.name, train, queries, options, notes=notes)
        return replace(data, warnings=tuple(self.warnings(listings)))

    @property
    @abstractmethod
    def no_test_split(self) -> str:
        """The message for a test on images that have no test split."""

    def _label_splits(
        self, listings: dict[Role, Listing], options: LoadOptions
    ) -> tuple[Listing, Listing | None, str]:
        """Return images to train on, those of a split to probe with, and why no labels are used."""
        unlabeled = listings["train"]
        if not options.reads_labels:
            return unlabeled, None, ""
        mode = options.labels
        queries = None
        train, reason = self.label("train", unlabeled, mode)
        split = options.split
        if options.uses_labels and self.has(split) and len(listings[split]) and not reason:
            queries, reason = self.label(split, listings[split], mode, train.classes)
            if reason:
                train = unlabeled
                queries = None
                reason = f"{self.where(split)}: {reason}"
        if options.train_labels and reason:
            raise ValueError(missing_labels(reason.removesuffix(": taken as unlabeled")))
        if options.probe == "test" and reason:
            raise ValueError(
                f"probe='test' needs labels: {reason}. {self.how_to_label}, or use probe='none'."
            )
        return train, queries, reason

    def _notes(self, listings: dict[Role, Listing]) -> list[str]:
        """Return a note on the use of each split."""
        if not self.has("train"):
            return []
        parts = [
            f"{self.where(role, short=True)}: {counted(len(listing), 'image')} {_USES[role]}"
            for role, listing in listings.items()
        ]
        return ["; ".join(parts)]


S = TypeVar("S", bound=type[Source])

SOURCES = Registry[type[Source]]("way to store images", "amcl.data.sources", "amcl.sources")
"""The ways to store images other than as files in folders."""


def register_source(name: str) -> Callable[[S], S]:
    """Register a way to store images, so that `--data` takes it.

    A package lists modules that register some in the entry-point group ``amcl.sources``.

    Args:
        name: Its name.

    Returns:
        A decorator of the class, whose `find` recognizes paths.
    """

    def register(source: S) -> S:
        SOURCES.register(name, source)
        return source

    return register


def packed_source(path: str) -> Source | None:
    """Return the images that a path stands for if they are not files in a folder."""
    sources = (source.find(path) for source in SOURCES.values())
    return next((source for source in sources if source is not None), None)
