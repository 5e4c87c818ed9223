"""Images that are packed into large files, which may have labels: what all such sources share."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from numpy.typing import NDArray

from amcl.data.folder import label_by_folder
from amcl.data.listing import Listing, has_images, is_hidden, is_picture_name
from amcl.data.options import Labels
from amcl.data.patterns import matching_files
from amcl.data.records import Record
from amcl.data.source import Catalog, Source
from amcl.data.split_folders import Role, role_of
from amcl.files import expand_home
from amcl.text_files import parse_json

NO_LABEL = -1
_WORD = re.compile(r"[a-z]+")
_NAMED = 3  # files that are named in words on a split


class PackedRecords(ABC):
    """Encoded images that may have labels: texts, each with a number."""

    texts: tuple[str, ...]
    """Different texts of labels."""

    @property
    @abstractmethod
    def labels(self) -> NDArray[Any]:
        """Number (N,) in `texts` of the label of each image; `NO_LABEL` for none."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Record: ...

    @abstractmethod
    def member(self, index: int) -> str:
        """Return the name of an image in its file."""

    @abstractmethod
    def select(self, indices: torch.Tensor) -> Self:
        """Return the images with these indices, in their order."""

    @abstractmethod
    def fingerprint(self) -> Iterator[bytes]:
        """Yield what changes with any image, its file and the order."""

    @abstractmethod
    def identity(self) -> Iterator[bytes]:
        """Yield what changes with any image and the order, but not where they are stored."""


class PackedSource(Source):
    """Large files that hold images.

    Splits are those of their names, or of the folders that they are in: train-0000.tar, val/0.tar.

    Args:
        location: A folder, a file, or a pattern of files.
    """

    endings: ClassVar[tuple[str, ...]]
    label_kind: ClassVar[str]
    """Where labels are, in words."""

    def __init__(self, location: str) -> None:
        self.location = location

    @classmethod
    def find(cls, path: str) -> Self | None:
        """Return the files that a path stands for; None if they are not of this kind."""
        folder = expand_home(path)
        if path and folder.is_dir():
            is_packed = packed_files(folder, cls.endings) and not has_images(folder, arrays=False)
            return cls(path) if is_packed else None
        return cls(path) if path.endswith(cls.endings) else None

    @abstractmethod
    def open(self, files: Sequence[Path]) -> Listing:
        """List the images in some files; its records are `PackedRecords`."""

    @cached_property
    def files(self) -> list[Path]:
        """All files, or an error if there are none."""
        folder = expand_home(self.location)
        if folder.is_dir():
            return packed_files(folder, self.endings)
        return matching_files(self.location)

    @cached_property
    def root(self) -> Path:
        """The folder that all files are in or below."""
        folder = expand_home(self.location)
        if folder.is_dir():
            return folder
        return Path(os.path.commonpath([file.parent for file in self.files]))

    @cached_property
    def by_role(self) -> dict[Role | None, list[Path]]:
        """The files by the split that their names say; None for others."""
        files: dict[Role | None, list[Path]] = {}
        for file in self.files:
            files.setdefault(role_of_file(file, self.root), []).append(file)
        return files

    @property
    def name(self) -> str:
        """Name of the file if it is one, or of the folder."""
        single = len(self.files) == 1 and not expand_home(self.location).is_dir()
        return self.files[0].stem if single else self.root.absolute().name

    @property
    def key(self) -> tuple[str, ...]:
        """Paths of the files without links."""
        try:
            return tuple(str(file.resolve()) for file in self.files)
        except FileNotFoundError:  # they are elsewhere now
            return (str(expand_home(self.location).resolve()),)

    @property
    def how_to_label(self) -> str:
        """What a user does so that all images have labels."""
        return f"Give every image a label ({self.label_kind})"

    @property
    def no_test_split(self) -> str:
        """The message for a test on files that have no test split."""
        return (
            f"{self.location} has no test split: name its files test-…{self.endings[0]} next to "
            f"train-…{self.endings[0]}, or use probe='validation'."
        )

    def has(self, role: Role) -> bool:
        """Return whether there is such a split, next to one to train on."""
        return "train" in self.by_role and role in self.by_role

    def where(self, role: Role, *, short: bool = False) -> str:
        """Return the first files of a split in words."""
        files = self._splits()[role]
        names = [os.path.relpath(file, self.root) if short else str(file) for file in files]
        more = [f"… ({len(names) - _NAMED + 1:,} more)"] if len(names) > _NAMED else []
        return ", ".join([*names[: _NAMED - bool(more)], *more])

    def listings(self) -> dict[Role, Listing]:
        """List the images of each split."""
        listings = {role: self.open(files) for role, files in self._splits().items()}
        if not len(listings["train"]):
            train = listings["train"]
            reasons = [*(f"{name} ({reason})" for name, reason in train.unreadable[:5])]
            raise ValueError(
                f"No images in {self.where('train')}: {'; '.join([*reasons, *train.warnings])}."
            )
        return listings

    def label(
        self, role: Role, listing: Listing, mode: Labels, classes: tuple[str, ...] = ()
    ) -> tuple[Listing, str]:
        """Label images by the labels that are stored with them, or by the folders in their names.

        The folders count where no image has a label, and where `mode` says so.
        """
        records = listing.records
        assert isinstance(records, PackedRecords)
        missing = int((records.labels == NO_LABEL).sum())
        if mode == "folders" or missing == len(records):
            parts = self.parts(listing)
            labeled, reason = label_by_folder(listing, parts, self.where(role), mode, classes)
            return labeled, f"there are no labels ({self.label_kind}), and {reason}" * bool(reason)
        if missing:
            return listing, (
                f"{missing:,} of {len(records):,} images have no label ({self.label_kind}): taken "
                "as unlabeled"
            )
        names = self._class_names(records)
        classes = classes or tuple(dict.fromkeys(names.values()))
        if len(classes) < 2:
            return listing, f"there is one class, {classes[0]}, and accuracies need two: taken " + (
                "as unlabeled"
            )
        index = {name: number for number, name in enumerate(classes)}
        if unknown := [name for name in names.values() if name not in index]:
            raise ValueError(
                f"{self.where(role)} has the classes {', '.join(unknown[:5])}, which the training "
                "split has not: label its images as there, or use labels='none'."
            )
        table = [index[names[text]] if text in names else NO_LABEL for text in records.texts]
        return listing.with_labels([table[number] for number in records.labels], classes), ""

    def parts(self, listing: Listing) -> list[list[str]]:
        """Return the parts of the name of each image in its file."""
        records = listing.records
        assert isinstance(records, PackedRecords)
        return [records.member(index).split("/") for index in range(len(records))]

    def catalog(self) -> Catalog:
        """Return the images of all files, with their classes."""
        listing = self.open(self.files)
        records = listing.records
        assert isinstance(records, PackedRecords)
        root = f"{self.root}{os.sep}"
        labels = []
        if (records.labels != NO_LABEL).any():
            names = self._class_names(records)
            texts = [names.get(text, "") for text in (*records.texts, "")]  # the last for NO_LABEL
            labels = [texts[number] for number in records.labels]
        elif (labeled := self.label("train", listing, "auto")[0]).labels is not None:
            labels = [labeled.classes[number] for number in labeled.labels.tolist()]
        return Catalog(
            listing, [name.removeprefix(root) for name in listing.paths], paths=[], labels=labels
        )

    def warnings(self, listings: dict[Role, Listing]) -> list[str]:
        """Return messages on files that are not read or not trained on."""
        lines = super().warnings(listings)
        unnamed = self.by_role.get(None, [])
        if "train" in self.by_role and unnamed:
            lines.append(
                f"{unnamed[0].name} and files like it ({len(unnamed):,}) are not used: their names "
                "say no split, and those of others do."
            )
        elif "train" not in self.by_role and unnamed:
            lines += [
                f"{self.where(role, short=True)} looks like a {role} split and is not trained on."
                for role in self._splits()
                if role != "train"
            ]
        return lines

    def _splits(self) -> dict[Role, list[Path]]:
        """Return the files of each split."""
        splits = {role: files for role, files in self.by_role.items() if role is not None}
        if "train" in splits:
            return splits
        if None in self.by_role:
            return {"train": self.by_role[None], **splits}
        if len(splits) == 1 and not expand_home(self.location).is_dir():
            return {"train": self.files}  # a user who names one split means it
        raise ValueError(
            f"{self.location} has no files to train on, but those of the splits "
            f"{', '.join(splits)}: name the files themselves to train on them all the same, as in "
            f"--data '{self.root}/{next(iter(splits.values()))[0].name}'."
        )

    def _class_names(self, records: PackedRecords) -> dict[str, str]:
        """Return the classes of the texts in use, sorted; numbers may have names in a file."""
        texts = [records.texts[number] for number in sorted({*records.labels.tolist()} - {-1})]
        if not all(text.isdecimal() for text in texts):
            return {text: text for text in sorted(texts)}
        texts = sorted(texts, key=int)
        path, names = class_names(self.root)
        if path is None:
            return {text: str(int(text)) for text in texts}
        if int(texts[-1]) >= len(names):
            raise ValueError(
                f"{path} has {len(names):,} names, and there are labels up to {texts[-1]}, counted "
                "from 0: add the missing names, or remove the file."
            )
        return {text: names[int(text)] for text in texts}


def packed_files(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return the files with some endings in a folder and in its folders, sorted.

    Args:
        folder: The folder.
        endings: Endings of names.

    Returns:
        The files; none if images lie beside them.
    """
    files = []
    folders = [str(folder)]
    for number, path in enumerate(folders):  # grows by the folders in the first one
        try:
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError:  # reported when its files are listed
            continue
        for entry in entries:
            if is_hidden(entry.name):
                continue
            if entry.name.endswith(endings) and entry.is_file():
                files.append(Path(entry.path))
            elif is_picture_name(entry.name):
                return []
            elif number == 0 and entry.is_dir():
                folders.append(entry.path)
    return sorted(files)


def role_of_file(file: Path, root: Path) -> Role | None:
    """Return the split that a file is of, by the folders below `root` and the words in its name.

    >>> role_of_file(Path("s/imagenet-train-0001.tar"), Path("s"))
    'train'
    """
    *folders, name = file.relative_to(root).parts
    words = [*folders, *_WORD.findall(name.lower())]
    return next((role for word in words if (role := role_of(word)) is not None), None)


def class_names(folder: Path) -> tuple[Path | None, list[str]]:
    """Return the file with the names of classes in a folder, and the names, that of class 0 first.

    Args:
        folder: The folder, or that of a split in it. The file is classes.json, a table whose entry
            "classes" is a list of names, or classes.txt, with a name on each line.
    """
    path = folder / "classes.json"
    if path.is_file():
        names = parse_json(path.read_text("utf-8"), str(path)).get("classes")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f'{path} has no list of names as "classes".')
        return path, names
    path = folder / "classes.txt"
    if path.is_file():
        return path, path.read_text("utf-8").splitlines()
    return class_names(folder.parent) if role_of(folder.name) is not None else (None, [])
