"""Time and memory of kNN and of the label-free metrics: `python benchmarks/evaluation.py`.

kNN on 50,000 × 10,000 features of 512 numbers against the bare product of both matrices, which no
exact search by products can beat, and on a smaller set against scikit-learn's brute force: CPU time
of one thread in turns, so that a slow moment of the machine hits both. Time on the clock with all
threads and peak memory in processes of their own. Writes to benchmarks/results/evaluation.md and
evaluation.json.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import torch
from results_files import conditions, write_results
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from amcl.metrics.knn import Metric, knn_predict
from amcl.metrics.unlabeled import unlabeled

DIM = 512
K = 200
TAU = 0.1
FULL = (50_000, 10_000)
SMALL = (10_000, 2_000)
_ROWS = 1024
_CLASSES = 10

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def data(bank: int, queries: int) -> Tensors:
    """Return bank, labels and queries: features around a center for each class."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(_CLASSES, DIM, generator=generator)
    labels = torch.randint(_CLASSES, (bank + queries,), generator=generator)
    h = torch.randn(bank + queries, DIM, generator=generator).mul_(3)
    for rows in torch.arange(len(h)).split(_ROWS):  # memory is measured: no second copy of all
        h[rows] += centers[labels[rows]]
    return h[:bank], labels[:bank], h[bank:]


def in_turns(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Return median CPU seconds of two calls, in turns, and the ratio of the first to the other."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    with threadpool_limits(1):
        for _ in range(rounds):
            order.reverse()
            for name in order:
                start = time.process_time()
                calls[name]()
                times[name].append(time.process_time() - start)
    ratios = [a / b for a, b in zip(*times.values(), strict=True)]
    return {
        "cpu_seconds": {name: statistics.median(times[name]) for name in calls},
        "ratio": [statistics.median(ratios), min(ratios), max(ratios)],
    }


def against_product(metric: Metric, rounds: int) -> dict[str, Any]:
    """Time our kNN against the product alone, in blocks and in the precision of the metric."""
    bank, labels, queries = data(*FULL)
    dtype = torch.float32 if metric == "cosine" else torch.float64
    left = queries.to(dtype)
    right = bank.to(dtype)
    memory = torch.empty(_ROWS, len(bank), dtype=dtype)

    def product() -> None:
        for rows in left.split(_ROWS):
            torch.mm(rows, right.T, out=memory[: len(rows)])

    def ours() -> torch.Tensor:
        return knn_predict(bank, labels, queries, k=K, tau=TAU, metric=metric)

    return in_turns({"amcl": ours, "product": product}, rounds)


def against_scikit_learn(metric: Metric, rounds: int) -> dict[str, Any]:
    """Time our kNN against scikit-learn's brute force with the same votes."""
    bank, labels, queries = data(*SMALL)

    def weights(distance: Any) -> Any:
        # Relative to the nearest: exp(−d²/2τ) of features as long as these is 0.
        s = 1 - distance if metric == "cosine" else -(distance**2) / 2
        return np.exp((s - s.max(1, keepdims=True)) / TAU)

    theirs = KNeighborsClassifier(K, metric=metric, algorithm="brute", weights=weights)
    theirs.fit(bank.numpy(), labels.numpy())

    def ours() -> torch.Tensor:
        return knn_predict(bank, labels, queries, k=K, tau=TAU, metric=metric)

    same = (ours().numpy() == theirs.predict(queries.numpy())).mean()
    calls = {"amcl": ours, "scikit-learn": lambda: theirs.predict(queries.numpy())}
    return {"same": float(same)} | in_turns(calls, rounds)


def alone(what: str) -> dict[str, float]:
    """Return wall time and peak memory of one call, in a process of its own."""
    command = [sys.executable, __file__, "--alone", what]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measurements: dict[str, float] = json.loads(output)
    return measurements


def alone_here(what: str) -> dict[str, float]:
    """Measure `alone` in this process."""
    if what == "unlabeled":
        h, _, _ = data(10_000, 1)
        noise = torch.randn(2, *h.shape, generator=torch.Generator().manual_seed(1))
        h0, h1 = h + noise
        call: Callable[[], Any] = lambda: unlabeled(h, h0, h1)  # noqa: E731
    else:
        bank, labels, queries = data(*FULL)
        call = lambda: knn_predict(bank, labels, queries, k=K, tau=TAU, metric=what)  # type: ignore[arg-type]  # noqa: E731
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    start = time.perf_counter()
    call()
    return {
        "seconds": time.perf_counter() - start,
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9,
        "before_gb": before / 1e9,
    }


def measure(rounds: int) -> dict[str, Any]:
    """Return all measurements."""
    results: dict[str, Any] = {}
    # Separate processes come first: they inherit the peak memory of the process that starts them.
    for what in (*get_args(Metric), "unlabeled"):
        runs = [alone(what) for _ in range(rounds)]
        results[what] = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        print(what, json.dumps(results[what]), flush=True)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for metric in get_args(Metric):
        ratios = {
            "product": against_product(metric, rounds),
            "scikit-learn": against_scikit_learn(metric, 3 * rounds),
        }
        print(metric, json.dumps(ratios), flush=True)
        results[metric] |= ratios
    torch.set_num_threads(threads)
    return results


def table(results: dict[str, Any]) -> str:
    """Return the measurements in Markdown."""
    lines = ["| what | measured | ratio or size |", "|---|---|---|"]
    full, small = (f"{n:,} × {m:,}" for n, m in (FULL, SMALL))
    for what, m in results.items():
        size = f"kNN, {what}, {full}" if "product" in m else "all without labels, 10,000 images"
        peak = f"peak {m['peak_gb']:.2f} GB, {m['before_gb']:.2f} GB before"
        lines.append(f"| {size} | {m['seconds']:.1f} s on the clock | {peak} |")
        for other, where in (("product", full), ("scikit-learn", small)):
            if other in m:
                ours, theirs = m[other]["cpu_seconds"].values()
                measured = f"{ours:.2f} s of CPU against {theirs:.2f} s ({other})"
                ratio = "{:.2f}× ({:.2f} … {:.2f})".format(*m[other]["ratio"])
                lines.append(f"| kNN, {what}, {where} | {measured} | {ratio} |")
    return "\n".join(lines)


def write(results: dict[str, Any]) -> None:
    """Write the table and the numbers to files, and print the table."""
    same = min(m["scikit-learn"]["same"] for m in results.values() if "scikit-learn" in m)
    text = (
        f"{table(results)}\n\nFeatures of {DIM} numbers in float32, k = {K}, τ = {TAU}; medians, "
        "in brackets least and most of the rounds. CPU time is that of one thread, time on the "
        f"clock that of all. Predictions are scikit-learn's for {same:.2%} of the queries. The "
        "euclidean search and its product are taken in float64. Measured by "
        f"`python benchmarks/evaluation.py` on {conditions()}, on CPU.\n"
    )
    write_results("evaluation", "Cost of evaluation", text, results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds of the full size")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.alone:
        print(json.dumps(alone_here(args.alone)))
    else:
        write(measure(args.rounds))
