"""Fine-tuning: a classifier trained end to end, from a backbone or from fresh weights."""

from amcl.evaluation.finetuning.finetune import (
    FinetuneResult,
    Precision,
    finetune,
    supervised,
)
from amcl.evaluation.finetuning.plan import FinetuneSettings
from amcl.evaluation.finetuning.saved import SavedClassifier, load_classifier, save_classifier

__all__ = [
    "FinetuneResult",
    "FinetuneSettings",
    "Precision",
    "SavedClassifier",
    "finetune",
    "load_classifier",
    "save_classifier",
    "supervised",
]
