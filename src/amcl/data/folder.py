"""A folder of images, nested in any way, with or without splits and classes."""

import os
from pathlib import Path
from typing import Self

from amcl.data.images import DataSet
from amcl.data.listing import Listing, has_images, list_images
from amcl.data.options import Labels, LoadOptions
from amcl.data.records import FileRecords
from amcl.data.source import Catalog, Source
from amcl.data.split_folders import Role, Splits, find_splits, role_of
from amcl.files import expand_home


class Folder(Source):
    """A folder of image files.

    Args:
        root: The folder.
        splits: Its splits; by default those that it has by the names of its folders.
    """

    how_to_label = "Sort the images into <class>/<file>, or use labels='folders'"

    def __init__(self, root: Path, splits: Splits | None = None) -> None:
        self.root = root
        self.splits = find_splits(root) if splits is None else splits

    @classmethod
    def find(cls, path: str) -> Self | None:
        """Return the folder at a path; None if there is none."""
        root = expand_home(path)
        return cls(root) if path and root.is_dir() else None  # "" would be the working folder

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.root.absolute().name

    @property
    def key(self) -> tuple[str, ...]:
        """Path of the folder without links."""
        return (str(self.root.resolve()),)

    @property
    def no_test_split(self) -> str:
        """The message for a test on a folder without a test split."""
        return (
            f"{self.root} has no test split: put one in {self.root / 'test'} next to "
            f"{self.root / 'train'}, or use probe='validation'."
        )

    def has(self, role: Role) -> bool:
        """Return whether there is such a split, next to one to train on."""
        return self.splits.has(role)

    def where(self, role: Role, *, short: bool = False) -> str:
        """Return the folders of a split, or the folder itself."""
        folders = self.splits.folders(role)
        name = self.splits.name if short else str
        return ", ".join(map(name, folders)) or str(self.root)

    def load(self, options: LoadOptions) -> DataSet:
        """Load the images to train on, and those to probe with."""
        folder = self.for_labels(options.labels)
        return super().load(options) if folder is self else folder.load(options)

    def for_labels(self, mode: Labels) -> "Folder":
        """Return the folder as it is read with `--labels`: without splits if all are classes."""
        if mode == "folders" and not self.splits.train and self.splits != Splits(self.root):
            # All its folders are meant as classes, whatever their names are.
            return Folder(self.root, Splits(self.root))
        return self

    def listings(self) -> dict[Role, Listing]:
        """List the images of each split; without one to train on, it is all other images."""
        return _list_splits(self.splits)

    def label(
        self, role: Role, listing: Listing, mode: Labels, classes: tuple[str, ...] = ()
    ) -> tuple[Listing, str]:
        """Label images by the folders of the first level."""
        return label_by_folder(listing, self.parts(listing), self.where(role), mode, classes)

    def parts(self, listing: Listing) -> list[list[str]]:
        """Return the parts of the path of each file below its split."""
        return [self.splits.parts(path) for path in listing.paths]

    def warnings(self, listings: dict[Role, Listing]) -> list[str]:
        """Return messages on folders that look like splits, and on files that are not read."""
        return [*super().warnings(listings), *_warnings(self.splits)]

    def catalog(self) -> Catalog:
        """Return all images, with classes by folders, for each split by itself."""
        listing = list_images(self.root)
        paths = listing.paths
        return Catalog(
            listing,
            names=[os.path.relpath(path, self.root) for path in paths],
            paths=[os.path.abspath(path) for path in paths],
            labels=self._class_names(paths),
        )

    def _class_names(self, paths: list[str]) -> list[str]:
        """Return the class of each image, "" if it has none; nothing if no image has one."""
        splits = self.splits
        names: dict[str, str] = {}
        for root in (*splits.train, *splits.not_trained_on) if splits.train else (self.root,):
            inside = [path for path in paths if Path(path).is_relative_to(root)]
            if not inside:
                continue
            parts = [splits.parts(path) for path in inside]
            listing, _ = label_by_folder(Listing(FileRecords(inside)), parts, str(root), "auto")
            if listing.labels is not None:
                classes = [listing.classes[index] for index in listing.labels.tolist()]
                names |= dict(zip(inside, classes, strict=True))
        return [names.get(path, "") for path in paths] if names else []


def label_by_folder(
    listing: Listing,
    parts: list[list[str]],
    where: str,
    mode: Labels,
    classes: tuple[str, ...] = (),
) -> tuple[Listing, str]:
    """Label image files by the folders of the first level.

    Args:
        listing: Image files.
        parts: Parts of the path of each file below the split.
        where: The split in messages.
        mode: "folders" raises an error if the files have no classes, "auto" gives the reason.
        classes: Classes of the training split, if this is another one: it may have no others.

    Returns:
        The labeled files and "", or the files as they are and the reason why they have no labels.
    """
    loose = [path for path, part in zip(listing.paths, parts, strict=True) if len(part) == 1]
    names = tuple(sorted({part[0] for part in parts if len(part) > 1}))
    if mode == "folders":
        _require_classes(loose, names, where, classes)
    elif reason := _why_unlabeled(parts, names, classes):
        return listing, reason
    classes = classes or names
    index = {name: number for number, name in enumerate(classes)}
    unknown = [name for name in names if name not in index]
    if unknown:
        raise ValueError(
            f"{where} has the classes {', '.join(unknown[:5])}, which the training split has not: "
            "name its folders as there, or use labels='none'."
        )
    return listing.with_labels([index[part[0]] for part in parts], classes), ""


def _list_splits(splits: Splits) -> dict[Role, Listing]:
    """List the images of each split; without one to train on, it is all other images."""
    excluded = splits.not_trained_on
    if excluded and not splits.train and not has_images(splits.root, exclude=excluded):
        names = ", ".join(map(splits.name, excluded))
        raise ValueError(
            f"{splits.root} has no images but those in {names}, which looks like a test or "
            f"validation split: use --data {excluded[0]} to train on it all the same."
        )
    train = [list_images(path, exclude=excluded) for path in splits.train or (splits.root,)]
    listings: dict[Role, Listing] = {"train": _merge(train)}
    roles: tuple[Role, ...] = ("validation", "test")
    for role in roles:
        if paths := splits.folders(role):
            listings[role] = _merge([list_images(path, allow_empty=True) for path in paths])
    return listings


def _merge(listings: list[Listing]) -> Listing:
    return Listing(
        FileRecords(sorted(path for listing in listings for path in listing.paths)),
        unreadable=tuple(file for listing in listings for file in listing.unreadable),
        warnings=tuple(line for listing in listings for line in listing.warnings),
    )


def _require_classes(
    loose: list[str], names: tuple[str, ...], where: str, classes: tuple[str, ...]
) -> None:
    if loose:
        raise ValueError(
            f"labels='folders' takes the folders in {where} as classes, but {loose[0]} lies in "
            "none: move it into one, or use labels='none'."
        )
    if len(names) < 2 and not classes:
        raise ValueError(
            f"labels='folders' needs at least 2 folders in {where} as classes, found "
            f"{', '.join(names)}: use labels='none'."
        )


def _why_unlabeled(parts: list[list[str]], names: tuple[str, ...], classes: tuple[str, ...]) -> str:
    if any(len(part) != 2 for part in parts):
        return "the images do not all lie in <class>/<file>: taken as unlabeled"
    if len(names) < 2 and not classes:
        return f"there is one class, {names[0]}/, and accuracies need two: taken as unlabeled"
    return ""


def _warnings(splits: Splits) -> list[str]:
    """Return messages on folders that look like splits."""
    lines = []
    roles: tuple[Role, ...] = () if splits.train else ("validation", "test")
    for role in roles:
        for path in splits.folders(role):
            lines.append(
                f"{splits.name(path)} looks like a {role} split and is not trained on. If it is a "
                f"class, use --labels folders; to train on it alone, use --data {path}."
            )
    for path in splits.unused:
        lines.append(f"{splits.name(path)} is not used: another folder is taken for that split.")
    use = "is not used" if splits.train else "is trained on"
    for path in splits.lookalikes:
        if role_of(path.name) is not None:
            lines.append(
                f"{splits.name(path)} is taken as a class, not as a split: there are images next "
                f"to it, and neither test/ nor val/. To train on it alone, use --data {path}."
            )
        else:
            lines.append(
                f"{splits.name(path)} looks like a split, but its name is none of train, val and "
                f"test: it {use}. Rename it if it is one."
            )
    return lines
