"""Tables of small pictures as Hugging Face writes them, by pyarrow alone."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from shard_files import picture

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def table(
    numbers: Iterable[int], names: Sequence[str] = ("0", "1"), labels: Sequence[Any] | None = None
) -> pa.Table:
    """Pictures by their seeds; the label is the number modulo 2."""
    numbers = list(numbers)
    images = [{"bytes": picture(n), "path": f"{n:03}.png"} for n in numbers]
    features = {
        "image": {"_type": "Image"},
        "label": {"names": list(names), "_type": "ClassLabel"},
    }
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    schema = pa.schema([("image", IMAGE), ("label", pa.int64())], about)
    labels = [n % 2 for n in numbers] if labels is None else labels
    return pa.table([pa.array(images, IMAGE), pa.array(labels, pa.int64())], schema=schema)


def write_parquet(path: Path, content: pa.Table, group: int = 7) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(
        content, path, row_group_size=group, compression="none", use_dictionary=False
    )
    return path


def write_arrow(path: Path, content: pa.Table, batch: int = 7) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, content.schema) as writer:
        writer.write_table(content, batch)
    return path


def save_to_disk(folder: Path, content: pa.Table, files: int = 2) -> Path:
    """A folder as `save_to_disk` writes it, with a file that only its cache knows of."""
    names = [f"data-{number:05}-of-{files:05}.arrow" for number in range(files)]
    size = -(-len(content) // files)
    for number, name in enumerate(names):
        write_arrow(folder / name, content.slice(number * size, size))
    write_arrow(folder / "cache-1f2e.arrow", content)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "x"}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    return folder
