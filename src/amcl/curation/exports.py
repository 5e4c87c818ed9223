"""The table for other tools: FiftyOne, COCO, Hugging Face, lightly."""

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from amcl.curation.result import COLUMNS, Curation
from amcl.curation.settings import Export
from amcl.files import whole_file, write_text
from amcl.text_files import to_json

FOLDER = "exports"
METADATA = "metadata.csv"


def write_exports(
    curation: Curation, names: Sequence[Export], paths: Sequence[str], features: torch.Tensor
) -> list[Path]:
    """Write the table in the layouts of other tools, below `exports/`.

    Args:
        curation: The curation.
        names: The tools.
        paths: Absolute path of each row.
        features: Features (n, D) of the rows.

    Returns:
        The file or folder that each tool takes.
    """
    folder = curation.folder / FOLDER
    return [_WRITERS[name](folder, curation, paths, features) for name in names]


def metadata_csv(curation: Curation, rows: Sequence[int]) -> str:
    """Return Hugging Face's table of a folder of images: the column `file_name`, then the others.

    Args:
        curation: The curation.
        rows: Rows of the images that the folder has.

    Returns:
        The content of `metadata.csv`, which `load_dataset("imagefolder", …)` reads.
    """
    names = [name for name in curation.table if name != "path"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["file_name", *names])
    for row in rows:
        cells = [curation[name][row] for name in names]
        writer.writerow([curation["path"][row], *("" if v is None else v for v in cells)])
    return out.getvalue()


def _fiftyone(
    folder: Path, curation: Curation, paths: Sequence[str], features: torch.Tensor
) -> Path:
    """Write samples as `fiftyone.Dataset.from_dir` reads them (`FiftyOneDataset`)."""
    out = folder / "fiftyone"
    samples = []
    for row, path in enumerate(paths):
        values = {name: curation[name][row] for name in curation.table if name != "path"}
        tags = ["keep" if values.pop("keep") else "drop"]
        tags += ["outlier"] if values.pop("outlier") else []
        samples.append({"filepath": path, "tags": tags, **_without_empty(values)})
    write_text(out / "metadata.json", to_json({"media_type": "image", "info": {"by": "amcl"}}))
    write_text(out / "samples.json", to_json({"samples": samples}, indent=None))
    return out


def _coco(folder: Path, curation: Curation, paths: Sequence[str], features: torch.Tensor) -> Path:
    """Write COCO's `images`, with the other columns as further entries."""
    out = folder / "coco.json"
    images = []
    for row in range(len(curation)):
        values = {name: curation[name][row] for name in curation.table if name != "path"}
        name = {"id": row + 1, "file_name": curation["path"][row]}
        images.append({**name, **_without_empty(values)})
    content = {"info": {"description": "amcl curate"}, "images": images}
    write_text(out, to_json({**content, "annotations": [], "categories": []}, indent=None))
    return out


def _huggingface(
    folder: Path, curation: Curation, paths: Sequence[str], features: torch.Tensor
) -> Path:
    out = folder / "huggingface" / METADATA
    write_text(out, metadata_csv(curation, range(len(curation))))
    return out


def _lightly(
    folder: Path, curation: Curation, paths: Sequence[str], features: torch.Tensor
) -> Path:
    """Write embeddings as `lightly.utils.io.save_embeddings` does, with the label 0 for all."""
    out = folder / "lightly" / "embeddings.csv"
    header = ["filenames", *(f"embedding_{i}" for i in range(features.shape[1])), "labels"]
    with whole_file(out) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        for path, values in zip(curation["path"], features, strict=True):
            writer.writerow([path, *(f"{value:.7g}" for value in values.tolist()), 0])
        text.detach()
    return out


def _without_empty(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in values.items()
        if value is not None and not (COLUMNS[name] is str and not value)
    }


_WRITERS: dict[Export, Callable[[Path, Curation, Sequence[str], torch.Tensor], Path]] = {
    "fiftyone": _fiftyone,
    "coco": _coco,
    "huggingface": _huggingface,
    "lightly": _lightly,
}
