"""Cost of windows of attention in detection, as ratios: `python benchmarks/detection.py`.

A step is forward and backward of ViT-S/16 as a detector's backbone, without its heads. Each case
runs in its own process, whose peak memory is that of the step. Writes benchmarks/results/
detection.md and .json.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import torch
from results_files import conditions, write_results
from torch.nn.attention import SDPBackend, sdpa_kernel

from amcl.backbones import Backbone, BackboneSettings
from amcl.evaluation.detection.vision_transformer import VisionTransformerMaps

NETWORK = "vit_small_patch16_224"
KERNELS = ("flash", "math")
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "math": SDPBackend.MATH}


def measure(size: int, window: int | None, kernel: str, checkpointing: bool, repeats: int) -> None:
    """Print the seconds of a step, and the bytes that its peak is above what was there before."""
    torch.set_num_threads(1)  # others would wait, and count as time of the processor
    torch.manual_seed(0)
    network = Backbone(BackboneSettings(name=NETWORK), 224).network
    maps = VisionTransformerMaps(network, size, window=window, checkpointing=checkpointing)
    images = torch.randn(1, 3, size, size)
    with sdpa_kernel(BACKENDS[kernel]):
        # Gradients and libraries are there in any case.
        small = Backbone(BackboneSettings(name="test_vit", stem="standard"), 64).network
        VisionTransformerMaps(small, 64)(torch.randn(1, 3, 64, 64))[-1].sum().backward()
        for parameter in maps.parameters():
            parameter.grad = torch.zeros_like(parameter)
        before = resident()
        seconds = []
        for _ in range(repeats):
            start = time.process_time()
            torch.stack([x.square().mean() for x in maps(images)]).sum().backward()
            seconds.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": statistics.median(seconds), "bytes": peak - before}))


def resident() -> int:
    """Return the bytes of memory that this process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def case(size: int, window: int | None, kernel: str, checkpointing: bool, repeats: int) -> Any:
    """Return the measurement of a case in its own process."""
    arguments = json.dumps([size, window, kernel, checkpointing, repeats])
    command = [sys.executable, __file__, "--case", arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(repeats: int, sizes: list[int]) -> None:
    """Measure everything, print the table and write it to a file."""
    torch.set_num_threads(1)  # as in each case
    numbers: dict[str, Any] = {}
    rows: list[tuple[str, ...]] = []
    for size in sizes:
        for kernel in KERNELS:
            cases = {
                "global": (size, 0, kernel, False),
                "windows": (size, None, kernel, False),
                "windows, checkpointing": (size, None, kernel, True),
            }
            found = {name: case(*of, repeats) for name, of in cases.items()}
            numbers[f"{size} pixels, {kernel}"] = found
            whole = found["global"]
            for name, one in found.items():
                measured = f"{one['bytes'] / 2**20:,.0f} MiB", f"{one['seconds']:.2f} s"
                shares = [f"{one[key] / whole[key]:.2f}" for key in ("bytes", "seconds")]
                row = (str(size), kernel, name, measured[0], shares[0], measured[1], shares[1])
                rows.append(row)
                print(*row, flush=True)
    write(rows, numbers)


def write(rows: list[tuple[str, ...]], numbers: dict[str, Any]) -> None:
    """Write table and numbers into the folder of results."""
    head = ("pixels", "kernel", "attention", "memory of a step", "ratio", "time", "ratio")
    table = "\n".join(f"| {' | '.join(line)} |" for line in [head, ("---",) * len(head), *rows])
    text = (
        f"{table}\n\nForward and backward of ViT-S/16 as the backbone of a detector, one image, "
        "windows of 16 × 16 tokens except in blocks 3, 6, 9 and 12. Memory is the peak of the "
        "process above what it held before the first step, time is that of the processor; ratios "
        "are to global attention with the same kernel. The flash kernel never holds a matrix of "
        "attention; the math kernel holds one for each head of each block. Repeat with "
        f"`python benchmarks/detection.py`. {conditions()}, float32 on CPU.\n"
    )
    write_results("detection", "Windows of attention in detection", text, numbers)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="steps of a case")
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024], help="pixels a side")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        measure(*json.loads(arguments.case))
    else:
        main(arguments.repeats, arguments.sizes)
