"""The result of a curation in a few lines."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from amcl.curation.exports import FOLDER
from amcl.curation.lists import list_file
from amcl.curation.result import Curation
from amcl.printable import counted

_EXAMPLES = 3


def summary(curation: Curation) -> str:
    """Return what was learned of the images, in a few lines.

    Args:
        curation: The curation.
    """
    info = curation.info
    counts = info["counts"]
    lines = [
        f"{counted(counts['images'], 'image')} in {info['data']['source']}",
        f"  {counted(counts['exact'], 'exact copy', 'exact copies')} and "
        f"{counts['near']:,} near (cosine {info['threshold']:.4f} and more), in "
        f"{counted(counts['groups'], 'group')}: {counts['keep']:,} left without them",
        f"  {counted(counts['outliers'], 'outlier')} far from all other images"
        + _examples(curation, "outlier_rank", lowest=True, flagged="outlier"),
    ]
    if not counts["outliers"] and len(curation) > 1:
        least = _examples(curation, "outlier_rank", lowest=True, flagged="keep")
        lines.append(f"  least typical{least}")
    if counts["unreadable"]:
        lines.append(f"  {counted(counts['unreadable'], 'image')} cannot be read")
    for column, name in (("uncertainty", "uncertain"), ("ambiguity", "ambiguous")):
        if column in curation.table and (examples := _examples(curation, column)):
            lines.append(f"  most {name}{examples}")
    if "leaks" in counts:
        lines.append(
            f"  {counted(counts['leaks'], 'image')} also in {info['settings']['against']}: "
            f"{curation.folder / 'leaks.csv'}"
        )
    if any(info["histogram"]["counts"]):
        choices = (f"{each['cosine']:.4f} ({each['dropped']:,})" for each in info["thresholds"])
        lines.append(f"  left out as copies at each of five thresholds: {', '.join(choices)}")
    return "\n".join([*lines, *_next_steps(curation)])


def _examples(
    curation: Curation, column: str, *, lowest: bool = False, flagged: str | None = None
) -> str:
    rows = list(range(len(curation))) if flagged is None else curation.rows(flagged)
    values = [(curation[column][row], row) for row in rows if curation[column][row] is not None]
    best: Sequence[tuple[float, int]] = sorted(values, reverse=not lowest)[:_EXAMPLES]
    return f": {', '.join(curation['path'][row] for _, row in best)}" if best else ""


def _next_steps(curation: Curation) -> list[str]:
    folder = curation.folder

    def name(which: str) -> str:
        return str(list_file(folder, which))

    lines = [
        f"table: {folder / 'curation.csv'}",
        f"lists: {name('keep')}, drop.txt (copies to leave out), review.txt (to look at: odd or "
        "unreadable), label_first.txt (to label first)",
    ]
    if curation.info["counts"]["selected"]:
        lines.append(f"selected: {name('selected')}")
    settings = curation.info["settings"]
    if settings["export"]:
        lines.append(f"for {', '.join(settings['export'])}: {folder / FOLDER}")
    then = "use keep.txt"
    if settings["link"] is not None:
        which = "selected" if curation.info["counts"]["selected"] else "kept"
        lines.append(f"links to the images that are {which}: {settings['link']}")
    else:
        then += f", or run again with --link NEW_FOLDER --out OTHER --reuse {_quoted(folder)}"
    lines.append(
        f"Nothing was moved or deleted. Look at review.txt and at groups in the table, then {then}."
    )
    return lines


def _quoted(folder: Path) -> str:
    return shlex.quote(str(folder))
