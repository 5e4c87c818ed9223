"""Folders that are the training, validation and test split of a folder, by their names."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from amcl.data.listing import folder_id, has_images, is_hidden, parent_ids

Role = Literal["train", "validation", "test"]

NAMES: dict[Role, tuple[str, ...]] = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
_LOOKALIKE = re.compile(
    rf"({'|'.join([*(n for names in NAMES.values() for n in names), 'eval', 'holdout'])})"
    r"([\W\d_].*|sets?|data|images)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Splits:
    """The split folders of a folder, each in it or one level down.

    Args:
        root: The folder.
        train: Folders to train on; empty if the rest of `root` is trained on.
        validation: Folders to validate on.
        test: Folders to test on.
        unused: Other spellings next to a split, such as valid/ next to val/; they are ignored.
        lookalikes: Folders whose names look like that of a split, but are not taken as one.
    """

    root: Path
    train: tuple[Path, ...] = ()
    validation: tuple[Path, ...] = ()
    test: tuple[Path, ...] = ()
    unused: tuple[Path, ...] = ()
    lookalikes: tuple[Path, ...] = ()

    @property
    def not_trained_on(self) -> tuple[Path, ...]:
        """Folders that are never trained on."""
        return (*self.validation, *self.test, *self.unused)

    def folders(self, role: Role) -> tuple[Path, ...]:
        """Return the folders of a split."""
        folders: tuple[Path, ...] = getattr(self, role)
        return folders

    def has(self, role: Role) -> bool:
        """Return whether there is such a split, next to one to train on."""
        return bool(self.train and self.folders(role))

    def parts(self, path: str) -> list[str]:
        """Split a path below its split folder, or below <folder>/<split> if there are several."""
        roots = (*self.train, *self.not_trained_on) if self.train else (self.root,)
        root = next(root for root in roots if path.startswith(str(root) + os.sep))
        parts = os.path.relpath(path, root).split(os.sep)
        return parts if len(self.train) < 2 else [root.parent.name, *parts]

    def name(self, path: Path) -> str:
        """Return the name of a folder in messages."""
        return f"{os.path.relpath(path, self.root)}/"


def find_splits(root: Path) -> Splits:
    """Find the splits of a folder: train/ next to test/ or val/, in any usual spelling.

    They are in the folder itself or, if it has no train/, in the folders in it. train/ alone is a
    split if nothing else holds images: else it may be a class, of railways say.
    """
    outer = parent_ids(root) | {folder_id(root)}
    folders = [path for path in _folders(root) if folder_id(path) not in outer]
    splits = _by_name(root, folders)
    if not splits.train:
        others = [path for path in folders if path not in splits.not_trained_on]
        deeper = [path for other in others for path in _folders(other) if _may_be_split(path)]
        splits = _merge(splits, _by_name(root, deeper))
    only_train = splits.train and not (splits.validation or splits.test)
    candidates = (*splits.train, *splits.unused, *splits.lookalikes)
    if only_train and has_images(root, exclude=candidates):
        return Splits(root, lookalikes=candidates)
    return splits


def role_of(name: str) -> Role | None:
    """Return the split that a folder of this name is; None if it is no name of a split."""
    return next((role for role, names in NAMES.items() if name.lower() in names), None)


def _folders(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            names = [e.name for e in entries if not is_hidden(e.name) and e.is_dir()]
    except OSError:  # reported when its files are listed
        return []
    return [root / name for name in sorted(names)]


def _by_name(root: Path, folders: Iterable[Path]) -> Splits:
    """Sort folders by the role that their names give them, one of each role in a folder."""
    by_role: dict[tuple[Path, Role], list[Path]] = {}
    lookalikes = []
    for folder in folders:
        role = role_of(folder.name)
        if role is not None:
            by_role.setdefault((folder.parent, role), []).append(folder)
        elif _LOOKALIKE.fullmatch(folder.name):
            lookalikes.append(folder)
    chosen: dict[Role, list[Path]] = {role: [] for role in get_args(Role)}
    unused: list[Path] = []
    for (_, role), paths in by_role.items():
        names = NAMES[role]
        first, *others = sorted(paths, key=lambda path: names.index(path.name.lower()))
        chosen[role].append(first)
        unused += others
    roles = {role: tuple(paths) for role, paths in chosen.items()}
    return Splits(root, **roles, unused=tuple(unused), lookalikes=tuple(lookalikes))


def _merge(first: Splits, second: Splits) -> Splits:
    names = ("train", "validation", "test", "unused", "lookalikes")
    return Splits(first.root, *(getattr(first, name) + getattr(second, name) for name in names))


def _may_be_split(path: Path) -> bool:
    is_split_name = role_of(path.name) is not None or _LOOKALIKE.fullmatch(path.name) is not None
    return is_split_name and has_images(path)  # labels/train next to images/train has none
