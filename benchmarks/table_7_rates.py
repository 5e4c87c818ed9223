"""Learning rates for the detectors of table 7 at scale cpu, on pictures that it does not report.

    python benchmarks/table_7_rates.py                         # from scratch, 20 epochs of each
    python benchmarks/table_7_rates.py --epochs 1 --rates 1e-3  # quick, to see that it runs

Precisions are in benchmarks/results/table_7_rates.json.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from results_files import conditions, write_results

from amcl.backbones import Backbone, BackboneSettings
from amcl.data.shapes import shapes
from amcl.evaluation import DetectionSettings, detect
from amcl.experiments.scales import SCALES

_SEED = 77  # of the pictures: the table's have seed 0
_SHOWN = ("box_AP", "box_AP50", "mask_AP", "mask_AP50", "box_AR")


def settings_of(folder: Path, epochs: int, lr: float) -> DetectionSettings:
    """Return the settings of the table, from scratch, with other pictures, epochs and rate."""
    settings = SCALES["cpu"].protocols["detect"]
    return replace(settings, data=str(folder), subset=None, scratch=True, epochs=epochs, lr=lr)


def main() -> None:
    """Train a detector at each rate, and write their precisions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3, 3e-3])
    parser.add_argument("--train", type=int, default=300, help="pictures to train on")
    parser.add_argument("--test", type=int, default=100, help="pictures to measure on")
    options = parser.parse_args()
    torch.manual_seed(0)
    network = BackboneSettings(name="test_vit", patch=SCALES["cpu"].detector_patch)
    backbone = Backbone(network, image_size=32)
    numbers = {}
    with tempfile.TemporaryDirectory() as parent:
        folder = shapes(Path(parent) / "shapes", train=options.train, test=options.test, seed=_SEED)
        for lr in options.rates:
            settings = settings_of(folder, options.epochs, lr)
            result = detect(backbone, settings, mean=(0.5,) * 3, std=(0.25,) * 3)
            metrics = result.metrics()
            numbers[f"lr {lr:g}"] = {name: round(metrics[name], 4) for name in _SHOWN}
    lines = ["| rate | box AP | box AP50 | mask AP |", "|---|---:|---:|---:|"]
    for name, metrics in numbers.items():
        cells = [f"{100 * metrics[key]:.1f}" for key in ("box_AP", "box_AP50", "mask_AP")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    about = (
        f"From scratch, {options.epochs} epochs of {options.train} drawn pictures, "
        f"{options.test} others to measure on, one seed; in %. {conditions()}."
    )
    title = "Learning rates for the detectors of table 7 at scale cpu"
    write_results("table_7_rates", title, f"{about}\n\n" + "\n".join(lines) + "\n", numbers)


if __name__ == "__main__":
    main()
