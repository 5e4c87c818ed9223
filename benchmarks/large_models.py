"""Activation checkpointing and torch.compile: time and memory of a step beside a plain one.

    python benchmarks/large_models.py  # measure, and write results/large_models.{md,json}

It is SimCLR with AMCL on the small networks of docs/short-runs.md, on one thread, on a machine that
does nothing else. All configurations are in memory at once, and each takes a step in turn. The
first steps, in which torch compiles, are not measured.
"""

import argparse
from typing import Any

from results_files import conditions, write_results
from temperature_cost import cell, ratios

from amcl import recipes
from amcl.analysis.cost import measure_in_turns
from amcl.config import Config
from amcl.config.fields import with_values

NETWORKS: dict[str, dict[str, Any]] = {
    "ResNet-10 ×0.25": {"backbone": "resnet10t", "stem": "standard", "width": 0.25},
    "ViT-Ti": {"backbone": "vit_tiny_patch16_224", "width": 1.0},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "--activation-checkpointing": {"activation_checkpointing": True},
    "--compile": {"compile": True},
    "--compile --activation-checkpointing": {"compile": True, "activation_checkpointing": True},
}
"""Settings of the hardware; the others are compared with the first."""


def configuration(network: str, options: dict[str, Any], batch_size: int) -> Config:
    """Return SimCLR with AMCL on a network."""
    base = recipes.recipe("cifar10-simclr-amcl")
    hardware = {"threads": 1, "accelerator": "cpu"}
    values = NETWORKS[network] | {"batch_size": batch_size} | hardware | options
    return with_values(base, values)


def measure(steps: int, batch_size: int) -> dict[str, Any]:
    """Return ratios of time, and the memory, by network and options."""
    results: dict[str, Any] = {}
    for network in NETWORKS:
        configs = [configuration(network, options, batch_size) for options in OPTIONS.values()]
        costs = measure_in_turns(configs, steps, image_size=32)
        results[network] = {
            name: {
                "to_plain": ratios(cost.seconds, costs[0].seconds),
                "seconds": [round(value, 4) for value in cost.seconds],
                "peak_memory": cost.peak_memory,
            }
            for name, cost in zip(OPTIONS, costs, strict=True)
        }
    return results


def table(results: dict[str, Any]) -> str:
    """Return the results as a table in Markdown."""
    lines = ["| network | options | time to plain | peak memory, MiB |", "|---|---|---|---|"]
    for network, entries in results.items():
        for name, entry in entries.items():
            memory = f"{entry['peak_memory'] / 2**20:,.0f}"
            lines.append(f"| {network} | {name} | {cell(entry['to_plain'])} | {memory} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=40, help="steps of each configuration")
    parser.add_argument("--batch-size", type=int, default=256, help="images of a step")
    parser.add_argument("--dry-run", action="store_true", help="print the table, write nothing")
    args = parser.parse_args()
    results = measure(args.steps, args.batch_size)
    if args.dry_run:
        print(table(results))
        return
    text = (
        "Time of a training step of SimCLR with AMCL (32 pixels, one thread) as a ratio to that\n"
        f"without the options: the median of {args.steps} steps of each in batches of\n"
        f"{args.batch_size}, taken in turns, with its 95 % confidence limits; and the growth of\n"
        f"the process. {conditions()}.\n\n{table(results)}\n\n"
        "Repeat with `python benchmarks/large_models.py`.\n"
    )
    write_results("large_models", "Checkpointing and compiling: time and memory", text, results)


if __name__ == "__main__":
    main()
