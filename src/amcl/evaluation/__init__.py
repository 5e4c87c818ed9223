"""How good features are."""

from amcl.evaluation.features import effective_rank, extract, spread
from amcl.evaluation.knn import knn_accuracy, knn_predict

__all__ = ["effective_rank", "extract", "knn_accuracy", "knn_predict", "spread"]
