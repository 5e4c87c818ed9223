"""Time of a training step with each temperature, against a constant one, taken in turns.

    python benchmarks/temperature_cost.py  # measure, and write results/temperature_cost.{md,json}

It is SimCLR on the small network of docs/short-runs.md, on one thread, on a machine that does
nothing else. All configurations are in memory at once (about 0.5 GB each), and each takes a step in
turn.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from evidence import slowdown
from results_files import conditions, write_results

from amcl import recipes
from amcl.analysis.cost import measure_in_turns
from amcl.config import Config
from amcl.config.fields import value_from, with_values

NETWORK = {
    "backbone": "resnet10t",
    "stem": "standard",
    "width": "0.25",
    "projector_last_norm": "plain",
    "batch_size": "256",
    "optimizer": "adamw",
    "threads": "1",
}
IMAGES = 5120  # of the training set: iSogCLR has a temperature for each
SCHEMES: dict[str, dict[str, str]] = {
    "constant": {"tau": "0.1"},
    "learnable": {"tau": "0.1"},
    "adaptive": {"tau": "0.1"},
    "one-sided": {"tau": "0.1"},
    "macl": {"tau": "0.1"},
    "isogclr": {"tau": "0.1", "positive_in_denominator": "False"},
    "dystress": {},
    "artanh": {},
    "positive-scale": {},
    "uncertainty": {"tau": "0.1"},
    "scheduled": {"tau_period": "6"},
}
"""Options of each temperature; the first is what the others are compared with."""
HEADS = (1, 3)
PENALTY = "adaptive, head_diversity 1"


def configuration(scheme: str, heads: int, options: Mapping[str, str]) -> Config:
    """Return SimCLR on the small network with a temperature and a number of heads."""
    config = recipes.recipe("cifar10-simclr")
    for values in ({"temperature": scheme}, {"heads": str(heads)}, NETWORK | dict(options)):
        typed = {name: value_from(config, name, text) for name, text in values.items()}
        config = with_values(config, typed)
    return config


def configurations(heads: int) -> dict[str, Config]:
    """Return a configuration for each temperature, and with several heads one of the penalty."""
    configs = {name: configuration(name, heads, options) for name, options in SCHEMES.items()}
    if heads > 1:
        penalty = SCHEMES["adaptive"] | {"head_diversity": "1"}
        configs[PENALTY] = configuration("adaptive", heads, penalty)
    return configs


def ratios(seconds: Sequence[float], base: Sequence[float]) -> dict[str, float]:
    """Return the median of the ratios of all turns, with its 95 % confidence limits.

    >>> ratios([1.1, 4.2, 1.5], [1.0, 4.0, 1.0])
    {'median': 1.1, 'low': 1.05, 'high': 1.5}
    """
    limits = slowdown({"seconds": {"baseline": base, "+ AMCL": seconds}})
    return dict(zip(("median", "low", "high"), limits, strict=True))


def measure(steps: int) -> dict[str, Any]:
    """Return seconds and ratios by number of heads and temperature."""
    first = configuration("constant", 1, SCHEMES["constant"])
    results: dict[str, Any] = {}
    for heads in HEADS:
        configs = configurations(heads)
        # One head and a constant temperature takes part in both rounds.
        costs = measure_in_turns([first, *configs.values()], steps, images=IMAGES)
        one_head, *others = (cost.seconds for cost in costs)
        constant = others[0]
        results[str(heads)] = {
            name: {
                "to_constant": ratios(seconds, constant),
                "to_one_head": ratios(seconds, one_head),
                "seconds": [round(value, 4) for value in seconds],
            }
            for name, seconds in zip(configs, others, strict=True)
        }
    return results


def cell(ratio: Mapping[str, float]) -> str:
    """Return a ratio with its limits as a cell of a table."""
    return f"{ratio['median']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"


def table(results: Mapping[str, Any]) -> str:
    """Return the ratios as a table in Markdown."""
    one, three = (results[str(heads)] for heads in HEADS)
    lines = [
        "| temperature | one head | three heads | three heads to one and constant τ |",
        "|---|---|---|---|",
    ]
    for name, entry in three.items():
        single = cell(one[name]["to_constant"]) if name in one else "–"
        many = f"{cell(entry['to_constant'])} | {cell(entry['to_one_head'])}"
        lines.append(f"| {name} | {single} | {many} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=40, help="steps of each configuration")
    args = parser.parse_args()
    results = measure(args.steps)
    text = (
        "Time of a training step of SimCLR (ResNet-10 of a quarter of its width, 32 pixels,\n"
        "batches of 256, one thread) as a ratio to that of a constant temperature: the median of\n"
        f"{args.steps} steps of each, taken in turns, with its 95 % confidence limits. Views are\n"
        f"part of a step, decoding of pictures is not. {conditions()}.\n\n{table(results)}\n\n"
        "Repeat with `python benchmarks/temperature_cost.py`.\n"
    )
    write_results("temperature_cost", "Temperatures: time of a step", text, results)


if __name__ == "__main__":
    main()
