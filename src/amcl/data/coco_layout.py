"""The annotation files of a folder in COCO's format, and the folders of their images."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from amcl.files import expand_home
from amcl.printable import counted

Role = Literal["train", "test"]

SPLITS: dict[Role, tuple[str, ...]] = {
    "train": ("train2017", "train2014", "train"),
    "test": ("val2017", "val2014", "val", "valid", "validation", "test"),
}
"""Names of the splits to train on and to evaluate on, the first that exists is taken."""

FILES = (
    "annotations/instances_{split}.json",
    "annotations/{split}.json",
    "{split}/_annotations.coco.json",  # Roboflow
    "{split}/annotations.json",
    "instances_{split}.json",
    "{split}.json",
)
"""Annotation file of a split, as COCO, Roboflow and others call it."""

_SHOWN = 5  # annotation files
_ABSENT_SHOWN = 10


@dataclass(frozen=True)
class Source:
    """An annotation file and the folders that may have its images, the likeliest first."""

    annotations: Path
    folders: tuple[Path, ...]


def find_source(
    role: Role,
    root: Path | None,
    annotations: str | Path | None = None,
    images: str | Path | None = None,
) -> Source | None:
    """Find the annotation file of a split.

    Args:
        role: The split.
        root: Folder of the set; None if there is none.
        annotations: The file, if it was given.
        images: Folder of its images, if it was given.

    Returns:
        The file and its images; None if the folder has no such file.

    Raises:
        FileNotFoundError: A file or folder that was given does not exist.
    """
    if annotations is not None:
        file = expand_home(annotations)
        if not file.is_file():
            raise FileNotFoundError(
                f"--{role}-annotations {annotations}: there is no such file. Give a JSON file in "
                "COCO's format."
            )
    else:
        candidates = [] if root is None else _files(role, root)
        existing = [path for path in candidates if path.is_file()]
        if not existing:
            return None
        file = existing[0]
    return _source(role, file, root, images)


def find_only_source(root: Path, images: str | Path | None = None) -> Source:
    """Find the annotation file of a folder that has one, whatever its name.

    Args:
        root: The folder.
        images: Folder of the images, if it was given.

    Returns:
        The file and its images.

    Raises:
        FileNotFoundError: There is none, or there are several.
    """
    files = [path for folder in (root, root / "annotations") for path in folder.glob("*.json")]
    if len(files) == 1:
        return _source("train", files[0], root, images)
    expected = ", ".join(path.format(split="train") for path in FILES)
    others = ", ".join(sorted(str(path.relative_to(root)) for path in files)[:_SHOWN])
    raise FileNotFoundError(
        f"{root} has no annotations to train on: looked for {expected}, with train2017 and "
        f"train2014 for train, too{f'; there is {others}' if others else ''}. Name the file with "
        "--train-annotations and the folder of its images with --train-images."
    )


def find_images(path: Path, names: Sequence[str], folders: Sequence[Path], option: str) -> Path:
    """Return the folder in which the images of an annotation file are.

    It is the first one that has the first image, or else the first one that exists. Folders are
    listed, as asking for each of COCO's images would take long.

    Args:
        path: The annotation file.
        names: Paths of the images below their folder.
        folders: Folders that may have them.
        option: Option that names the folder, for errors.

    Returns:
        The folder.

    Raises:
        FileNotFoundError: No folder exists, or images are absent.
    """
    existing = [folder for folder in folders if folder.is_dir()]
    if not existing:
        looked = ", ".join(map(str, folders))
        raise FileNotFoundError(
            f"There is no folder with the images of {path}: looked for {looked}. Name it with "
            f"{option}."
        )
    folder = next((f for f in existing if (f / names[0]).is_file()), existing[0])
    present = {
        os.path.normpath(os.path.join(below, name))
        for below in {os.path.dirname(name) for name in names}
        for name in _names_in(folder / below)
    }
    absent = sorted({name for name in names if os.path.normpath(name) not in present})
    if absent:
        shown = ", ".join(f"{name!r:.300}" for name in absent[:_ABSENT_SHOWN])
        if len(absent) > _ABSENT_SHOWN:
            shown += f" and {len(absent) - _ABSENT_SHOWN:,} more"
        raise FileNotFoundError(
            f"{counted(len(absent), 'image')} of {len(names):,} in {path} "
            f"{'is' if len(absent) == 1 else 'are'} not in {folder}: "
            f"{shown}. Name the folder that has them with {option}."
        )
    return folder


def _names_in(folder: Path) -> Iterator[str]:
    if folder.is_dir():
        with os.scandir(folder) as entries:
            for entry in entries:
                yield entry.name


def _source(role: Role, file: Path, root: Path | None, images: str | Path | None) -> Source:
    if images is None:
        return Source(file, _image_folders(file, root))
    folder = expand_home(images)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"--{role}-images {images}: there is no such folder. Give the one that file names in "
            f"{file} start from."
        )
    return Source(file, (folder,))


def _files(role: Role, root: Path) -> list[Path]:
    return [root / path.format(split=split) for split in SPLITS[role] for path in FILES]


def _image_folders(file: Path, root: Path | None) -> tuple[Path, ...]:
    """Return folders in which the images of an annotation file may be, the likeliest first."""
    split = re.sub("^instances_", "", file.stem)
    above = file.parent.parent if file.parent.name == "annotations" else file.parent
    roots = [above] if root is None or root == above else [above, root]
    folders = [
        folder
        for top in roots
        for folder in (top / split, top / "images" / split, top / "images", top)
    ]
    return tuple(dict.fromkeys([*folders, file.parent]))
