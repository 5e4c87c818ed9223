"""Metrics: features in, numbers out. kNN, spread and rank, separation of pairs, accuracies."""

from amcl.metrics.features import Features, Transform, extract, features_of
from amcl.metrics.knn import knn_accuracy, knn_predict
from amcl.metrics.unlabeled import (
    alignment,
    effective_rank,
    separation,
    separation_of,
    spread,
    uniformity,
)

__all__ = [
    "Features",
    "Transform",
    "alignment",
    "effective_rank",
    "extract",
    "features_of",
    "knn_accuracy",
    "knn_predict",
    "separation",
    "separation_of",
    "spread",
    "uniformity",
]
