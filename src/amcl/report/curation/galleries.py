"""Galleries of a curation: which images stand in which, and what is said of them."""

import csv
import io
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from amcl.curation import Curation
from amcl.curation.lists import OUTLIER
from amcl.curation.neighbors import unit_features
from amcl.files import open_own
from amcl.printable import counted

MOST_GROUPS = 150
MOST_MEMBERS = 6  # of a group
MOST_ITEMS = 200  # of other galleries
MOST_HIGHEST = 48  # images with the highest values of a column
MOST_FARTHEST = 24  # least typical images, where none is an outlier
MOST_PAIRS = 12  # on each side of a threshold
_ODD = (
    "Damaged images are often among them, and so are rare ones that are worth keeping; foreign "
    "images that resemble each other are not."
)


@dataclass(frozen=True)
class Item:
    """Images side by side, and lines of text below."""

    rows: Sequence[int]
    """Rows of the images."""
    lines: Sequence[str]
    """Lines of text."""
    other: str = ""
    """Path of an image of the other set that stands last; "" for none."""


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Images with something in common."""

    anchor: str
    """Name of the section."""
    title: str
    """Title of the section."""
    note: str
    """Text below the title."""
    items: Sequence[Item]
    """What is shown, the first to look at first."""
    total: int | None = None
    """Number of items that there are; None where every image has a place in the order."""
    empty: str
    """Text where there are none."""


@dataclass(frozen=True)
class Threshold:
    """Pairs of images around a threshold."""

    above: Sequence[tuple[int, int, float]]
    """The least similar pairs that it calls copies, the least similar first."""
    below: Sequence[tuple[int, int, float]]
    """The most similar pairs that it does not."""


def galleries(curation: Curation) -> list[Gallery]:
    """Return the galleries, copies and odd images first, columns of temperatures last.

    Args:
        curation: The curation.
    """
    made = [_exact(curation), _near(curation), _odd(curation)]
    if "leaks" in curation.info["counts"]:
        made.append(_leaks(curation))
    made.append(_label_first(curation))
    if "selected" in curation.table:
        made.append(_selected(curation))
    if "ambiguity" in curation.table:
        made.append(
            _highest(
                curation,
                "ambiguity",
                "Ambiguous",
                "",
                "Above 0, views of other images are more similar to the model than two views of "
                "the image itself.",
            )
        )
    if "uncertainty" in curation.table:
        made.append(
            _highest(
                curation,
                "uncertainty",
                "Uncertain",
                "τ⁺",
                "τ⁺, the temperature that the method gives to two views of the image: a variance "
                "that it has learned without labels. It is high where crops of the image differ, "
                "and no sign that something is wrong with it.",
            )
        )
    return made


def thresholds(curation: Curation) -> list[Threshold]:
    """Return the pairs to look at around each of the five thresholds.

    Args:
        curation: The curation.
    """
    pairs = curation.info["pairs"]
    around = []
    for each in curation.info["thresholds"]:
        end = sum(cosine >= each["cosine"] for _, _, cosine in pairs)
        around.append(Threshold(_of_different(pairs[:end][::-1]), _of_different(pairs[end:])))
    return around


def rows_to_show(curation: Curation, shown: Sequence[Gallery], most: int) -> list[int]:
    """Return the rows that the page shows, the most important first.

    Args:
        curation: The curation.
        shown: The galleries.
        most: Number of rows, at most. Where galleries have fewer, the rest is drawn.
    """
    rows = dict.fromkeys(row for gallery in shown for item in gallery.items for row in item.rows)
    rows |= dict.fromkeys(
        row
        for each in thresholds(curation)
        for first, second, _ in (*each.above, *each.below)
        for row in (first, second)
    )
    rest = [row for row in range(len(curation)) if row not in rows]
    return [*rows, *random.Random(0).sample(rest, max(0, min(len(rest), most - len(rows))))][:most]


def _of_different(
    pairs: Sequence[tuple[int, int, float]],
) -> list[tuple[int, int, float]]:
    """Return the first pairs, no image twice: a large group would fill all places."""
    chosen: list[tuple[int, int, float]] = []
    seen: set[int] = set()
    for first, second, cosine in pairs:
        if first not in seen and second not in seen:
            chosen.append((first, second, cosine))
            seen |= {first, second}
        if len(chosen) == MOST_PAIRS:
            break
    return chosen


def _exact(curation: Curation) -> Gallery:
    return _groups(
        curation,
        kind="exact",
        title="Exact copies",
        note="The same bytes or the same pixels. The first image of each group is kept.",
        empty="No two images have the same bytes or the same pixels.",
    )


def _near(curation: Curation) -> Gallery:
    cosine = f"{curation.info['threshold']:.4f}"
    return _groups(
        curation,
        kind="near",
        title="Near copies",
        note=f"Images with a cosine of at least {cosine} with the one that is kept, which stands "
        "first: the least similar groups first.",
        empty=f"No two images of different content have a cosine of {cosine} and more.",
    )


def _groups(curation: Curation, *, kind: str, title: str, note: str, empty: str) -> Gallery:
    """Return a gallery of groups that have copies of a kind, those of that kind alone."""
    members: dict[int, list[int]] = {}
    for row in curation.rows("duplicate_kind", kind):
        members.setdefault(curation["duplicate_group"][row], []).append(row)
    kept = {
        curation["duplicate_group"][row]: row
        for row in curation.rows("keep")
        if curation["duplicate_group"][row] in members
    }
    least = {group: _least_cosine(curation, kept[group], rows) for group, rows in members.items()}
    order = sorted(members, key=lambda group: (least[group], -len(members[group]), group))
    items = []
    for group in order[:MOST_GROUPS]:
        rows = members[group]
        lines = [f"{counted(len(rows), 'copy', 'copies')} to leave out"]
        if len(rows) >= MOST_MEMBERS:
            lines[0] += f", {MOST_MEMBERS - 1} of them shown"
        if kind == "near":
            lines.append(f"cosine {least[group]:.4f}" + (" and more" if len(rows) > 1 else ""))
        items.append(Item([kept[group], *rows[: MOST_MEMBERS - 1]], lines))
    return Gallery(
        anchor=kind, title=title, note=note, items=items, total=len(members), empty=empty
    )


def _least_cosine(curation: Curation, kept: int, rows: Sequence[int]) -> float:
    features = unit_features(curation.features()[[kept, *rows]])
    return float((features[1:] @ features[0]).min())


def _odd(curation: Curation) -> Gallery:
    """Return the gallery of outliers; without any, that of the least typical images."""
    if not curation.info["counts"]["outliers"] and len(curation) > 1:
        return _least_typical(curation)
    rows = sorted(curation.rows("outlier"), key=lambda row: curation["outlier_rank"][row])
    items = [
        Item([row], [f"typicality {curation['typicality'][row]:.3f}"]) for row in rows[:MOST_ITEMS]
    ]
    return Gallery(
        anchor="odd",
        title="Odd images",
        note=f"They lie {OUTLIER}, the farthest first. {_ODD}",
        items=items,
        total=len(rows),
        empty="No image lies far from all others.",
    )


def _least_typical(curation: Curation) -> Gallery:
    rows = sorted(curation.rows("keep"), key=lambda row: curation["outlier_rank"][row])
    typical = curation["typicality"]
    return Gallery(
        anchor="odd",
        title="Odd images",
        note="No image lies far from all others. These are the least typical, by outlier_rank. "
        + _ODD,
        items=[Item([row], [f"typicality {typical[row]:.3f}"]) for row in rows[:MOST_FARTHEST]],
        empty="",
    )


def _leaks(curation: Curation) -> Gallery:
    file = curation.folder / "leaks.csv"
    against = curation.info["settings"]["against"]
    rows = {path: row for row, path in reversed(list(enumerate(curation["path"])))}
    with open_own(file, "r") as text:
        table = list(csv.DictReader(io.StringIO(text.read())))
    # Exact copies are certain, and of near ones the most similar are the surest.
    table.sort(key=lambda line: (line.get("kind") != "exact", -_number(line.get("cosine"), file)))
    items = []
    for line in table[:MOST_ITEMS]:
        path, other, kind = (line.get(name) for name in ("path", "other", "kind"))
        if path not in rows or other is None:
            raise ValueError(f"{file} is damaged: {path!r:.60} is no image of the table.")
        items.append(Item([rows[path]], [f"{kind}, cosine {line.get('cosine')}"], other))
    return Gallery(
        anchor="leaks",
        title="In both sets",
        note=f"On the left an image, on the right its copy in {against}: results on one set say "
        "too much of a model that was trained on the other. Exact copies come first, then the most "
        "similar.",
        items=items,
        total=len(table),
        empty=f"No image stands in {against} too.",
    )


def _number(text: str | None, file: Path) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise ValueError(f"{file} is damaged: {text!r:.60} is no cosine.") from None


def _label_first(curation: Curation) -> Gallery:
    rows = curation.info["label_first"]
    items = [
        Item([row], [f"rank {rank}, cluster {curation['cluster'][row]}"])
        for rank, row in enumerate(rows[:MOST_ITEMS], 1)
    ]
    return Gallery(
        anchor="label-first",
        title="Label first",
        note="The most typical image of each of as many clusters as there are places, that of the "
        "largest first: label_first.txt.",
        items=items,
        total=len(rows),
        empty="--label-first 0 asks for none.",
    )


def _selected(curation: Curation) -> Gallery:
    rank = curation["selected"]
    rows = sorted((row for row in range(len(curation)) if rank[row]), key=lambda row: rank[row])
    rule = curation.info["settings"]["by"] or "diverse"
    return Gallery(
        anchor="selected",
        title="Selected",
        note=f"By the rule {rule}, in the order of selection: selected.txt.",
        items=[Item([row], [f"rank {rank[row]}"]) for row in rows[:MOST_ITEMS]],
        total=len(rows),
        empty="",
    )


def _highest(curation: Curation, column: str, title: str, symbol: str, note: str) -> Gallery:
    values = curation[column]
    rows = [row for row in curation.rows("keep") if values[row] is not None]
    rows.sort(key=lambda row: -values[row])
    return Gallery(
        anchor=column,
        title=title,
        note=f"{note} The highest first.",
        items=[Item([row], [f"{symbol} {values[row]:.3f}".strip()]) for row in rows[:MOST_HIGHEST]],
        empty="No image has a value.",
    )
