"""The page of a curation, as one file."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from amcl.analysis import plane
from amcl.curation import COLUMNS, Curation
from amcl.data import FileImages, Images, default_workers, load_all_images
from amcl.data.display import Bands
from amcl.files import write_text
from amcl.printable import printable
from amcl.report.curation.galleries import Gallery, galleries, rows_to_show, thresholds
from amcl.report.curation.thumbnails import SIDE, thumbnail_uris
from amcl.report.curation.words import again, facts, lead
from amcl.report.maps import scaled
from amcl.report.page import check_replaceable
from amcl.report.render import render

FILE = "curation.html"
MOST_IMAGES = 4000
"""Images that a page shows."""
BUDGET = 16 * 2**20
"""Characters of all thumbnails."""


@dataclass(frozen=True)
class _Section:
    """A part of the page."""

    title: str
    anchor: str


def curation_page(
    curation: Curation,
    *,
    data_root: Path | None = None,
    workers: int | None = None,
    command: Sequence[str] | None = None,
    bands: Bands | None = None,
) -> Path:
    """Write a page on a curation, `curation.html` in its folder.

    It is one file without requests to anywhere. Of more than 4,000 images it shows those of the
    galleries, then some that are drawn, and says so; thumbnails take at most 16 MiB.

    Args:
        curation: The curation.
        data_root: Folder of named sets.
        workers: Processes that decode pictures; None for one a core.
        command: Words of the command that made the curation, for the one that applies another
            threshold; None for those of the default options.
        bands: Channels that pictures show as red, green and blue, counted from 1; None for the
            first three, and for the first in gray where there are one or two.

    Returns:
        The path of the page.

    Raises:
        RunError: There is a file of this name that is no such page.

    Example:
        >>> from amcl.curation import read_curation
        >>> curation_page(read_curation("curation"))  # doctest: +SKIP
        PosixPath('curation/curation.html')
    """
    path = curation.folder / FILE
    check_replaceable(path)
    shown = galleries(curation)
    rows = rows_to_show(curation, shown, MOST_IMAGES)
    others = list(dict.fromkeys(i.other for g in shown for i in g.items if i.other))
    pictures = _Pictures(data_root, default_workers() if workers is None else workers, bands)
    uris = pictures.of_rows(curation, rows)
    uris += pictures.of_others(curation, others, BUDGET - sum(map(len, uris)))
    data = _data(curation, shown, rows, others)
    data |= {"pictures": uris, "again": again(curation, command)}
    write_text(path, _html(curation, shown, data))
    return path


@dataclass(frozen=True)
class _Pictures:
    """Thumbnails from the sets that a curation is of."""

    data_root: Path | None
    workers: int
    bands: Bands | None

    def of_rows(self, curation: Curation, rows: Sequence[int]) -> list[str]:
        images, names = self._load(curation, curation.info["data"]["source"])
        # Rows are the images that could be read, in their order.
        readable: list[int] = []
        for index, name in enumerate(names):
            if len(readable) < len(curation) and name == curation["path"][len(readable)]:
                readable.append(index)
        if len(readable) < len(curation):
            raise ValueError(
                f"{curation.info['data']['source']} holds other images than those of "
                f"{curation.folder}: curate into a new folder."
            )
        shown = [readable[row] for row in rows]
        return thumbnail_uris(images, shown, BUDGET, self.workers, self.bands)

    def of_others(self, curation: Curation, others: Sequence[str], budget: int) -> list[str]:
        if not others:
            return []
        source = curation.info["settings"]["against"]
        if source is None:
            raise ValueError(f"{curation.folder} is damaged: it has leaks, and no other set.")
        images, names = self._load(curation, source)
        indices = {name: index for index, name in enumerate(names)}
        if unknown := next((name for name in others if name not in indices), None):
            raise ValueError(f"{source} has no {unknown!r:.60} anymore: curate into a new folder.")
        shown = [indices[name] for name in others]
        return thumbnail_uris(images, shown, budget, self.workers, self.bands)

    def _load(self, curation: Curation, source: str) -> tuple[Images, list[str]]:
        size = curation.info["model"]["image_size"]
        loaded = load_all_images(source, root=self.data_root, image_size=size)
        images = loaded.images
        if isinstance(images, FileImages):
            images = FileImages(images.records, SIDE, images.pixels)
        return images, [printable(name) for name in loaded.names]


def _data(
    curation: Curation, shown: Sequence[Gallery], rows: Sequence[int], others: Sequence[str]
) -> dict[str, Any]:
    """Return what the script of the page works on; images are numbered in the order of `rows`."""
    number = {row: i for i, row in enumerate(rows)}
    number_of_other = {path: len(rows) + i for i, path in enumerate(others)}

    def items(gallery: Gallery) -> list[Any]:
        return [
            [
                [number[r] for r in item.rows] + [number_of_other[o] for o in [item.other] if o],
                list(item.lines),
            ]
            for item in gallery.items
            if all(row in number for row in item.rows)
        ]

    def pairs(of: Sequence[tuple[int, int, float]]) -> list[Any]:
        return [[number[i], number[j], c] for i, j, c in of if i in number and j in number]

    choices = zip(curation.info["thresholds"], thresholds(curation), strict=True)
    return {
        "columns": {
            name: [_rounded(curation[name][row]) for row in rows]
            for name in COLUMNS
            if name in curation.table
        },
        "others": list(others),
        "galleries": {gallery.anchor: items(gallery) for gallery in shown},
        "thresholds": [
            {**each, "above": pairs(around.above), "below": pairs(around.below)}
            for each, around in choices
        ],
        "threshold": curation.info["threshold"],
        "readable": len(curation),
        "histogram": curation.info["histogram"],
        "points": _points(curation, rows),
        "folder": _folder(curation),
    }


def _points(curation: Curation, rows: Sequence[int]) -> list[list[float]]:
    """Return positions on a plane; none for fewer than two images."""
    if len(rows) < 2:
        return []
    points: list[list[float]] = scaled(plane(curation.features()[list(rows)])).tolist()
    return points


def _folder(curation: Curation) -> str | None:
    """Return the address of the folder of images, relative to the page; None if they are none."""
    source = Path(curation.info["data"]["source"])
    if not source.is_dir() or not curation.rows("path", curation["path"][0]):
        return None
    return quote(os.fsencode(os.path.relpath(source, curation.folder)))


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _html(curation: Curation, shown: Sequence[Gallery], data: dict[str, Any]) -> str:
    from markupsafe import Markup

    # Nothing in the data can end the element that it stands in.
    text = json.dumps(data, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    source = curation.info["data"]["source"]
    unreadable = curation.info["data"]["unreadable"]
    sections = [_Section(gallery.title, gallery.anchor) for gallery in shown]
    if any(curation.info["histogram"]["counts"]):  # of two images and more
        sections.insert(2, _Section("Threshold", "threshold"))
    if unreadable:
        after = [section.anchor for section in sections].index("odd") + 1
        sections.insert(after, _Section("Unreadable", "unreadable"))
    if data["points"]:
        sections.append(_Section("Map", "map"))
    sections.append(_Section("All images", "all"))
    page = {
        "title": f"Curation of {printable(Path(source).name or source)}",
        "subtitle": "",
        "facts": facts(curation),
        "sections": sections,
        "footer": f"Made from {printable(str(curation.folder))} by `amcl curate`.",
    }
    return render(
        "curation.html",
        page,
        styles=("page.css", "curation.css"),
        scripts=("common.js", "curation.js"),
        lead=lead(curation),
        galleries={gallery.anchor: gallery for gallery in shown},
        unreadable=unreadable,
        shown=len(data["columns"]["path"]),
        readable=len(curation),
        pictured=sum(map(bool, data["pictures"][: len(data["columns"]["path"])])),
        pairs_left_out=curation.info["pairs_left_out"],
        data=Markup(text),
    )
