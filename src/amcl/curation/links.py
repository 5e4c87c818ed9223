"""A folder of links to chosen images."""

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from amcl.curation.settings import LinkKind
from amcl.errors import RunError
from amcl.files import is_free, remove_unfinished, temporary_folder

_OTHERS: dict[LinkKind, str] = {
    "symbolic": "--link-kind hard or copy",
    "hard": "--link-kind symbolic or copy",
    "copy": "a disk with more room",
}
_MAKE: dict[LinkKind, Callable[[str, Path], object]] = {
    "symbolic": os.symlink,
    "hard": os.link,
    "copy": shutil.copy2,
}


def check_link_folder(folder: Path) -> None:
    """Raise an error unless a folder is new or empty: nothing that is there is ever changed."""
    if not is_free(folder):
        raise FileExistsError(f"{folder} is not empty: name a new folder for --link.")


def is_within(folder: Path, source: str) -> bool:
    """Return whether a folder is a folder of images or lies in it.

    Args:
        folder: The folder.
        source: Absolute path of the images; a named set is no folder.

    Example:
        >>> is_within(Path("/links"), "/pictures"), is_within(Path("/pictures/x"), "/pictures")
        (False, True)
        >>> is_within(Path("cifar10/links"), "cifar10")
        False
    """
    path = Path(source)
    return path.is_absolute() and folder.resolve().is_relative_to(path.resolve())


def link_images(
    folder: Path, images: Mapping[str, str], kind: LinkKind, texts: Mapping[str, str]
) -> None:
    """Make a folder of links, whole or not at all.

    Args:
        folder: A new or empty folder, or one with these links already.
        images: Absolute path of each image by its path in the new folder.
        kind: Kind of the links.
        texts: Content of further files by their names.
    """
    if _is_made(folder, images, texts):
        remove_unfinished(folder.parent, folder.name)
        return
    check_link_folder(folder)
    with temporary_folder(folder) as temporary:
        made = temporary / "links"
        made.mkdir()
        for name, source in images.items():
            target = made / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                _MAKE[kind](source, target)
            except OSError as error:
                raise RunError(
                    f"{folder} cannot have {'copies' if kind == 'copy' else f'{kind} links'} of "
                    f"the images ({error.strerror}): use {_OTHERS[kind]}."
                ) from error
        for name, text in texts.items():
            (made / name).write_text(text, encoding="utf-8")
        with suppress(FileNotFoundError):
            folder.rmdir()  # an empty one, which Windows would not replace
        made.rename(folder)


def _is_made(folder: Path, images: Mapping[str, str], texts: Mapping[str, str]) -> bool:
    """Return whether a folder has exactly these files: a command that was killed made it."""
    files = {
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, _, names in os.walk(folder)
        for name in names
    }
    return (
        bool(images)
        and files == {*images, *texts}
        and all(
            os.path.exists(folder / name)
            and (os.path.samefile(folder / name, source) or _same_size(folder / name, source))
            for name, source in images.items()
        )
    )


def _same_size(first: Path, second: str) -> bool:
    return os.path.getsize(first) == os.path.getsize(second)
