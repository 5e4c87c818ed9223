"""Memory, file handles and files of long work: `make soak`.

A command runs as a user would run it, and is watched from outside: twice a second, the resident
memory and the open files of its process and of all processes that it has started are read. Growth
is the median slope between any two readings of the second half, when everything has been imported
and allocated, times its length; the last twentieth is left out, when processes end. Writes
benchmarks/results/soak.md and .json.

    python benchmarks/soak.py --parts epochs sweep --scale 0.1
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from results_files import RESULTS, conditions, write_results
from scipy.stats import theilslopes

SECONDS = 0.5  # between two readings
MIB = 2**20
TINY = ["--backbone", "resnet10t", "--width", "0.125", "--image-size", "32", "--threads", "1"]


@dataclass(frozen=True)
class Reading:
    """What a command and its processes held at one time."""

    seconds: float
    memory: float
    """Resident memory in MiB; pages that processes share count for each of them."""
    handles: int
    """Number of open files."""


@dataclass(frozen=True)
class Watched:
    """A command that has run to its end."""

    seconds: float
    readings: list[Reading]

    def _second_half(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        half = [r for r in self.readings if 0.5 <= r.seconds / self.seconds <= 0.95]
        return np.array([r.seconds for r in half]), np.array([getattr(r, name) for r in half])

    def growth(self, name: str) -> float:
        """Return how much a reading grows in the second half."""
        seconds, values = self._second_half(name)
        return float(theilslopes(values, seconds).slope * (seconds[-1] - seconds[0]))

    def median(self, name: str) -> float:
        """Return the median of a reading in the second half."""
        return float(np.median(self._second_half(name)[1]))

    def peak(self, name: str) -> float:
        """Return the largest reading."""
        return float(max(getattr(r, name) for r in self.readings))


def family(process: int) -> list[int]:
    """Return a process and all that it has started, directly or not."""
    found = [process]
    for parent in found:
        try:
            for task in os.listdir(f"/proc/{parent}/task"):
                children = Path(f"/proc/{parent}/task/{task}/children").read_text()
                found += [int(child) for child in children.split()]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended since
    return found


def reading(process: int, seconds: float) -> Reading:
    """Return what a process and those that it has started hold now."""
    memory = handles = 0
    for member in family(process):
        try:
            memory += int(Path(f"/proc/{member}/statm").read_text().split()[1])
            handles += len(os.listdir(f"/proc/{member}/fd"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return Reading(seconds, memory * os.sysconf("SC_PAGE_SIZE") / MIB, handles)


def watch(words: Sequence[str]) -> Watched:
    """Run a command of amcl to its end, which must be a good one."""
    print("amcl", " ".join(word if len(word) < 60 else f"{word[:57]}…" for word in words))
    readings: list[Reading] = []
    with tempfile.TemporaryFile() as output:
        start = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "amcl", *words], stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while process.poll() is None:
                readings.append(reading(process.pid, time.monotonic() - start))
                time.sleep(SECONDS)
        finally:
            process.kill()
            process.wait()
        seconds = time.monotonic() - start
        if process.returncode:
            output.seek(0)
            sys.exit(output.read().decode(errors="replace")[-2000:])
    return Watched(seconds, readings[:-1])  # the last one may have seen half of the processes


def many_files(folder: Path, count: int) -> Watched:
    """Train on files that are decoded again in each of three epochs."""
    pictures = folder / "pictures"
    generator = np.random.default_rng(0)
    for i in range(count):
        target = pictures / f"{i // 1000:03d}" / f"{i:06d}.jpg"
        if i % 1000 == 0:
            target.parent.mkdir(parents=True)
        Image.fromarray(generator.integers(256, size=(32, 32, 3), dtype=np.uint8)).save(target)
    words = ["pretrain", "--data", str(pictures), "--labels", "none", "--memory", "0", *TINY]
    words += ["--canvas", "32", "--workers", "2", "--batch-size", "250", "--epochs", "3"]
    return watch([*words, "--out", str(folder / "files")])


def many_epochs(folder: Path, count: int) -> Watched:
    """Train for many epochs of two steps, with a probe and a checkpoint after each."""
    words = ["pretrain", "--data", "builtin", "--subset", "64", "--batch-size", "32", *TINY]
    words += ["--epochs", str(count), "--probe-every", "1", "--save-minutes", "0", "--knn-k", "5"]
    return watch([*words, "--out", str(folder / "epochs")])


def many_runs(folder: Path, count: int) -> Watched:
    """Train many runs of one epoch, one after the other, in one sweep."""
    words = ["sweep", "--data", "builtin", "--subset", "64", "--batch-size", "32", *TINY]
    words += ["--epochs", "1", "--knn-k", "5", "--grid", f"seed={','.join(map(str, range(count)))}"]
    return watch([*words, "--out", str(folder / "sweep")])


def large_report(folder: Path, count: int) -> Watched:
    """Write a page on many runs."""
    runs = sorted((folder / "sweep/runs").iterdir())[:count]
    words = ["report", *map(str, runs), "--images", "64", "--threads", "1"]
    return watch([*words, "--out", str(folder / "page.html")])


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return sum(p.stat().st_size for p in files)


PARTS = {
    "files": (many_files, 100_000, "images in files, three epochs of them"),
    "epochs": (many_epochs, 1_000, "epochs, each with a probe and a checkpoint"),
    "sweep": (many_runs, 500, "runs of a sweep"),
    "report": (large_report, 50, "runs on one page"),
}


def numbers_of(watched: Watched, count: int) -> dict[str, Any]:
    """Return what is written of a command."""
    return {
        "count": count,
        "seconds": watched.seconds,
        "memory_median": watched.median("memory"),
        "memory_peak": watched.peak("memory"),
        "memory_growth": watched.growth("memory"),
        "handles_median": watched.median("handles"),
        "handles_growth": watched.growth("handles"),
    }


def files_of(name: str, folder: Path) -> dict[str, int]:
    """Return the sizes of what a command has written."""
    if name == "report":
        return {"page.html": size(folder / "page.html")}
    if name == "sweep":
        return {"all files of the sweep": size(folder / "sweep")}
    parts = ("log.txt", "metrics.jsonl", "checkpoints")
    return {part: size(folder / name / part) for part in parts}


def row(name: str, numbers: dict[str, Any]) -> str:
    """Return the row of a part in the table."""
    files = ", ".join(f"{part} {bytes_ / 1e6:.2f} MB" for part, bytes_ in numbers["files"].items())
    return (
        f"| {numbers['count']:,} {PARTS[name][2]} | {numbers['seconds'] / 60:.1f} min "
        f"| {numbers['memory_median']:,.0f} MiB | {numbers['memory_peak']:,.0f} MiB "
        f"| {numbers['memory_growth']:+.1f} MiB | {numbers['handles_median']:.0f} "
        f"| {numbers['handles_growth']:+.1f} | {files} |"
    )


def main(parts: Sequence[str], scale: float, work: Path) -> None:
    """Run the parts; in full size, write each result beside those of earlier parts."""
    file = RESULTS / "soak.json"
    measured: dict[str, Any] = json.loads(file.read_text()) if scale == 1 and file.exists() else {}
    for name in parts:
        part, full, _ = PARTS[name]
        count = max(round(full * scale), 2)
        watched = part(work, count)
        measured[name] = {**numbers_of(watched, count), "files": files_of(name, work)}
        print(row(name, measured[name]), flush=True)
        if scale == 1:
            write_results("soak", "Long and large work", page(measured), measured)


def page(measured: dict[str, Any]) -> str:
    """Return the text of the page of results."""
    return "\n".join(
        [
            f"Measured on {conditions()} by `make soak`. Memory and handles are those of a command",
            "and its processes; growth is that of the second half, by the median slope.",
            "",
            "| work | time | memory | its peak | its growth | handles | their growth | files |",
            "|---|---|---|---|---|---|---|---|",
            *(row(name, measured[name]) for name in PARTS if name in measured),
            "",
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full counts")
    arguments = parser.parse_args()
    if "report" in arguments.parts and "sweep" not in arguments.parts:
        parser.error("--parts report needs the runs of --parts sweep")
    work_folder = Path(tempfile.mkdtemp(prefix="amcl-soak-"))
    try:
        main(arguments.parts, arguments.scale, work_folder)
    finally:
        shutil.rmtree(work_folder)
