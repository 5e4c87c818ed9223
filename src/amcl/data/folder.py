"""A folder of images, nested in any way, with or without splits and classes."""

from dataclasses import replace
from pathlib import Path

from amcl.data.images import DataSet, counted
from amcl.data.options import Labels, Options
from amcl.data.pictures import Listing, read_pictures
from amcl.data.split_folders import Role, Splits, find_splits, role_of
from amcl.data.walk import has_images, list_images

_USES: dict[Role, str] = {
    "train": "taken for training",
    "validation": "kept for validation",
    "test": "kept for evaluation",
}


def load_folder(root: Path, options: Options) -> DataSet:
    """The images below `root`; where it has splits, those of its training split.

    Without a validation split, and with labels, some images are held out to probe with.
    """
    splits = find_splits(root)
    if options.labels == "folders" and not splits.train:
        splits = Splits(root)  # all its folders are meant as classes, whatever they are called
    listings = _list_splits(splits)
    if options.probe == "test" and not (splits.has("test") and listings["test"].paths):
        raise ValueError(
            f"{root} has no test split: put one in {root / 'test'} beside {root / 'train'}, or "
            "use probe='validation'."
        )
    train, queries, reason = _labeled(splits, listings, options)
    notes = [*_notes(splits, listings), *([reason] if reason else [])]
    data = read_pictures(root.absolute().name, train, queries, options, notes=notes)
    return replace(data, warnings=_warnings(splits, listings))


def _list_splits(splits: Splits) -> dict[Role, Listing]:
    """The images of each split; without one to train on, it is what lies in none."""
    if splits.apart and not splits.train and not has_images(splits.root, apart=splits.apart):
        names = ", ".join(map(splits.name, splits.apart))
        raise ValueError(
            f"{splits.root} has no images but those in {names}, which looks like a test or "
            f"validation split: use --data {splits.apart[0]} to train on it all the same."
        )
    train = [list_images(path, apart=splits.apart) for path in splits.train or (splits.root,)]
    listings: dict[Role, Listing] = {"train": _together(train)}
    others: dict[Role, tuple[Path, ...]] = {"validation": splits.validation, "test": splits.test}
    for role, paths in others.items():
        if paths:
            listings[role] = _together([list_images(path, may_be_empty=True) for path in paths])
    return listings


def _together(listings: list[Listing]) -> Listing:
    return Listing(
        sorted(path for listing in listings for path in listing.paths),
        unreadable=tuple(bad for listing in listings for bad in listing.unreadable),
        warnings=tuple(line for listing in listings for line in listing.warnings),
    )


def label(
    listing: Listing,
    parts: list[list[str]],
    where: str,
    mode: Labels,
    classes: tuple[str, ...] = (),
) -> tuple[Listing, str]:
    """The listing with its first-level folders as classes, or the reason why it has none.

    `parts` are the paths below the split `where`. `classes` are those of the training split, which
    a split to probe with must keep to.
    """
    loose = [path for path, part in zip(listing.paths, parts, strict=True) if len(part) == 1]
    names = tuple(sorted({part[0] for part in parts if len(part) > 1}))
    if mode == "folders":
        _require_classes(loose, names, where, classes)
    elif reason := _why_unlabeled(parts, names, classes):
        return listing, reason
    classes = classes or names
    number = {name: index for index, name in enumerate(classes)}
    unknown = [name for name in names if name not in number]
    if unknown:
        raise ValueError(
            f"{where} has the classes {', '.join(unknown[:5])}, which the training split has not: "
            "name its folders as there, or use labels='none'."
        )
    return listing.with_labels([number[part[0]] for part in parts], classes), ""


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


def _labeled(
    splits: Splits, listings: dict[Role, Listing], options: Options
) -> tuple[Listing, Listing | None, str]:
    """Images to train on, those of a split to probe with, and why there are no labels."""
    train = listings["train"]
    if not options.probes:
        return train, None, ""
    role: Role = "test" if options.probe == "test" else "validation"
    where = ", ".join(map(str, splits.train)) or str(splits.root)
    labeled, reason = label(train, list(map(splits.parts, train.paths)), where, options.labels)
    queries = None
    if splits.has(role) and listings[role].paths and not reason:
        given = listings[role]
        where = ", ".join(map(str, getattr(splits, role)))
        parts = list(map(splits.parts, given.paths))
        queries, reason = label(given, parts, where, options.labels, labeled.classes)
        if reason:
            labeled, queries, reason = train, None, f"{where}: {reason}"
    if options.probe == "test" and reason:
        raise ValueError(
            f"probe='test' needs labels: {reason}. Sort the images into <class>/<file>, or use "
            "labels='folders' or probe='none'."
        )
    return labeled, queries, reason


def _notes(splits: Splits, listings: dict[Role, Listing]) -> list[str]:
    """Which split was taken for what."""
    if not splits.train:
        return []
    parts = []
    for role, listing in listings.items():
        names = ", ".join(map(splits.name, getattr(splits, role)))
        parts.append(f"{names}: {counted(len(listing.paths), 'image')} {_USES[role]}")
    return ["; ".join(parts)]


def _warnings(splits: Splits, listings: dict[Role, Listing]) -> tuple[str, ...]:
    """What looks like a split and is not taken as one, and what is kept from training."""
    lines = [line for listing in listings.values() for line in listing.warnings]
    for role in ("validation", "test") if not splits.train else ():
        for path in getattr(splits, role):
            lines.append(
                f"{splits.name(path)} looks like a {role} split and is not trained on. If it is a "
                f"class, use --labels folders; to train on it alone, use --data {path}."
            )
    for path in splits.spare:
        lines.append(f"{splits.name(path)} is not used: another folder is taken for that split.")
    use = "is not used" if splits.train else "is trained on"
    for path in splits.alike:
        if role_of(path.name) is not None:
            lines.append(
                f"{splits.name(path)} is taken as a class, not as a split: there are images beside "
                f"it, and neither test/ nor val/. To train on it alone, use --data {path}."
            )
        else:
            lines.append(
                f"{splits.name(path)} looks like a split, but its name is none of train, val and "
                f"test: it {use}. Rename it if it is one."
            )
    return tuple(lines)
