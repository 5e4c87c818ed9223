"""The page of a curation in words: its key numbers, what was checked, and what to do next."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from amcl.curation import Curation
from amcl.curation.info import by_reason
from amcl.files import free_path
from amcl.printable import counted

_NEXT = (
    "Nothing was moved or deleted. `keep.txt` lists the images without copies, `drop.txt` the "
    "copies, and `review.txt` what a person should look at; `label_first.txt` says where to begin "
    "to label. To make a list of your own, select images on this page and download it."
)
_REPLACED = ("--out", "--threshold", "--reuse", "--link")


def facts(curation: Curation) -> list[tuple[str, str]]:
    """Return the key numbers.

    Args:
        curation: The curation.
    """
    counts = curation.info["counts"]
    numbers = {
        "images": counts["images"],
        "exact copies": counts["exact"],
        "near copies": counts["near"],
        "odd": counts["outliers"],
        "in both sets": counts.get("leaks"),
        "unreadable": counts["unreadable"] or None,
        "kept": counts["keep"],
        "selected": counts["selected"] or None,
    }
    return [(title, f"{number:,}") for title, number in numbers.items() if number is not None]


def lead(curation: Curation) -> list[str]:
    """Return what was checked and what to do next, a paragraph each.

    Args:
        curation: The curation.
    """
    info = curation.info
    counts = info["counts"]
    first = (
        f"{counted(counts['images'], 'image')} in `{info['data']['source']}`, compared by content "
        f"and by the features of the model `{info['model']['name']}`."
    )
    checked = " ".join([first, *_copies(curation), *_odd(counts["outliers"])])
    return [checked, _NEXT, *_left_out(curation)]


def _copies(curation: Curation) -> list[str]:
    info = curation.info
    copies = info["counts"]["exact"] + info["counts"]["near"]
    if not copies:
        return ["None of them is a copy of another."]
    threshold = f"{info['threshold']:.4f}"
    near = f"Near copies are those with a cosine of {threshold} and more"
    if info["settings"]["threshold"] is None:
        near += ": look at the pairs below, and choose another threshold where it is wrong"
    return [
        f"{copies:,} of them are copies of others, which leaves {info['counts']['keep']:,}.",
        f"{near}.",
    ]


def _odd(count: int) -> list[str]:
    if count == 0:
        return []
    if count == 1:
        return ["1 image lies far from all others: look whether it belongs here."]
    return [f"{count:,} images lie far from all others: look whether they belong here."]


def again(curation: Curation, command: Sequence[str] | None) -> str:
    """Return the command that curates with another threshold, up to the value.

    Args:
        curation: The curation.
        command: The words of the command that made it; None where it was made in Python.
    """
    info = curation.info
    if command is None:
        command = ["amcl", "curate", info["model"]["name"], "--data", info["data"]["source"]]
    words: list[str] = []
    is_value = False  # of an option that gets another one
    for word in command:
        option, equals, _ = word.partition("=")
        if not is_value and option not in _REPLACED:
            words.append(word)
        is_value = not is_value and option in _REPLACED and not equals
    folder = curation.folder
    words += ["--out", str(_new(folder)), "--reuse", str(folder)]
    if info["settings"]["link"] is not None:
        words += ["--link", str(_new(Path(info["settings"]["link"])))]
    return f"{shlex.join(words)} --threshold "


def _new(folder: Path) -> Path:
    """Return a folder of a similar name that does not exist."""
    return free_path(folder.with_name(f"{folder.name}-2"))


def _left_out(curation: Curation) -> list[str]:
    return [
        f"The table has no column of {', '.join(names).replace('_', ' ')}: {reason}."
        for reason, names in by_reason(curation.info["left_out"]).items()
    ]
