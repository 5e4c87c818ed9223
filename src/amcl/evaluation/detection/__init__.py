"""Detection and segmentation: Mask R-CNN trained end to end from any backbone."""

from amcl.evaluation.detection.average_precision import (
    AveragePrecision,
    Detections,
    average_precision,
)
from amcl.evaluation.detection.detect import DetectionResult, detect
from amcl.evaluation.detection.detector_settings import DetectorSettings
from amcl.evaluation.detection.folder import LoadedDetector, load_detector
from amcl.evaluation.detection.images import DetectionData
from amcl.evaluation.detection.networks import detector
from amcl.evaluation.detection.settings import DetectionSettings

__all__ = [
    "AveragePrecision",
    "DetectionData",
    "DetectionResult",
    "DetectionSettings",
    "Detections",
    "DetectorSettings",
    "LoadedDetector",
    "average_precision",
    "detect",
    "detector",
    "load_detector",
]
