"""How good features are: protocols on any module that turns images into vectors."""

from amcl.checkpoints.evaluations import Result, read_results
from amcl.evaluation.cache import FeatureCache
from amcl.evaluation.evaluate import PROTOCOLS, Evaluation, Protocol, Protocols
from amcl.evaluation.few_labels import FewLabelsSettings
from amcl.evaluation.finetuning import FinetuneSettings
from amcl.evaluation.linear import FixedFeatures, LinearSettings, linear_probe
from amcl.evaluation.logistic import LogisticSettings
from amcl.metrics.features import Features, Transform, extract, features_of
from amcl.metrics.knn import KnnSettings, knn_accuracy, knn_predict
from amcl.metrics.unlabeled import (
    UnlabeledSettings,
    alignment,
    effective_rank,
    separation,
    separation_of,
    spread,
    uniformity,
)

__all__ = [
    "PROTOCOLS",
    "Evaluation",
    "FeatureCache",
    "Features",
    "FewLabelsSettings",
    "FinetuneSettings",
    "FixedFeatures",
    "KnnSettings",
    "LinearSettings",
    "LogisticSettings",
    "Protocol",
    "Protocols",
    "Result",
    "Transform",
    "UnlabeledSettings",
    "alignment",
    "effective_rank",
    "extract",
    "features_of",
    "knn_accuracy",
    "knn_predict",
    "linear_probe",
    "read_results",
    "separation",
    "separation_of",
    "spread",
    "uniformity",
]
