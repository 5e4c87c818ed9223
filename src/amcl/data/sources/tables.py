"""Tables: Parquet files, and Arrow files as `save_to_disk` of Hugging Face writes them."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TypedDict

import numpy as np

from amcl.data.listing import Listing
from amcl.data.packed import PackedSource
from amcl.data.source import register_source
from amcl.data.tables.readers import Reader, TableFile, open_table
from amcl.data.tables.records import Table, TableRecords
from amcl.files import expand_home
from amcl.printable import printable
from amcl.progress import Progress
from amcl.text_files import read_json, require

_STATE = "state.json"  # of a folder of `save_to_disk`: which of its files belong to it
_LARGE_GROUP = 2**24  # bytes, which take as long to read as an image takes to decode, or longer


class _Named(TypedDict):
    filename: str


class _State(TypedDict):
    _data_files: list[_Named]


@register_source("tables")
class Tables(PackedSource):
    """Tables with a column of encoded images, by a file, a folder or a pattern."""

    endings = (".parquet", ".arrow")
    label_kind = "a column `label`"

    @cached_property
    def files(self) -> list[Path]:
        """All files; of a folder, those that belong to the data set."""
        files = super().files
        return _of_data_set(files) if expand_home(self.location).is_dir() else files

    def open(self, files: Sequence[Path]) -> Listing:
        """List the images in some tables."""
        tables = []
        damaged = []
        warnings: dict[str, None] = {}
        with Progress("reading tables", len(files)) as progress:
            for path in files:
                try:
                    file = TableFile.of(path)
                    reader = open_table(file)
                    tables.append(Table(file, sum(reader.rows), *reader.labels()))
                    warnings |= dict.fromkeys(_warnings(reader, file))
                except (OSError, ValueError) as error:
                    damaged.append((printable(str(path)), str(error)))
                progress.advance(1)
        return Listing(TableRecords(tables), unreadable=tuple(damaged), warnings=tuple(warnings))


def _of_data_set(files: list[Path]) -> list[Path]:
    """Return the files that belong to a data set, without those of the cache of `datasets`."""
    chosen = []
    members: dict[Path, set[str] | None] = {}
    for file in files:
        folder = file.parent
        if folder not in members:
            members[folder] = _members(folder / _STATE)
        names = members[folder]
        if file.name in names if names is not None else not file.name.startswith("cache-"):
            chosen.append(file)
    return chosen


def _members(state: Path) -> set[str] | None:
    if not state.is_file():
        return None
    content = read_json(state)
    require(content, _State, state)
    if content.get("_indices_data_files") or content.get("_indices_files"):
        raise ValueError(
            f"{state.parent} holds a selection of another table: save it again with "
            "flatten_indices().save_to_disk(…)."
        )
    return {file["filename"] for file in content["_data_files"]}


def _warnings(reader: Reader, file: TableFile) -> list[str]:
    columns = reader.columns
    lines = []
    if columns.others:
        others = ", ".join(map(printable, columns.others))
        lines.append(f"The labels are those of the column {columns.label!r}, not of {others}.")
    share = max(reader.rows, default=0) / max(int(np.sum(reader.rows)), 1)
    if file.path.endswith(".parquet") and share * file.size > _LARGE_GROUP:
        lines.append(
            f"{printable(file.path)} and files like it have groups of rows of about "
            f"{share * file.size / 2**20:.0f} MiB, and a whole one is read for an image: write "
            "smaller groups (row_group_size=100), or pack the images with `amcl data pack`."
        )
    return lines
