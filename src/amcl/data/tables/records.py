"""Encoded images in tables, by number."""

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from amcl.data.packed import NO_LABEL, PackedRecords
from amcl.data.tables.readers import TableFile, read_image

_ROW = np.dtype([("table", "<i4"), ("label", "<i4"), ("row", "<i8")])


@dataclass(frozen=True)
class TableRecord:
    """An image in a table.

    Args:
        file: The table.
        row: Its row.
        size: About the number of its bytes.
    """

    file: TableFile
    row: int
    size: int

    @property
    def name(self) -> str:
        """Path of the table, and row in it."""
        return f"{self.file.path}/{self.row}"

    def open(self) -> BinaryIO:
        """Open it for reading, or raise an error whose message is the reason."""
        return io.BytesIO(read_image(self.file, self.row))


@dataclass(frozen=True, eq=False)
class Table:
    """A table whose rows are images.

    Args:
        file: Its file.
        count: Number of its rows.
        labels: Number (N,) in `texts` of the label of each image; empty if it has none.
        texts: Different texts of labels.
    """

    file: TableFile
    count: int
    labels: NDArray[Any]
    texts: tuple[str, ...]


class TableRecords(PackedRecords):
    """Images in tables: 16 bytes for each of them, which worker processes share.

    Args:
        tables: The tables.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self._files = tuple(table.file for table in tables)
        self._counts = tuple(table.count for table in tables)
        self.texts = tuple(dict.fromkeys(text for table in tables for text in table.texts))
        self._rows: NDArray[Any] = np.empty(sum(self._counts), _ROW)
        numbers = {text: number for number, text in enumerate(self.texts)}
        start = 0
        for number, table in enumerate(tables):
            rows = self._rows[start : start + table.count]
            rows["table"] = number
            rows["row"] = np.arange(table.count)
            rows["label"] = NO_LABEL
            if len(table.labels):
                # The last one is that of NO_LABEL, which is -1.
                texts = np.array([*(numbers[text] for text in table.texts), NO_LABEL])
                rows["label"] = texts[table.labels]
            start += table.count

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> TableRecord:
        row = self._rows[index]
        table = int(row["table"])
        file = self._files[table]
        return TableRecord(file, int(row["row"]), file.size // max(self._counts[table], 1))

    @property
    def labels(self) -> NDArray[Any]:
        """Number (N,) in `texts` of the label of each image; `NO_LABEL` for none."""
        labels: NDArray[Any] = self._rows["label"]
        return labels

    def member(self, index: int) -> str:
        """Return the name of the table without its ending, and the row."""
        row = self._rows[index]
        return f"{Path(self._files[row['table']].path).stem}-{row['row']}"

    def select(self, indices: torch.Tensor) -> "TableRecords":
        """Return the images with these indices, in their order."""
        records = TableRecords(())
        records._files, records._counts = self._files, self._counts
        records.texts, records._rows = self.texts, self._rows[indices.numpy()]
        return records

    def fingerprint(self) -> Iterator[bytes]:
        """Yield paths, sizes and times of change of the tables, and the rows."""
        for file in self._files:
            yield os.fsencode(f"{file.path} {file.size} {file.mtime}\n")
        for field in ("table", "row"):
            yield self._rows[field].tobytes()

    def identity(self) -> Iterator[bytes]:
        """Yield names and sizes of the tables, and the rows, wherever the tables are."""
        for file in self._files:
            yield os.fsencode(f"{Path(file.path).name} {file.size}\n")
        for field in ("table", "row"):
            yield self._rows[field].tobytes()
