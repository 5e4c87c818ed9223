"""What a folder of a curation was made for: the same command resumes, another one is an error."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from amcl.curation.settings import CurationSettings, Export, LinkKind
from amcl.errors import RunError
from amcl.files import is_free, remove_unfinished, write_text
from amcl.text_files import read_json, require, to_json

FILE = "settings.json"
_WORDS = {
    "model": "MODEL",
    "images": "the images of --data",
    "transform": "the input of the model (--crop)",
    "others": "the images of --against",
}
_MEASURED = ("model", "images", "transform", "pairs", "seed")  # what measurements depend on


@dataclass(frozen=True, kw_only=True)
class Request:
    """Everything that the result of a curation depends on."""

    settings: CurationSettings
    model: str
    """Hash of the backbone and of the method."""
    images: str
    """Hash of the images."""
    transform: dict[str, Any]
    """Input of the model from stored images."""
    against: str | None = None
    """Folder of the other set."""
    others: str | None = None
    """Hash of its images."""
    link: str | None = None
    """Folder of links."""
    link_kind: LinkKind = "symbolic"
    """Kind of the links."""
    export: tuple[Export, ...] = ()
    """Other tools that the table is written for."""

    def values(self) -> dict[str, Any]:
        """Return plain values by name."""
        values = {name: value for name, value in vars(self).items() if name != "settings"}
        return {**asdict(self.settings), **values, "export": list(self.export)}


def begin(folder: Path, request: Request) -> None:
    """Make the folder of a curation, or continue in one with the same settings.

    Args:
        folder: The folder.
        request: What it is for.

    Raises:
        RunError: The folder was made with other settings, which the message names.
        FileExistsError: There are other things in it.
    """
    file = folder / FILE
    # As they are read: tuples become lists.
    wanted = _plain(request.values())
    if not file.is_file():
        if not is_free(folder):
            raise FileExistsError(f"{folder} holds other files: name a new folder with --out.")
        write_text(file, to_json(wanted) + "\n")
        return
    before = read_json(file)
    require(before, dict[str, Any], file)
    names = [name for name in {**before, **wanted} if before.get(name) != wanted.get(name)]
    if names:
        changes = "; ".join(_change(name, before.get(name), wanted.get(name)) for name in names)
        raise RunError(
            f"{folder} was made with other settings: {changes}. Name another folder with --out; "
            f"--reuse {folder} takes over what was measured there."
        )
    for inner, _, _ in os.walk(folder):
        remove_unfinished(Path(inner))


def check_reusable(folder: Path, request: Request) -> None:
    """Raise an error unless what was measured for an earlier curation serves this one, too.

    Args:
        folder: Folder of the earlier curation.
        request: What the new one is for.

    Raises:
        RunError: It was measured otherwise; the message says how.
    """
    before = read_json(folder / FILE)
    require(before, dict[str, Any], folder / FILE)
    wanted = _plain(request.values())
    names = [name for name in _MEASURED if before.get(name) != wanted[name]]
    if before.get("others") and request.others and before["others"] != request.others:
        names.append("others")
    if names:
        changes = "; ".join(_change(name, before.get(name), wanted[name]) for name in names)
        raise RunError(
            f"--reuse {folder} cannot serve: {changes}. Leave out --reuse to measure anew, or give "
            "what it was made with."
        )


def _change(name: str, before: Any, now: Any) -> str:
    if name in _WORDS:
        return f"{_WORDS[name]} has changed" if name == "model" else f"{_WORDS[name]} differ"
    return f"--{name.replace('_', '-')} was {_shown(before)} and is now {_shown(now)}"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "none" if value is None else f"{value!s:.60}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
