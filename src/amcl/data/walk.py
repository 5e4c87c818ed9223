"""Image files below a folder: which are there, and which are not read and why."""

import os
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from amcl.data.decode import (
    EXTENSIONS,
    FORMATS,
    HEIF_EXTENSIONS,
    UnreadableImage,
    image_format,
)
from amcl.data.pictures import Listing

# Pictures of these kinds are common, but neither read nor known by the first bytes.
_FOREIGN = (
    *(".jxl", ".psd", ".exr", ".hdr", ".svg", ".eps", ".ico"),
    *(".cr3", ".raf", ".orf", ".rw2", ".dcm", ".nii", ".czi", ".lif", ".nd2"),
)
_NO_EXTENSION = "files without an extension"
_LOOKED_AT = 20  # files of an unknown extension whose first bytes are looked at
_EXTENSION = re.compile(r"\.[a-z]\w*~?", re.IGNORECASE)  # not the ".05 beach" of a date


@dataclass
class _Walk:
    paths: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    heif: Counter[str] = field(default_factory=Counter)
    alike: set[str] = field(default_factory=set)
    """Unknown extensions of files that begin as images do."""
    links: list[str] = field(default_factory=list)
    """Links that were not followed."""


def list_images(root: Path, *, apart: Collection[Path] = (), may_be_empty: bool = False) -> Listing:
    """Every image file below `root`, sorted; an error where there is none, unless that may be.

    Folders in `apart` are left out, also where a link leads to them. Links to folders that contain
    `root` are not followed.
    """
    walk = _walk(str(root), apart)
    warnings = _warnings(walk)
    if not walk.paths and not may_be_empty:
        kinds = [f"{count} {kind}" for kind, count in walk.others.most_common(5)]
        kinds += [f"{path} ({reason})" for path, reason in walk.unreadable[:5]]
        raise ValueError(
            f"No images in {root}: looked there and in all folders below for files that end in "
            f"{', '.join(EXTENSIONS)}; found {', '.join(kinds) or 'nothing at all'}. "
            f"{' '.join([*warnings, ''])}Give the folder that holds the images, unpacked."
        )
    return Listing(sorted(walk.paths), unreadable=tuple(walk.unreadable), warnings=tuple(warnings))


def has_images(root: Path, *, apart: Collection[Path] = ()) -> bool:
    """Return whether any image lies below `root`, outside of the folders in `apart`."""
    return bool(_walk(str(root), apart, only_first=True).paths)


def is_hidden(name: str) -> bool:
    """Return whether a file or folder is left alone for its name."""
    return name.startswith(".") or name == "__MACOSX"


def _walk(root: str, apart: Collection[Path], *, only_first: bool = False) -> _Walk:
    walk = _Walk()
    containing = containing_folders(root)
    elsewhere = {identity(path) for path in apart} - {identity(root)}
    seen: set[tuple[int, int]] = set()
    doubtful: list[str] = []

    def cannot_list(error: OSError) -> None:
        reason = (error.strerror or str(error)).lower()
        unreadable = UnreadableImage(error.filename or root, f"folder: {reason}")
        walk.unreadable.append((unreadable.path, unreadable.reason))

    for folder, folders, files in os.walk(root, followlinks=True, onerror=cannot_list):
        this = identity(folder)
        outside = this in containing or this in elsewhere
        if outside and Path(folder) not in apart:
            walk.links.append(folder)
        if outside or this in seen:  # links may lead in circles
            folders.clear()
            continue
        seen.add(this)
        folders[:] = sorted(name for name in folders if not is_hidden(name))
        doubtful += [os.path.join(folder, name) for name in folders if _has_extension(name)]
        for name in files:
            if not is_hidden(name):
                _sort_file(walk, folder, name)
        if only_first and walk.paths:
            return walk
    for folder in doubtful:
        if not any(path.startswith(folder + os.sep) for path in walk.paths):
            unreadable = UnreadableImage(folder, "a folder, not an image file")
            walk.unreadable.append((unreadable.path, unreadable.reason))
    return walk


def _sort_file(walk: _Walk, folder: str, name: str) -> None:
    path, ending = os.path.join(folder, name), os.path.splitext(name)[1].lower()
    if ending in EXTENSIONS:
        walk.paths.append(path)
        return
    if not _EXTENSION.fullmatch(ending):
        ending = ""
    kind = None
    if not ending or walk.others[ending] < _LOOKED_AT:
        kind = image_format(path)
    if not ending and kind in FORMATS:
        walk.paths.append(path)
        return
    walk.others[ending or _NO_EXTENSION] += 1
    if ending in HEIF_EXTENSIONS or (kind == "HEIF" and kind not in FORMATS):
        walk.heif[ending or _NO_EXTENSION] += 1
    elif kind is not None:
        walk.alike.add(ending)


def _warnings(walk: _Walk) -> list[str]:
    """What a user should know about files that look like images and are not read."""
    lines = [
        f"{_files(count, kind)} not read: HEIC needs an extra, pip install '.[heic]'."
        for kind, count in walk.heif.items()
    ]
    lines += [
        f"{_files(walk.others[kind], kind)} not read, but by the first bytes may be images: "
        "use the extension of the true format, such as .jpg, or convert to one."
        for kind in sorted(walk.alike)
    ]
    lines += [
        f"{_files(walk.others[kind], kind)} not read: convert to JPEG, PNG or TIFF."
        for kind in _FOREIGN
        if walk.others[kind] and kind not in walk.alike
    ]
    lines += [
        f"The link {UnreadableImage(path, '').path} was not followed: it leads to a folder that "
        "contains this one, or to a split that is kept apart."
        for path in walk.links
    ]
    return lines


def _files(count: int, kind: str) -> str:
    if kind == _NO_EXTENSION:
        return f"{count:,} {kind} were" if count > 1 else "1 file without an extension was"
    return f"{count:,} {kind} {'files were' if count > 1 else 'file was'}"


def containing_folders(root: str | Path) -> set[tuple[int, int]]:
    """The folders above `root`, by its path and, where that has links, by its true path."""
    paths = Path(root).absolute(), Path(root).resolve()
    above = {identity(parent) for path in paths for parent in path.parents}
    return above - {identity(root)}  # which a/../a passes through


def identity(path: str | Path) -> tuple[int, int]:
    """What a folder is, by whatever path it is reached."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _has_extension(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in EXTENSIONS
