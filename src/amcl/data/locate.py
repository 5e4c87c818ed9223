"""What a user's name of images stands for: a named set, or a path of images that are stored."""

import re
from difflib import get_close_matches
from pathlib import Path

from amcl.data.folder import Folder
from amcl.data.named import DATASETS, ValidationSource
from amcl.data.source import Source, packed_source
from amcl.data.split_folders import Role
from amcl.files import expand_home

_PATTERN = re.compile(r"[{*?\[]")
_ADDRESS = re.compile(r"pipe:|[a-z][a-z0-9+.-]+://", re.ASCII)  # as WebDataset takes them


def has_test_split(source: str) -> bool:
    """Return whether a source has a labeled test split.

    Args:
        source: A folder, shards, the name of a data set, or "builtin".

    Returns:
        True if features can be judged with ``probe="test"``.

    Example:
        >>> has_test_split("cifar10"), has_test_split("builtin")
        (True, False)
    """
    if source in DATASETS:
        return DATASETS[source].has_test_labels
    return source != "builtin" and _has_split(source, "test")


def validation_source(source: str) -> ValidationSource:
    """Return where the images to validate on come from.

    Args:
        source: A folder, shards, the name of a data set, or "builtin".

    Returns:
        "split" for a split of its own; "unused" for labeled images that are not pre-trained on;
        "training" for images held out of those that are.

    Example:
        >>> [validation_source(name) for name in ("imagenet", "stl10", "cifar10")]
        ['split', 'unused', 'training']
    """
    if source in DATASETS:
        return DATASETS[source].validation_source
    return "split" if source == "builtin" or _has_split(source, "validation") else "training"


def absolute_source(source: str) -> str:
    """Return a name of a source that means the same in every working folder.

    A folder gets its absolute path. If there is none, the name stays, for the error to show.

    Args:
        source: A folder, shards, the name of a data set, or "builtin".

    Returns:
        The absolute path of a folder; other names as they are.

    Example:
        >>> absolute_source("cifar10"), absolute_source("/data/../data")
        ('cifar10', '/data/../data')
    """
    path = Path(source)
    is_path = source not in ("", "builtin", *DATASETS) and not source.startswith("~")
    is_path = is_path and not _ADDRESS.match(source)
    if not is_path or path.is_absolute() or not (path.is_dir() or packed_source(source)):
        return source
    return str(path.resolve() if ".." in path.parts else path.absolute())


def same_source(first: str, second: str) -> bool:
    """Return whether two names mean the same source; a folder has many.

    Args:
        first: A folder, shards, the name of a data set, or "builtin".
        second: Another one.

    Returns:
        True if both are the same name, or paths of the same folder.

    Example:
        >>> same_source("images", "./more/../images/"), same_source("builtin", "./builtin")
        (True, False)
    """
    if first == second or {first, second} & {"builtin", *DATASETS}:
        return first == second
    return _key(first) == _key(second)


def source_name(source: str) -> str:
    """Return a short name of a source.

    Args:
        source: A folder, shards, the name of a data set, or "builtin".

    Returns:
        The last part of the path; of a pattern of files, the folder that they are in.

    Example:
        >>> source_name("data/birds"), source_name("data/birds/train-{000..099}.tar")
        ('birds', 'birds')
    """
    path = Path(source)
    while path.name and _PATTERN.search(path.name) and not path.is_dir():
        path = path.parent
    return path.name or source


def _key(source: str) -> tuple[str, ...]:
    images = _stored(source)
    return (str(expand_home(source).resolve()),) if images is None else images.key


def suggestion(name: str) -> str:
    """Return " Did you mean …?" if a data set or folder has nearly this name, else "".

    >>> suggestion("cifar1O")
    " Did you mean 'cifar10'?"
    """
    matches = get_close_matches(name.lower(), ["builtin", *DATASETS], n=1)
    if not matches and (path := Path(name)).parent.is_dir():
        folders = {entry.name: str(entry) for entry in path.parent.iterdir() if entry.is_dir()}
        matches = [folders[match] for match in get_close_matches(path.name, folders, n=1)]
    return f" Did you mean {matches[0]!r}?" if matches else ""


def _has_split(source: str, role: Role) -> bool:
    images = _stored(source)
    return images is not None and images.has(role)


def _stored(source: str) -> Source | None:
    """Return the images that a user has stored under a path."""
    if _ADDRESS.match(source):
        raise ValueError(
            f"{source!r} is not a path, and images are read from files alone: copy them to a disk, "
            "or mount where they are, and give that path."
        )
    return packed_source(source) or Folder.find(source) if source else None


def find_source(source: str) -> Source:
    """Return the images that a user has stored under a path, or raise an error.

    Args:
        source: A folder, shards, tables.

    Returns:
        The images.
    """
    images = _stored(source)
    if images is not None:
        return images
    names = ", ".join(["builtin", *DATASETS])
    if source and expand_home(source).exists():
        raise NotADirectoryError(
            f"{source!r} is a file: give the folder that holds the images, unpacked, shards that "
            f"end in .tar, tables that end in .parquet or .arrow, or one of {names}."
        )
    path = Path(source)
    here = f" (from here: {path.absolute()})" if source and not path.is_absolute() else ""
    raise FileNotFoundError(
        f"{source!r} is neither a folder nor a known data set{here}.{suggestion(source)} Give the "
        f"folder that holds the images, or one of {names}."
    )
