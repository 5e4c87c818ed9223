"""Reading of tables in groups of rows, each by its number."""

import os
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from amcl.data.tables.columns import Columns, find_columns, image_bytes, label_texts
from amcl.errors import RunError
from amcl.extras import missing, needed

_OPEN_TABLES = 64  # that a process keeps
_KEPT = 2**27  # bytes of images in groups that a process keeps, beside the last group
_ARROW_FILE = b"ARROW1"


@dataclass(frozen=True)
class TableFile:
    """A file with a table, as it was when its images were listed."""

    path: str
    size: int
    mtime: int

    @classmethod
    def of(cls, path: Path) -> "TableFile":
        """Return the file at a path."""
        status = path.stat()
        return cls(str(path), status.st_size, status.st_mtime_ns)

    def require_unchanged(self) -> None:
        """Raise an error if the file is another one now."""
        status = os.stat(self.path)
        if (status.st_size, status.st_mtime_ns) != (self.size, self.mtime):
            raise ValueError("the file has changed since its images were listed")


class Reader(ABC):
    """A table, whose rows are read in groups."""

    columns: Columns
    rows: list[int]
    """Number of rows of each group."""

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each group, and behind them the number of all rows."""
        return np.cumsum([0, *self.rows])

    @abstractmethod
    def images(self, group: int) -> Any:
        """Return the encoded images of a group, as an array of Arrow."""

    @abstractmethod
    def labels(self) -> tuple[NDArray[Any], tuple[str, ...]]:
        """Return the labels of all rows, see `label_texts`; a table without has none."""


class ParquetReader(Reader):
    """A Parquet file: a group of rows is read, and decompressed, at once.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        from pyarrow import parquet

        # Mapped into memory, it has no position that processes could change for each other.
        self._file = parquet.ParquetFile(path, memory_map=True, pre_buffer=False)
        self.columns = find_columns(self._file.schema_arrow)
        metadata = self._file.metadata
        self.rows = [metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)]

    def images(self, group: int) -> Any:
        """Return the encoded images of a group."""
        names = [self.columns.to_read]
        table = self._file.read_row_group(group, columns=names, use_threads=False)
        return image_bytes(table.column(0), self.columns)

    def labels(self) -> tuple[NDArray[Any], tuple[str, ...]]:
        """Return the labels of all rows."""
        name = self.columns.label
        if name is None:
            return np.empty(0, np.int32), ()
        column = self._file.read(columns=[name], use_threads=False).column(0)
        return label_texts(column, self.columns)


class ArrowReader(Reader):
    """An Arrow file, as `save_to_disk` of Hugging Face writes: it is mapped, and nothing is copied.

    Args:
        path: The file, in the format of streams or of files.
    """

    def __init__(self, path: str) -> None:
        import pyarrow as pa

        source = pa.memory_map(path)
        is_file = source.read(len(_ARROW_FILE)) == _ARROW_FILE
        source.seek(0)
        if is_file:
            file = pa.ipc.open_file(source)
            self.columns = find_columns(file.schema)
            batches = [file.get_batch(number) for number in range(file.num_record_batches)]
        else:
            stream = pa.ipc.open_stream(source)
            self.columns = find_columns(stream.schema)
            batches = list(stream)
        names = [name for name in (self.columns.image, self.columns.label) if name is not None]
        self._batches = [batch.select(names) for batch in batches]
        for batch in self._batches:
            batch.validate(full=True)  # Arrow trusts the offsets in a file, which may lie outside
        self.rows = [batch.num_rows for batch in self._batches]

    def images(self, group: int) -> Any:
        """Return the encoded images of a group."""
        return image_bytes(self._batches[group].column(self.columns.image), self.columns)

    def labels(self) -> tuple[NDArray[Any], tuple[str, ...]]:
        """Return the labels of all rows."""
        import pyarrow as pa

        name = self.columns.label
        if name is None or not self._batches:
            return np.empty(0, np.int32), ()
        chunks = [batch.column(name) for batch in self._batches]
        return label_texts(pa.chunked_array(chunks), self.columns)


@lru_cache(_OPEN_TABLES)
def open_table(file: TableFile) -> Reader:
    """Return the reader of a table, or raise an error whose message is the reason."""
    if missing("pyarrow"):
        raise RunError(needed("a table of images", "pyarrow", "parquet"))
    import pyarrow as pa

    file.require_unchanged()
    try:
        is_parquet = file.path.endswith(".parquet")
        return ParquetReader(file.path) if is_parquet else ArrowReader(file.path)
    except pa.ArrowException as error:
        raise ValueError(_reason(error)) from None


class _Groups:
    """The groups of rows that were read last; threads take turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: OrderedDict[tuple[TableFile, int], Any] = OrderedDict()
        self._size = 0

    def image(self, file: TableFile, row: int) -> Any:
        """Return the image in a row of a table, as a value of Arrow."""
        with self._lock:
            reader = open_table(file)
            starts = reader.starts
            group = int(np.searchsorted(starts, row, side="right")) - 1
            return self._group(reader, file, group)[row - int(starts[group])]

    def _group(self, reader: Reader, file: TableFile, group: int) -> Any:
        key = (file, group)
        if key not in self._groups:
            images = reader.images(group)
            self._groups[key] = images
            self._size += images.nbytes
            while self._size > _KEPT and len(self._groups) > 1:
                _, oldest = self._groups.popitem(last=False)
                self._size -= oldest.nbytes
        self._groups.move_to_end(key)
        return self._groups[key]


_groups = _Groups()


def read_image(file: TableFile, row: int) -> bytes:
    """Return the bytes of the image in a row of a table.

    Raises:
        ValueError: It has none, or the table is damaged or has changed.
    """
    import pyarrow as pa

    file.require_unchanged()
    try:
        value = _groups.image(file, row)
    except (pa.ArrowException, OSError) as error:  # Arrow raises both for what it cannot read
        raise ValueError(_reason(error)) from None
    if not value.is_valid:
        raise ValueError("no bytes in the table: an image has to be in it, not beside it")
    content: bytes = value.as_py()
    if not content:
        raise ValueError("empty (0 bytes)")
    return content


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
