"""Rank correlation of label-free metrics with accuracy, over the trials of a study.

    python benchmarks/label_free.py studies/first

prints Spearman's rank correlation of each metric with the kNN accuracy of the trials.
"""

import argparse
from pathlib import Path

from scipy.stats import spearmanr

from amcl.checkpoints import open_model
from amcl.evaluation.build import EvaluationData, make_evaluation
from amcl.sweep.single_run import read_probes


def main() -> None:
    """Evaluate the backbone of each complete trial, and print the correlations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, help="the folder of a study with labeled images")
    runs = sorted((parser.parse_args().study / "trials").glob("*/backbone.safetensors"))
    accuracies = []
    metrics = []
    for run in (file.parent for file in runs):
        accuracies.append(read_probes(run)[-1]["knn_validation"])
        evaluation = make_evaluation(open_model(run), EvaluationData(split="validation"))
        metrics.append(evaluation.run("unlabeled").metrics)
    print(f"{len(runs)} trials; rank correlation with kNN accuracy:")
    for name in metrics[0]:
        correlation = spearmanr([trial[name] for trial in metrics], accuracies).statistic
        print(f"  {name:<20} {correlation:+.2f}")


if __name__ == "__main__":
    main()
