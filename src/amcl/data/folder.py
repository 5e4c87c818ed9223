"""A folder of images, nested in any way, with or without splits and classes."""

from dataclasses import replace
from pathlib import Path

from amcl.data.file_dataset import dataset_from_files
from amcl.data.images import DataSet, counted
from amcl.data.listing import Listing, has_images, list_images
from amcl.data.options import Labels, LoadOptions, missing_labels
from amcl.data.records import FileRecords
from amcl.data.split_folders import Role, Splits, find_splits, role_of

_USES: dict[Role, str] = {
    "train": "taken for training",
    "validation": "kept for validation",
    "test": "kept for evaluation",
}


def load_folder(root: Path, options: LoadOptions) -> DataSet:
    """Load the images below `root`; if it has splits, those of its training split.

    Without a validation split, and with labels, some images are held out to probe with.
    """
    splits = find_splits(root)
    if options.labels == "folders" and not splits.train:
        splits = Splits(root)  # all its folders are meant as classes, whatever their names are
    listings = _list_splits(splits)
    if options.probe == "test" and not (splits.has("test") and len(listings["test"])):
        raise ValueError(
            f"{root} has no test split: put one in {root / 'test'} next to {root / 'train'}, or "
            "use probe='validation'."
        )
    train, queries, reason = _label_splits(splits, listings, options)
    notes = [*_notes(splits, listings), *([reason] if reason else [])]
    data = dataset_from_files(root.absolute().name, train, queries, options, notes=notes)
    return replace(data, warnings=_warnings(splits, listings))


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


def _label_splits(
    splits: Splits, listings: dict[Role, Listing], options: LoadOptions
) -> tuple[Listing, Listing | None, str]:
    """Return files to train on, those of a split to probe with, and why there are no labels."""
    unlabeled = listings["train"]
    if not options.reads_labels:
        return unlabeled, None, ""

    def label_split(role: Role, classes: tuple[str, ...] = ()) -> tuple[Listing, str]:
        listing = listings[role]
        parts = [splits.parts(path) for path in listing.paths]
        return label_by_folder(listing, parts, where(role), options.labels, classes)

    def where(role: Role) -> str:
        return ", ".join(map(str, splits.folders(role))) or str(splits.root)

    queries = None
    train, reason = label_split("train")
    split = options.split
    if options.uses_labels and splits.has(split) and len(listings[split]) and not reason:
        queries, reason = label_split(split, train.classes)
        if reason:
            train = unlabeled
            queries = None
            reason = f"{where(split)}: {reason}"
    if options.train_labels and reason:
        raise ValueError(missing_labels(reason.removesuffix(": taken as unlabeled")))
    if options.probe == "test" and reason:
        raise ValueError(
            f"probe='test' needs labels: {reason}. Sort the images into <class>/<file>, or use "
            "labels='folders' or probe='none'."
        )
    return train, queries, reason


def _notes(splits: Splits, listings: dict[Role, Listing]) -> list[str]:
    """Return a note on the use of each split."""
    if not splits.train:
        return []
    parts = []
    for role, listing in listings.items():
        names = ", ".join(map(splits.name, splits.folders(role)))
        parts.append(f"{names}: {counted(len(listing), 'image')} {_USES[role]}")
    return ["; ".join(parts)]


def _warnings(splits: Splits, listings: dict[Role, Listing]) -> tuple[str, ...]:
    """Return messages on folders that look like splits, and on files that are not read."""
    lines = [line for listing in listings.values() for line in listing.warnings]
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
    return tuple(lines)
