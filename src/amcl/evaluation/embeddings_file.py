"""Features with names, paths and labels of their images, as files for other tools."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from amcl.extras import needed
from amcl.files import whole_file
from amcl.metrics.features import Features
from amcl.printable import printable

ENDINGS = (".csv", ".npz", ".parquet")
_ROWS = 8192  # rows of a group in a Parquet file


def check_embeddings_file(path: Path) -> None:
    """Raise an error unless `path` is a new file of a kind that can be written here."""
    if path.suffix not in ENDINGS:
        raise ValueError(f"{path} must end in {' or '.join(ENDINGS)}: the ending says the format.")
    check_new(path)
    if path.suffix == ".parquet":
        _pyarrow()


def check_new(path: Path) -> None:
    """Raise an error if the file exists: it is never overwritten."""
    if path.exists():
        raise FileExistsError(f"{path} exists already: choose another file, or remove it first.")


def write_embeddings(
    path: Path,
    names: Sequence[str],
    features: Features,
    *,
    paths: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> None:
    """Write features, float32, with the names of their images.

    - `.csv`: columns `file`, `label` and `f0`, `f1`, …;
    - `.npz`: arrays `names`, `paths`, `labels` and `features`, read by `numpy.load` without pickle;
    - `.parquet`: columns `name`, `path`, `label` and `feature`, a list of D numbers (extra
      `parquet`).

    Args:
        path: A new file, whose ending says the format.
        names: Names of all images, those that could not be read among them.
        features: Features of the images that could be read.
        paths: Paths of all images, if they have paths.
        labels: Classes of all images, if they have classes.
    """
    check_embeddings_file(path)
    texts = {"name": names, "path": paths, "label": labels}
    columns = {
        name: [printable(values[i]) for i in features.indices.tolist()]
        for name, values in texts.items()
        if len(values)
    }
    numbers = features.values.numpy()
    with whole_file(path) as file:
        if path.suffix == ".npz":
            arrays = {f"{name}s": np.array(v, dtype=np.str_) for name, v in columns.items()}
            np.savez(file, **arrays, features=numbers)  # type: ignore[arg-type]
        elif path.suffix == ".parquet":
            _write_parquet(file, columns, numbers)
        else:
            columns.pop("path", None)
            _write_csv(file, columns, numbers)


def _write_csv(file: Any, columns: dict[str, list[str]], values: Any) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    header = ["file" if name == "name" else name for name in columns]
    writer.writerow([*header, *(f"f{i}" for i in range(values.shape[1]))])
    for row, numbers in zip(zip(*columns.values(), strict=True), values, strict=True):
        writer.writerow([*row, *map(str, numbers)])
    text.detach()


def _write_parquet(file: Any, columns: dict[str, list[str]], values: Any) -> None:
    arrow = _pyarrow()
    from pyarrow import parquet

    feature = arrow.list_(arrow.float32(), values.shape[1])
    schema = arrow.schema([*((name, arrow.string()) for name in columns), ("feature", feature)])
    with parquet.ParquetWriter(file, schema) as writer:
        for start in range(0, len(values), _ROWS):
            part = values[start : start + _ROWS]
            flat = arrow.array(np.ascontiguousarray(part).reshape(-1))
            texts = [
                arrow.array(v[start : start + _ROWS], arrow.string()) for v in columns.values()
            ]
            lists = arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
            writer.write_table(arrow.Table.from_arrays([*texts, lists], schema=schema))


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ValueError(
            f"{needed('a .parquet file', 'pyarrow', 'parquet')} Or write an .npz file."
        ) from error
    return pyarrow
