"""Evaluation of features by protocols, on any module that turns images into vectors."""

from amcl.checkpoints.evaluations import Result, read_results
from amcl.evaluation.cache import FeatureCache
from amcl.evaluation.detection import DetectionResult, DetectionSettings, detect, load_detector
from amcl.evaluation.evaluation import Evaluation
from amcl.evaluation.finetuning import FinetuneSettings
from amcl.evaluation.linear_layers import FixedFeatures
from amcl.evaluation.protocols.few_labels import FewLabelsSettings
from amcl.evaluation.protocols.linear import LinearSettings, linear_probe
from amcl.evaluation.protocols.logistic import LogisticSettings
from amcl.evaluation.protocols.unlabeled import UnlabeledSettings
from amcl.evaluation.registry import PROTOCOLS, Outcome, Protocol, register_protocol
from amcl.metrics.knn import KnnSettings

__all__ = [
    "PROTOCOLS",
    "DetectionResult",
    "DetectionSettings",
    "Evaluation",
    "FeatureCache",
    "FewLabelsSettings",
    "FinetuneSettings",
    "FixedFeatures",
    "KnnSettings",
    "LinearSettings",
    "LogisticSettings",
    "Outcome",
    "Protocol",
    "Result",
    "UnlabeledSettings",
    "detect",
    "linear_probe",
    "load_detector",
    "read_results",
    "register_protocol",
]
