"""Features with the names of their images, as files for other tools."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amcl.evaluation.features import Features
from amcl.extras import needed
from amcl.files import whole_file

ENDINGS = (".npz", ".parquet")
_ROWS = 8192  # rows of a group in a Parquet file


def check_embeddings_file(path: Path) -> None:
    """Raise an error unless `path` is a new file of a kind that can be written here."""
    if path.suffix not in ENDINGS:
        raise ValueError(f"{path} must end in {' or '.join(ENDINGS)}: the ending says the format.")
    if path.exists():
        raise FileExistsError(f"{path} exists already: choose another file, or remove it first.")
    if path.suffix == ".parquet":
        _pyarrow()


def write_embeddings(path: Path, names: Sequence[str], found: Features) -> None:
    """Write features (n, D), float32, and names (n,) of their images; `names` are of all images.

    - `.npz`: arrays `names` and `features`, read by `numpy.load` without pickle;
    - `.parquet`: columns `name` and `feature`, a list of D numbers (extra `parquet`).
    """
    check_embeddings_file(path)
    # Bytes in a file name that are no UTF-8 are spelled out.
    kept = [
        names[i].encode(errors="surrogateescape").decode(errors="backslashreplace")
        for i in found.kept.tolist()
    ]
    with whole_file(path) as file:
        if path.suffix == ".npz":
            np.savez(file, names=np.array(kept, dtype=np.str_), features=found.values.numpy())
        else:
            _write_parquet(file, kept, found.values.numpy())


def _write_parquet(file: Any, names: Sequence[str], values: Any) -> None:
    arrow = _pyarrow()
    from pyarrow import parquet

    feature = arrow.list_(arrow.float32(), values.shape[1])
    schema = arrow.schema([("name", arrow.string()), ("feature", feature)])
    with parquet.ParquetWriter(file, schema) as writer:
        for start in range(0, len(names), _ROWS):
            part = values[start : start + _ROWS]
            flat = arrow.array(np.ascontiguousarray(part).reshape(-1))
            columns = [
                arrow.array(names[start : start + _ROWS], arrow.string()),
                arrow.FixedSizeListArray.from_arrays(flat, values.shape[1]),
            ]
            writer.write_table(arrow.Table.from_arrays(columns, schema=schema))


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ValueError(
            f"{needed('a .parquet file', 'pyarrow', 'parquet')} Or write an .npz file."
        ) from error
    return pyarrow
