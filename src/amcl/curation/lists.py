"""Lists of images to act on: a path on each line, relative to the folder of the images."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from amcl.curation.result import Curation
from amcl.files import write_text

OUTLIER = "far from all other images"


def write_lists(curation: Curation, label_first: Sequence[int], selected: Sequence[int]) -> None:
    """Write `keep.txt`, `drop.txt`, `review.txt`, `label_first.txt` and `selected.txt`.

    Lines of `review.txt` have a reason behind a tab. Control characters in names, and bytes that
    are not UTF-8, are written as escapes, as everywhere in the table.

    Args:
        curation: The curation.
        label_first: Rows to label first, in this order.
        selected: Rows that are selected, in this order; without any, there is no list of them.
    """
    paths = curation["path"]
    keep = curation["keep"]
    review = [(path, reason) for path, reason in curation.info["data"]["unreadable"]]
    odd = sorted(curation.rows("outlier"), key=lambda row: curation["outlier_rank"][row])
    review += [(paths[row], OUTLIER) for row in odd]
    lists: dict[str, Iterable[str]] = {
        "keep": [path for path, kept in zip(paths, keep, strict=True) if kept],
        "drop": [path for path, kept in zip(paths, keep, strict=True) if not kept],
        "review": [f"{path}\t{reason}" for path, reason in review],
        "label_first": [paths[row] for row in label_first],
    }
    if selected:
        lists["selected"] = [paths[row] for row in selected]
    for name, lines in lists.items():
        write_text(list_file(curation.folder, name), "".join(f"{line}\n" for line in lines))


def list_file(folder: Path, name: str) -> Path:
    """Return the file of a list.

    >>> list_file(Path("curation"), "keep").name
    'keep.txt'
    """
    return folder / f"{name}.txt"
