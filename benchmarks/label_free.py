"""How well measures without labels stand in for accuracy, over the trials of a study.

    python benchmarks/label_free.py studies/first

prints Spearman's rank correlation of each with the kNN accuracy that trials were judged by.
"""

import argparse
from pathlib import Path

from scipy.stats import spearmanr

from amcl.checkpoints import open_model
from amcl.evaluation.build import EvaluationData, make_evaluation
from amcl.sweep.outcome import probes


def main() -> None:
    """Measure the backbone of each complete trial, and correlate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, help="the folder of a study with labeled images")
    runs = sorted((parser.parse_args().study / "trials").glob("*/backbone.safetensors"))
    accuracy, measured = [], []
    for run in (file.parent for file in runs):
        accuracy.append(probes(run)[-1]["knn_validation"])
        evaluation = make_evaluation(open_model(run), EvaluationData(split="validation"))
        measured.append(evaluation.run("unlabeled").metrics)
    print(f"{len(runs)} trials; rank correlation with kNN accuracy:")
    for name in measured[0]:
        found = spearmanr([metrics[name] for metrics in measured], accuracy).statistic
        print(f"  {name:<20} {found:+.2f}")


if __name__ == "__main__":
    main()
