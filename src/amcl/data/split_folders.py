"""Which folders of a folder are its training, validation and test split."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from amcl.data.walk import containing_folders, has_images, identity, is_hidden

Role = Literal["train", "validation", "test"]

NAMES: dict[Role, tuple[str, ...]] = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
_NEARLY = re.compile(
    rf"({'|'.join([*(n for names in NAMES.values() for n in names), 'eval', 'holdout'])})"
    r"([\W\d_].*|sets?|data|images)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Splits:
    """The split folders of a folder, each in it or one level down.

    - `train`: none where what is left of the folder is trained on;
    - `spare`: other spellings beside a split that was taken, used for nothing;
    - `alike`: folders whose names look like that of a split, and which are not taken as one.
    """

    root: Path
    train: tuple[Path, ...] = ()
    validation: tuple[Path, ...] = ()
    test: tuple[Path, ...] = ()
    spare: tuple[Path, ...] = ()
    alike: tuple[Path, ...] = ()

    @property
    def apart(self) -> tuple[Path, ...]:
        """What is never trained on."""
        return (*self.validation, *self.test, *self.spare)

    def has(self, role: Role) -> bool:
        """Return whether there is such a split, beside one to train on."""
        return bool(self.train and getattr(self, role))

    def parts(self, path: str) -> list[str]:
        """A path as its class sees it: below its split, or below <folder>/<split> of several."""
        roots = (*self.train, *self.apart) if self.train else (self.root,)
        root = next(root for root in roots if path.startswith(str(root) + os.sep))
        inside = os.path.relpath(path, root).split(os.sep)
        return inside if len(self.train) < 2 else [root.parent.name, *inside]

    def name(self, path: Path) -> str:
        """A folder as it is called in messages."""
        return f"{os.path.relpath(path, self.root)}/"


def find_splits(root: Path) -> Splits:
    """The splits of a folder: train/ beside test/ or val/, in any usual spelling.

    They lie in the folder itself or, if it has no train/, in the folders in it. train/ alone is a
    split where nothing else holds images: else it may be a class, of railways say.
    """
    above = containing_folders(root) | {identity(root)}
    folders = [path for path in _folders(root) if identity(path) not in above]
    splits = _sorted(root, folders)
    if not splits.train:
        others = [path for path in folders if path not in splits.apart]
        deeper = [path for other in others for path in _folders(other) if _may_be_split(path)]
        splits = _both(splits, _sorted(root, deeper))
    only_train = splits.train and not (splits.validation or splits.test)
    if only_train and has_images(root, apart=(*splits.train, *splits.spare, *splits.alike)):
        return Splits(root, alike=(*splits.train, *splits.spare, *splits.alike))
    return splits


def _folders(root: Path) -> list[Path]:
    try:
        with os.scandir(root) as entries:
            names = [e.name for e in entries if not is_hidden(e.name) and e.is_dir()]
    except OSError:  # reported when its files are listed
        return []
    return [root / name for name in sorted(names)]


def _sorted(root: Path, folders: Iterable[Path]) -> Splits:
    """Folders by the role that their names give them, one of each role in a folder."""
    taken: dict[tuple[Path, Role], list[Path]] = {}
    alike = []
    for folder in folders:
        role = role_of(folder.name)
        if role is not None:
            taken.setdefault((folder.parent, role), []).append(folder)
        elif _NEARLY.fullmatch(folder.name):
            alike.append(folder)
    chosen: dict[Role, list[Path]] = {role: [] for role in get_args(Role)}
    spare: list[Path] = []
    for (_, role), paths in taken.items():
        names = NAMES[role]
        first, *others = sorted(paths, key=lambda path: names.index(path.name.lower()))
        chosen[role].append(first)
        spare += others
    roles = {role: tuple(paths) for role, paths in chosen.items()}
    return Splits(root, **roles, spare=tuple(spare), alike=tuple(alike))


def _both(first: Splits, second: Splits) -> Splits:
    fields = ("train", "validation", "test", "spare", "alike")
    return Splits(first.root, *(getattr(first, name) + getattr(second, name) for name in fields))


def _may_be_split(path: Path) -> bool:
    named = role_of(path.name) is not None or _NEARLY.fullmatch(path.name) is not None
    return named and has_images(path)  # labels/train beside images/train has none


def role_of(name: str) -> Role | None:
    """The split that a folder of this name is; None if it is no name of a split."""
    return next((role for role, names in NAMES.items() if name.lower() in names), None)
