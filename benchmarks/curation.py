"""Time and memory of the search for near duplicates: `python benchmarks/curation.py`.

The ten nearest other images of each of 100,000 images by features of 512 numbers and the groups of
near copies, exact, against the bare product of the same blocks, which no exact search by products
can beat: CPU time of one thread in turns, so that a slow moment of the machine hits both. Time on
the clock with all threads and peak memory in a process of its own. Writes to
benchmarks/results/curation.md and curation.json.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from results_files import conditions, write_results

from amcl.curation.duplicates import choose_threshold, near_groups
from amcl.curation.neighbors import BLOCK, nearest_images, unit_features

DIM = 512
K = 10
FULL = 100_000
SMALL = 20_000
COPIES = 0.05
_CENTERS = 1000
_ROWS = 4096


def data(n: int) -> torch.Tensor:
    """Return features of unit length around centers; a twentieth are copies of others, nearly."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(_CENTERS, DIM, generator=generator)
    x = torch.randn(n, DIM, generator=generator)
    for rows in torch.arange(n).split(_ROWS):  # memory is measured: no second copy of all
        x[rows] += centers[torch.randint(_CENTERS, (len(rows),), generator=generator)]
    copies = torch.randperm(n, generator=generator)[: int(COPIES * n)]
    originals = torch.randint(n, (len(copies),), generator=generator)
    noise = torch.randn(len(copies), DIM, generator=generator)
    x[copies] = x[originals] + 0.02 * noise
    return unit_features(x)


def product(x: torch.Tensor) -> None:
    """Compute the blocks on one side of the diagonal of the matrix of cosines, and nothing else."""
    memory = torch.empty(BLOCK, BLOCK)
    for start in range(0, len(x), BLOCK):
        rows = x[start : start + BLOCK]
        for first in range(start, len(x), BLOCK):
            columns = x[first : first + BLOCK]
            out = memory.flatten()[: len(rows) * len(columns)].view(len(rows), len(columns))
            torch.mm(rows, columns.T, out=out)


def near_copies(x: torch.Tensor) -> torch.Tensor:
    """Find the nearest other images, and the groups of near copies."""
    cosines, indices = nearest_images(x, K, show_progress=False)
    return near_groups(x, cosines, indices, torch.arange(len(x)), choose_threshold(cosines))


def in_turns(x: torch.Tensor, rounds: int) -> dict[str, Any]:
    """Return median CPU seconds of the search and of the product, in turns, and their ratio."""
    calls: dict[str, Callable[[torch.Tensor], Any]] = {"amcl": near_copies, "product": product}
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for _ in range(rounds):
        order.reverse()
        for name in order:
            start = time.process_time()
            calls[name](x)
            times[name].append(time.process_time() - start)
    ratios = [a / b for a, b in zip(times["amcl"], times["product"], strict=True)]
    return {
        "images": len(x),
        "rounds": rounds,
        "cpu_seconds": {name: statistics.median(times[name]) for name in calls},
        "ratio": [statistics.median(ratios), min(ratios), max(ratios)],
    }


def alone(n: int) -> dict[str, float]:
    """Return wall time and peak memory of the search, in a process of its own."""
    command = [sys.executable, __file__, "--alone", str(n)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measurements: dict[str, float] = json.loads(output)
    return measurements


def alone_here(n: int) -> dict[str, float]:
    """Measure `alone` in this process."""
    x = data(n)
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    start = time.perf_counter()
    near_copies(x)
    return {
        "images": n,
        "threads": torch.get_num_threads(),
        "seconds": time.perf_counter() - start,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9,
        "before_gb": before / 1e9,
    }


def measure(full: int, full_rounds: int, small: int, rounds: int) -> dict[str, Any]:
    """Return all measurements."""
    # The separate process comes first: it inherits the peak memory of the one that starts it.
    results: dict[str, Any] = {"alone": alone(full)}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        results["small"] = in_turns(data(small), rounds)
        print(json.dumps(results), flush=True)
        results["full"] = in_turns(data(full), full_rounds)
    finally:
        torch.set_num_threads(threads)
    return results


def text(results: dict[str, Any]) -> str:
    """Return the measurements in Markdown."""
    lines = [
        "| images | amcl, CPU s | bare product, CPU s | ratio (least … most) | rounds |",
        "|---|---|---|---|---|",
    ]
    for name in ("small", "full"):
        m = results[name]
        ratio = "{:.2f}× ({:.2f} … {:.2f})".format(*m["ratio"])
        seconds = [f"{m['cpu_seconds'][x]:.1f}" for x in ("amcl", "product")]
        cells = [f"{m['images']:,}", *seconds, ratio, str(m["rounds"])]
        lines.append(f"| {' | '.join(cells)} |")
    one = results["alone"]
    memory = (
        f"{one['images']:,.0f} images take {one['seconds']:.0f} s on the clock with "
        f"{one['threads']:.0f} threads. Peak memory is {one['peak_gb']:.2f} GB; "
        f"{one['before_gb']:.2f} GB of it were in use before, features among them."
    )
    conditions_of = (
        f"The {K} nearest other images of each image by {DIM} numbers and the groups of near "
        f"copies, exact, against `torch.mm` of the same blocks of {BLOCK}: medians of CPU time, "
        f"one thread, measured by `python benchmarks/curation.py` on {conditions()}, float32, CPU."
    )
    return "\n".join([*lines, "", memory, "", conditions_of, ""])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", type=int, default=FULL, help="number of images")
    parser.add_argument("--full-rounds", type=int, default=3, help="rounds of this size")
    parser.add_argument("--small", type=int, default=SMALL, help="number of images in many rounds")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of the small size")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(alone_here(options.alone)))
    else:
        results = measure(options.full, options.full_rounds, options.small, options.rounds)
        write_results("curation", "Speed of the search for near duplicates", text(results), results)
