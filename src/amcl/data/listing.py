"""Lists of image files: those below a folder, and those that are not read and why."""

import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from amcl.data.decode import (
    ARRAY_EXTENSIONS,
    DICOM_EXTENSIONS,
    EXTENSIONS,
    FORMATS,
    HEIF_EXTENSIONS,
    PICTURE_EXTENSIONS,
    UnreadableImage,
    image_format,
)
from amcl.data.images import Unreadable
from amcl.data.records import FileRecord, FileRecords, Records

# Common image formats that are neither read nor recognized by their first bytes.
_UNSUPPORTED = (
    *(".jxl", ".psd", ".exr", ".hdr", ".svg", ".eps", ".ico"),
    *(".cr3", ".raf", ".orf", ".rw2", ".nii", ".czi", ".lif", ".nd2"),
)
_NO_EXTENSION = "files without an extension"
_MOST_OPENED = 20  # files of one unknown extension whose first bytes are read
_EXTENSION = re.compile(r"\.[a-z]\w*~?", re.IGNORECASE)  # not the ".05 beach" of a date


@dataclass(frozen=True)
class Listing:
    """Encoded images in a fixed order, with their classes if they have any."""

    records: Records
    labels: torch.Tensor | None = None
    classes: tuple[str, ...] = ()
    unreadable: Unreadable = ()
    warnings: tuple[str, ...] = ()
    """Messages for the user about files that are not listed."""

    def __len__(self) -> int:
        return len(self.records)

    @property
    def paths(self) -> list[str]:
        """The path of each file."""
        return [self.records[index].name for index in range(len(self))]

    @property
    def strata(self) -> torch.Tensor:
        """The labels, or one class for all images where they have none."""
        return torch.zeros(len(self)) if self.labels is None else self.labels

    def with_labels(self, labels: Sequence[int], classes: tuple[str, ...]) -> "Listing":
        """Return the same images with classes."""
        return replace(self, labels=torch.tensor(labels, dtype=torch.long), classes=classes)

    def select(self, indices: torch.Tensor) -> "Listing":
        """Return the images with these indices, in their order."""
        labels = None if self.labels is None else self.labels[indices]
        return replace(self, records=self.records.select(indices), labels=labels)


def list_images(
    root: Path, *, exclude: Collection[Path] = (), allow_empty: bool = False
) -> Listing:
    """List every image file below a folder, sorted.

    Links to folders that contain `root` are not followed.

    Args:
        root: The folder.
        exclude: Folders that are left out, also where a link leads to them.
        allow_empty: Return an empty listing where there is no image, instead of an error.

    Returns:
        The image files, without labels.
    """
    files = _search(str(root), exclude)
    warnings = _warnings(files)
    if not files.paths and not allow_empty:
        others = [f"{count} {kind}" for kind, count in files.others.most_common(5)]
        others += [f"{path} ({reason})" for path, reason in files.unreadable[:5]]
        raise ValueError(
            f"No images in {root}: looked there and in all folders below for files that end in "
            f"{', '.join(EXTENSIONS)}; found {', '.join(others) or 'nothing at all'}. "
            f"{' '.join([*warnings, ''])}Give the folder that holds the images, unpacked."
        )
    return Listing(
        FileRecords(sorted(files.paths)),
        unreadable=tuple(files.unreadable),
        warnings=tuple(warnings),
    )


def has_images(root: Path, *, exclude: Collection[Path] = (), arrays: bool = True) -> bool:
    """Return whether any image is below `root`, outside of the folders in `exclude`.

    Args:
        root: The folder.
        exclude: Folders that are left out.
        arrays: True if arrays count as images.
    """
    files = _search(str(root), exclude, only_first=True)
    return bool(files.pictures or (arrays and files.arrays))


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is skipped because of its name."""
    return name.startswith(".") or name == "__MACOSX"


def is_image_name(name: str) -> bool:
    """Return whether a file is an image or an array by its extension."""
    return os.path.splitext(name)[1].lower() in EXTENSIONS


def is_picture_name(name: str) -> bool:
    """Return whether a file is an image and no array by its extension."""
    return os.path.splitext(name)[1].lower() in PICTURE_EXTENSIONS


def folder_id(path: str | Path) -> tuple[int, int]:
    """Return device and inode, which are the same by whatever path a folder is reached."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def parent_ids(root: str | Path) -> set[tuple[int, int]]:
    """Return the ids of all folders above `root`, by its path and by its path without links."""
    paths = Path(root).absolute(), Path(root).resolve()
    ids = {folder_id(parent) for path in paths for parent in path.parents}
    return ids - {folder_id(root)}  # a/../a passes through a itself


@dataclass
class _Files:
    """The files below a folder by what can be done with them."""

    pictures: list[str] = field(default_factory=list)
    """Image files that are no arrays."""
    arrays: list[str] = field(default_factory=list)
    """Arrays, which may be images."""
    others: Counter[str] = field(default_factory=Counter)
    """Number of other files by extension."""
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    heif: Counter[str] = field(default_factory=Counter)
    """Number of HEIF files that cannot be read, by extension."""
    dicom: Counter[str] = field(default_factory=Counter)
    """Number of DICOM files that cannot be read, by extension."""
    image_like: set[str] = field(default_factory=set)
    """Unknown extensions of files that begin as images do."""
    skipped_links: list[str] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        """Image files. Beside pictures, arrays are something else: masks, features, labels."""
        return self.pictures or self.arrays

    def add(self, folder: str, name: str) -> None:
        """Add a file by its extension and, if that says nothing, by its first bytes."""
        path = os.path.join(folder, name)
        extension = os.path.splitext(name)[1].lower()
        if extension in PICTURE_EXTENSIONS:
            self.pictures.append(path)
            return
        if extension in ARRAY_EXTENSIONS:
            self.arrays.append(path)
            return
        if not _EXTENSION.fullmatch(extension):
            extension = ""
        detected = None
        if not extension or self.others[extension] < _MOST_OPENED:
            detected = image_format(FileRecord(path))
        if not extension and detected in FORMATS:
            self.pictures.append(path)
            return
        self.others[extension or _NO_EXTENSION] += 1
        if extension in HEIF_EXTENSIONS or (detected == "HEIF" and detected not in FORMATS):
            self.heif[extension or _NO_EXTENSION] += 1
        elif extension in DICOM_EXTENSIONS or (detected == "DICOM" and detected not in FORMATS):
            self.dicom[extension or _NO_EXTENSION] += 1
        elif detected is not None:
            self.image_like.add(extension)

    def add_unreadable(self, path: str, reason: str) -> None:
        """Add a path that cannot be read."""
        self.unreadable.append((UnreadableImage(path, reason).path, reason))


def _search(root: str, exclude: Collection[Path], *, only_first: bool = False) -> _Files:
    files = _Files()
    parents = parent_ids(root)
    excluded = {folder_id(path) for path in exclude} - {folder_id(root)}
    visited: set[tuple[int, int]] = set()
    named_like_images: list[str] = []

    def on_error(error: OSError) -> None:
        reason = (error.strerror or str(error)).lower()
        files.add_unreadable(error.filename or root, f"folder: {reason}")

    for folder, subfolders, names in os.walk(root, followlinks=True, onerror=on_error):
        this = folder_id(folder)
        outside = this in parents or this in excluded
        if outside and Path(folder) not in exclude:
            files.skipped_links.append(folder)
        if outside or this in visited:  # links may lead in circles
            subfolders.clear()
            continue
        visited.add(this)
        subfolders[:] = sorted(name for name in subfolders if not is_hidden(name))
        named_like_images += [
            os.path.join(folder, name) for name in subfolders if is_picture_name(name)
        ]
        for name in names:
            if not is_hidden(name):
                files.add(folder, name)
        if only_first and files.pictures:
            return files
    for folder in named_like_images:
        if not any(path.startswith(folder + os.sep) for path in files.paths):
            files.add_unreadable(folder, "a folder, not an image file")
    return files


def _warnings(files: _Files) -> list[str]:
    """Return messages about files that look like images and are not read."""
    lines = [
        f"{_count(count, kind)} not read: HEIC needs an extra, pip install '.[heic]'."
        for kind, count in files.heif.items()
    ]
    lines += [
        f"{_count(count, kind)} not read: DICOM needs an extra, pip install '.[dicom]'."
        for kind, count in files.dicom.items()
    ]
    if files.pictures and files.arrays:
        lines.append(
            f"{_count(len(files.arrays), os.path.splitext(files.arrays[0])[1])} not read: arrays "
            "are images only in folders without other images."
        )
    lines += [
        f"{_count(files.others[kind], kind)} not read, but by the first bytes may be images: "
        "use the extension of the true format, such as .jpg, or convert to one."
        for kind in sorted(files.image_like)
    ]
    lines += [
        f"{_count(files.others[kind], kind)} not read: convert to JPEG, PNG or TIFF."
        for kind in _UNSUPPORTED
        if files.others[kind] and kind not in files.image_like
    ]
    lines += [
        f"The link {UnreadableImage(path, '').path} was not followed: it leads to a folder that "
        "contains this one, or to a split that is not trained on."
        for path in files.skipped_links
    ]
    return lines


def _count(count: int, kind: str) -> str:
    if kind == _NO_EXTENSION:
        return f"{count:,} {kind} were" if count > 1 else "1 file without an extension was"
    return f"{count:,} {kind} {'files were' if count > 1 else 'file was'}"
