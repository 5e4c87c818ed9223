"""The result of a curation: a table with a row for each image, and what was done to make it.

The folder of a curation holds

- `curation.csv`, and with the extra `parquet` `curation.parquet`: the table;
- `curation.json`: settings, counts, thresholds, a histogram and pairs of similar images;
- `keep.txt`, `drop.txt`, `review.txt`, `label_first.txt`, and `selected.txt` and `leaks.csv` where
  these were asked for;
- `settings.json` and `measured/`, which let the same command resume.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict, cast

import numpy as np
import torch

from amcl.errors import RunError
from amcl.extras import missing
from amcl.files import open_own, whole_file, write_text
from amcl.text_files import read_json, require, to_json

FORMAT = 1
COLUMNS: dict[str, type] = {
    "path": str,
    "width": int,
    "height": int,
    "bytes": int,
    "uncertainty": float,
    "uncertainty_spread": float,
    "ambiguity": float,
    "nearest": str,
    "nearest_cosine": float,
    "duplicate_group": int,
    "duplicate_kind": str,
    "typicality": float,
    "outlier_rank": int,
    "outlier": bool,
    "cluster": int,
    "keep": bool,
    "reason": str,
    "selected": int,
}
"""Types of the columns in their order. Empty cells are None."""
_BOOLS = {"true": True, "false": False}


class ThresholdInfo(TypedDict):
    """A threshold of near copies, and what it would mean."""

    cosine: float
    """The threshold."""
    images: int
    """Number of images whose nearest other image is at least as similar, exact copies
    left out."""
    dropped: int
    """Number of images that would be left out as exact or near copies."""


class Histogram(TypedDict):
    """Number of images by the cosine of their nearest other image, exact copies left out."""

    edges: list[float]
    """Ends of the bins, ascending; they are narrower towards 1."""
    counts: list[int]
    """Number of images in each bin."""


class ModelInfo(TypedDict):
    """The model."""

    name: str
    fingerprint: str
    image_size: int


class DataInfo(TypedDict):
    """The images."""

    source: str
    """Folder or name of the set, as absolute path."""
    fingerprint: str
    images: int
    """Number of images, unreadable ones among them."""
    unreadable: list[tuple[str, str]]
    """Path and reason of each image that cannot be read."""


class SettingsInfo(TypedDict):
    """Settings by the names of their options."""

    threshold: float | None
    pairs: int
    neighbors: int
    clusters: int | None
    label_first: int
    select: int | None
    by: str | None
    seed: int
    against: str | None
    """The other set, as absolute path."""
    link: str | None
    """Folder of links, as absolute path."""
    export: list[str]


class Counts(TypedDict):
    """Numbers of images, and of groups of copies."""

    images: int
    """Unreadable ones among them."""
    unreadable: int
    exact: int
    near: int
    groups: int
    outliers: int
    keep: int
    selected: int
    leaks: NotRequired[int]
    """Images that stand in the other set, where there is one."""


class Info(TypedDict):
    """Content of `curation.json`."""

    format: int
    settings: SettingsInfo
    model: ModelInfo
    data: DataInfo
    left_out: dict[str, str]
    """Columns that there are not, with the reason."""
    counts: Counts
    threshold: float
    """Cosine from which two images are near copies."""
    thresholds: list[ThresholdInfo]
    """Five thresholds to choose from, ascending; the third is `threshold`."""
    histogram: Histogram
    pairs: list[tuple[int, int, float]]
    """Rows of two images and their cosine, the most similar first, from the lowest of the five
    thresholds on; exact copies are represented by the one that is kept."""
    pairs_left_out: int
    """Number of less similar pairs above the lowest threshold that are not listed."""
    label_first: list[int]
    """Rows to label first, in this order."""
    measured: str
    """Folder with what was measured of the images, relative to that of the curation: another one
    where `--reuse` took it over."""
    features: str
    """File with the features of the rows, float32 (n, D), as NumPy saves them."""


@dataclass(frozen=True)
class Curation:
    """A curation that is done.

    Args:
        folder: Its folder.
        table: The columns that there are, by name; see `COLUMNS`.
        info: Content of `curation.json`.

    Example:
        >>> table = {"path": ["a.png", "b.png"], "typicality": [0.5, None]}
        >>> curation = Curation(Path("curation"), table, {})
        >>> len(curation), curation["path"][0], curation.tensor("typicality")
        (2, 'a.png', tensor([0.5000,    nan]))
    """

    folder: Path
    table: Mapping[str, list[Any]]
    info: Info

    def __len__(self) -> int:
        return len(self.table["path"])

    def __getitem__(self, column: str) -> list[Any]:
        if column not in self.table:
            reason = self.info.get("left_out", {}).get(column)
            why = f": {reason}" if reason else f", only {', '.join(self.table)}."
            raise KeyError(f"there is no column {column!r}{why}")
        return self.table[column]

    def tensor(self, column: str) -> torch.Tensor:
        """Return a column of numbers, float32; NaN for empty cells."""
        if COLUMNS[column] is str:
            raise ValueError(f"column {column!r} has texts: use curation[{column!r}].")
        return torch.tensor([float("nan") if v is None else float(v) for v in self[column]])

    def features(self) -> torch.Tensor:
        """Return the features (n, D) of the rows, mapped from the file that `info` names."""
        file = self.info["features"]
        try:
            values = np.load(file, mmap_mode="c", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise RunError(
                f"the features of {self.folder} cannot be read ({error}): curate again into a new "
                "folder."
            ) from error
        if values.ndim != 2 or len(values) != len(self) or values.dtype != np.float32:
            raise RunError(f"{file} does not hold the features of {self.folder}.")
        return torch.from_numpy(values)

    def rows(self, column: str, value: object = True) -> list[int]:
        """Return the rows that have a value in a column."""
        return [row for row, each in enumerate(self[column]) if each == value]


def write_curation(curation: Curation) -> None:
    """Write the table and, last, `curation.json`: where it exists, the curation is complete."""
    folder = curation.folder
    columns = {name: curation.table[name] for name in COLUMNS if name in curation.table}
    write_text(folder / "curation.csv", _to_csv(columns))
    if not missing("pyarrow"):
        _write_parquet(folder / "curation.parquet", columns)
    write_text(folder / "curation.json", to_json(curation.info, indent=1) + "\n")


def read_curation(folder: str | Path) -> Curation:
    """Return the curation in a folder.

    Args:
        folder: The folder that `amcl curate` wrote.

    Returns:
        The curation. Files of others are checked as they are read.

    Raises:
        RunError: The curation is not complete.
        ValueError: A file is damaged.

    Example:
        >>> read_curation("no such folder")
        Traceback (most recent call last):
        amcl.errors.RunError: no such folder has no curation.json: run amcl curate to its end.
    """
    path = Path(folder)
    file = path / "curation.json"
    if not file.is_file():
        raise RunError(f"{path} has no {file.name}: run amcl curate to its end.")
    info = read_json(file)
    require(info, Info, file)
    if info["format"] != FORMAT:
        raise ValueError(f"{file} is of another version of amcl: curate into a new folder.")
    table = _read_csv(path / "curation.csv")
    n = len(table["path"])
    for first, second, _ in info["pairs"]:
        if not (0 <= first < n and 0 <= second < n):
            raise ValueError(f"{file} is damaged: a pair is of row {max(first, second)} of {n}.")
    if not all(0 <= row < n for row in info["label_first"]):
        raise ValueError(f"{file} is damaged: an image to label first is none of {n} rows.")
    if info["threshold"] not in [each["cosine"] for each in info["thresholds"]]:
        raise ValueError(f"{file} is damaged: its threshold is none of the five.")
    edges = info["histogram"]["edges"]
    if edges != sorted(edges) or len(edges) != len(info["histogram"]["counts"]) + 1:
        raise ValueError(f"{file} is damaged: the bins of its histogram are not in order.")
    return Curation(path, table, cast(Info, info))


def _to_csv(columns: Mapping[str, list[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _read_csv(file: Path) -> dict[str, list[Any]]:
    if not file.is_file():
        raise RunError(f"there is no {file}: run amcl curate into a new folder.")
    with open_own(file, "r") as text:
        try:
            header, *rows = csv.reader(io.StringIO(text.read()), strict=True)
        except (csv.Error, ValueError) as error:
            raise ValueError(f"{file} is damaged: it is no table ({error}).") from None
    unknown = sorted(set(header) - COLUMNS.keys())
    if unknown or "path" not in header or len(set(header)) < len(header):
        raise ValueError(f"{file} is damaged: its columns are {', '.join(header)!r:.200}.")
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"{file} is damaged: its rows differ in length.")
    try:
        return {
            name: [_parse(row[i], COLUMNS[name]) for row in rows] for i, name in enumerate(header)
        }
    except (ValueError, KeyError) as error:
        raise ValueError(f"{file} is damaged: {error} is no value of its column.") from None


def _parse(cell: str, kind: type) -> Any:
    if kind is str:
        return cell
    if not cell:
        return None
    return _BOOLS[cell] if kind is bool else kind(cell)


def _write_parquet(path: Path, columns: Mapping[str, list[Any]]) -> None:
    import pyarrow
    from pyarrow import parquet

    kinds = {
        str: pyarrow.string(),
        int: pyarrow.int64(),
        float: pyarrow.float32(),
        bool: pyarrow.bool_(),
    }
    arrays = [pyarrow.array(values, kinds[COLUMNS[name]]) for name, values in columns.items()]
    with whole_file(path) as file:
        parquet.write_table(pyarrow.Table.from_arrays(arrays, names=list(columns)), file)
