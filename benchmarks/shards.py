"""Images read per second from a folder, shards and tables: `python benchmarks/shards.py`.

The same JPEGs (500 × 375, quality 90) as a folder of classes, as shards of `amcl data pack`, as
Parquet in groups of 100 rows, and as an Arrow file. Images are read in random order, as training
does, and storages in turns, so that a slow moment of the machine hits all:

- cold: the bytes of all images, after their files were dropped from the page cache;
- warm: the same from the page cache, in CPU time;
- decoded: batches of pixels on a canvas of 96 by worker processes, from the page cache;
- listed: from the path to the list of all images, in CPU time.

Of groups of rows in Parquet, 16 MiB are kept in memory instead of 128, as if the set were much
larger than it is. It writes to benchmarks/results/shards.md and shards.json.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from decoding import photo
from pyarrow import parquet
from results_files import conditions, write_results

from amcl.data import FileImages, stream
from amcl.data.locate import find_source
from amcl.data.records import Records
from amcl.data.shards.pack import pack
from amcl.data.tables import readers

CANVAS = 96
BATCH = 64
KEPT = 2**24  # bytes of groups of rows
DECODED = 1000  # images that are decoded in a round
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def make_sets(root: Path, count: int) -> dict[str, Path]:
    """Write the same pictures in all ways, and return where they are."""
    originals = [photo(500, 375, seed) for seed in range(50)]
    images = []
    for number in range(count):
        # Other bytes behind the end of the image: no two files are alike.
        content = originals[number % len(originals)] + number.to_bytes(4, "big")
        file = root / "folder" / f"{number % 10}" / f"{number:06}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        images.append({"bytes": content, "path": file.name})
    pack(str(root / "folder"), root / "shards", shard_size="100MB")
    table = pa.table({"image": pa.array(images, IMAGE)})
    parquet.write_table(table, root / "table.parquet", row_group_size=100)
    arrow = str(root / "table.arrow")
    with pa.OSFile(arrow, "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, 1000)
    os.sync()
    names = {"shards": "shards", "Parquet": "table.parquet", "Arrow": "table.arrow"}
    return {"folder": root / "folder", **{name: root / path for name, path in names.items()}}


def drop_from_cache(path: Path) -> None:
    """Drop files from the page cache; what is in it was written to the disk before."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def read_all(records: Records, order: list[int]) -> int:
    """Read the bytes of some images."""
    total = 0
    for index in order:
        with records[index].open() as file:
            total += len(file.read())
    return total


def decode_all(records: Records, order: list[int], workers: int) -> None:
    """Decode some images as training does."""
    steps = torch.tensor(order).split(BATCH)
    for batch in stream(FileImages(records, CANVAS), steps, workers=workers):
        if batch.unreadable:
            raise RuntimeError(f"unreadable: {batch.unreadable[0]}")


def measure_once(path: Path, records: Records, order: list[int], workers: int) -> dict[str, float]:
    """Return the seconds that an image takes in each measurement."""
    some = order[:DECODED]
    calls: dict[str, tuple[Callable[[], object], Callable[[], float], int]] = {
        "cold": (lambda: read_all(records, order), time.perf_counter, len(order)),
        "warm": (lambda: read_all(records, order), time.process_time, len(order)),
        "decoded": (lambda: decode_all(records, some, workers), time.perf_counter, len(some)),
        "listed": (lambda: find_source(str(path)).listings(), time.process_time, len(order)),
    }
    drop_from_cache(path)
    seconds = {}
    for name, (call, clock, images) in calls.items():
        start = clock()
        call()
        seconds[name] = (clock() - start) / images
    return seconds


def measure(root: Path, count: int, rounds: int, workers: int) -> dict[str, Any]:
    """Return images per second and ratios to the folder: {measurement: {storage: …}}."""
    sets = make_sets(root, count)
    listings = {name: find_source(str(path)).catalog().listing for name, path in sets.items()}
    times: dict[str, dict[str, list[float]]] = {}
    for number in range(rounds):
        generator = torch.Generator().manual_seed(number)
        order = torch.randperm(count, generator=generator).tolist()
        for name in list(sets)[:: (-1) ** number]:
            taken = measure_once(sets[name], listings[name].records, order, workers)
            for kind, seconds in taken.items():
                times.setdefault(kind, {}).setdefault(name, []).append(seconds)
    results: dict[str, Any] = {}
    for kind, rows in times.items():
        for name in sets:
            ratios = [a / b for a, b in zip(rows["folder"], rows[name], strict=True)]
            results.setdefault(kind, {})[name] = {
                "images per second": 1 / statistics.median(rows[name]),
                "times the folder": [statistics.median(ratios), min(ratios), max(ratios)],
            }
    return results


def table(results: dict[str, Any]) -> str:
    """Return the measurements in Markdown."""
    lines = ["| | storage | images / s | times the folder |", "|---|---|---|---|"]
    for kind, rows in results.items():
        for name, row in rows.items():
            ratio = "{:.2f}× ({:.2f} … {:.2f})".format(*row["times the folder"])
            lines.append(f"| {kind} | {name} | {row['images per second']:,.0f} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=2000, help="number of images")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds")
    parser.add_argument("--workers", type=int, default=2, help="processes that decode")
    parser.add_argument("--folder", type=Path, help="where files are written; a temporary folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    readers._KEPT = KEPT
    with tempfile.TemporaryDirectory(dir=options.folder) as root:
        results = measure(Path(root), options.images, options.rounds, options.workers)
    text = (
        f"{table(results)}\n\n{options.images:,} JPEGs of 500 × 375 pixels "
        f"in random order; of groups in Parquet, {KEPT >> 20} MiB are kept. `cold`: bytes read by "
        "one process from the disk; `warm`: from the page "
        f"cache, in CPU time; `decoded`: {DECODED:,} of them on a canvas of {CANVAS} by "
        f"{options.workers} processes, warm; `listed`: from the path to the list of images, in CPU "
        f"time. Medians of {options.rounds} rounds in turns, in brackets least and most of the "
        f"ratios within a round. Measured by `{_command(options)}` on {conditions()}, a local "
        "disk.\n"
    )
    write_results("shards", "Images from folders, shards and tables", text, results)


def _command(options: argparse.Namespace) -> str:
    words = ["python benchmarks/shards.py"]
    words += [f"--images {options.images}", f"--rounds {options.rounds}"]
    return " ".join([*words, f"--workers {options.workers}"])


if __name__ == "__main__":
    main()
