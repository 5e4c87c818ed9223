"""A folder of images, nested in any way, with or without classes."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from amcl.data.decode import EXTENSIONS, UnreadableImage
from amcl.data.images import DataSet
from amcl.data.options import Labels, Options
from amcl.data.pictures import Listing, read_pictures

VALIDATION = ("val", "valid", "validation")


def load_folder(root: Path, options: Options) -> DataSet:
    """The images below `root`; with train/ beside val/ or test/, those splits.

    Without such splits, and with labels, some images are held out to probe with.
    """
    there = splits(root)
    has_test, validation = "test" in there, next((n for n in VALIDATION if n in there), None)
    if options.probe == "test" and not has_test:
        raise ValueError(
            f"{root} has no test split: put one in {root / 'test'} beside {root / 'train'}, or "
            "use probe='validation'."
        )
    place = root / "train" if there else root
    chosen = "test" if options.probe == "test" else validation
    train = list_images(place)
    queries = None
    if options.probes:
        train = label(train, place, options.labels)
        if chosen is not None and train.labels is not None:
            queries = label(
                list_images(root / chosen), root / chosen, options.labels, train.classes
            )
    if queries is not None and queries.labels is None:
        train, queries = train.without_labels(), None
    if options.probe == "test" and queries is None and options.labels != "none":
        raise ValueError(
            f"probe='test' needs labels, and the images in {place} and {root / 'test'} do not all "
            "lie in <class>/<file>: sort them so, or use labels='folders' or probe='none'."
        )
    notes = [f"pre-trained on {place.name}/ alone"] if there else []
    if options.probes and train.labels is None:
        notes.append("the images do not all lie in <class>/<file>: taken as unlabelled")
    return read_pictures(root.absolute().name, train, queries, options, notes=notes)


@dataclass
class _Found:
    paths: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    unreadable: list[tuple[str, str]] = field(default_factory=list)


def list_images(root: Path) -> Listing:
    """Every image file below `root`, sorted; an error where there is none."""
    found = _walk(str(root))
    if not found.paths:
        kinds = [f"{count} {kind}" for kind, count in found.others.most_common(5)]
        kinds += [f"{path} ({reason})" for path, reason in found.unreadable[:5]]
        raise ValueError(
            f"No images in {root}: looked there and in all folders below for files that end in "
            f"{', '.join(EXTENSIONS)}; found {', '.join(kinds) or 'nothing at all'}. Give the "
            "folder that holds the images, unpacked."
        )
    return Listing(sorted(found.paths), unreadable=tuple(found.unreadable))


def label(listing: Listing, root: Path, mode: Labels, classes: tuple[str, ...] = ()) -> Listing:
    """The listing with its first-level folders as classes, where they are meant to be.

    `classes` are those of the training split, which a split to probe with must keep to.
    """
    parts = [os.path.relpath(path, root).split(os.sep) for path in listing.paths]
    loose = [path for path, part in zip(listing.paths, parts, strict=True) if len(part) == 1]
    names = tuple(sorted({part[0] for part in parts if len(part) > 1}))
    if mode == "folders":
        if loose:
            raise ValueError(
                f"labels='folders' takes the folders in {root} as classes, but {loose[0]} lies in "
                "none: move it into one, or use labels='none'."
            )
        if len(names) < 2 and not classes:
            raise ValueError(
                f"labels='folders' needs at least 2 folders in {root} as classes, found "
                f"{', '.join(names)}: use labels='none'."
            )
    elif any(len(part) != 2 for part in parts) or (len(names) < 2 and not classes):
        return listing
    classes = classes or names
    number = {name: index for index, name in enumerate(classes)}
    unknown = [name for name in names if name not in number]
    if unknown:
        raise ValueError(
            f"{root} has the classes {', '.join(unknown[:5])}, which the training split has not: "
            "name its folders as there, or use labels='none'."
        )
    return listing.with_labels([number[part[0]] for part in parts], classes)


def splits(root: Path) -> set[str]:
    """The split folders of `root`, if train/ is there with one to probe on."""
    found = {name for name in (*VALIDATION, "test") if (root / name).is_dir()}
    return found if (root / "train").is_dir() else set()


def _walk(root: str) -> _Found:
    found = _Found()
    seen: set[tuple[int, int]] = set()
    doubtful: list[str] = []

    def cannot_list(error: OSError) -> None:
        reason = (error.strerror or str(error)).lower()
        unreadable = UnreadableImage(error.filename or root, f"folder: {reason}")
        found.unreadable.append((unreadable.path, unreadable.reason))

    for folder, folders, files in os.walk(root, followlinks=True, onerror=cannot_list):
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in seen:  # links may lead in circles
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not _hidden(name))
        doubtful += [os.path.join(folder, name) for name in folders if _is_image(name)]
        for name in files:
            if _hidden(name):
                continue
            if _is_image(name):
                found.paths.append(os.path.join(folder, name))
            else:
                found.others[os.path.splitext(name)[1].lower() or "files without an ending"] += 1
    for folder in doubtful:
        if not any(path.startswith(folder + os.sep) for path in found.paths):
            unreadable = UnreadableImage(folder, "a folder, not an image file")
            found.unreadable.append((unreadable.path, unreadable.reason))
    return found


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _is_image(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in EXTENSIONS
