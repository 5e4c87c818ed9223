"""The protocol "knn": nearest neighbors among the training images vote for a class."""

from dataclasses import asdict, replace

import torch

from amcl.config import Config
from amcl.evaluation.evaluation import Evaluation, has_labels
from amcl.evaluation.registry import Outcome, register_protocol
from amcl.metrics.knn import KnnSettings, default_k, knn


def _settings_of_run(config: Config) -> KnnSettings:
    return KnnSettings(k=config.run.knn_k)


@register_protocol(
    "knn",
    KnnSettings,
    shown=("k", "tau", "metric"),
    is_default=has_labels,
    settings_of_run=_settings_of_run,
)
def run_knn(evaluation: Evaluation, settings: KnnSettings) -> Outcome:
    """Classify the test images by their nearest neighbors among the training images."""
    train_x, train_y, test_x, test_y = evaluation.labeled_features
    if settings.k is None:  # the result says what was used
        settings = replace(settings, k=default_k(train_y))
    if torch.device(evaluation.device).type == "cuda":  # others lack the float64 of euclidean
        train_x = train_x.to(evaluation.device)
    num_classes = len(evaluation.probe.classes)
    metrics, predicted = knn(train_x, train_y, test_x, test_y, settings, num_classes)
    return Outcome(metrics=metrics, settings=asdict(settings), predicted=predicted, truth=test_y)
