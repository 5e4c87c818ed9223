"""The protocol "detect": a detector is trained end to end on annotated images of its own."""

import logging
from dataclasses import replace

import torch

from amcl.checkpoints.evaluations import read_result
from amcl.distributed import from_first
from amcl.evaluation.detection import DetectionData, DetectionSettings, detect
from amcl.evaluation.evaluation import Evaluation
from amcl.evaluation.registry import Outcome, register_protocol
from amcl.training.hardware import fabric_on

logger = logging.getLogger("amcl")


@register_protocol(
    "detect",
    DetectionSettings,
    needs_labels=False,
    own_images=True,
    shown=("recipe", "categories", "epochs", "image_size", "batch_size", "scratch"),
)
def run_detect(evaluation: Evaluation, settings: DetectionSettings) -> Outcome:
    """Train and measure a detector; with a folder, all of it is kept beside the result."""
    fabric = evaluation.fabric or fabric_on(torch.device(evaluation.device), evaluation.precision)
    data = DetectionData.of(settings)
    used = settings.resolved(
        images=len(data.train), longest=data.longest(), processes=fabric.world_size
    )
    outcome = Outcome(
        metrics={},
        settings=used.training(),
        split="test",
        images=data.identity(),
        data=data.test.name,
    )
    path = evaluation.result_path("detect", outcome)
    # All processes do as the first, which alone writes: another may look before it has written.
    if path is not None and from_first(path.is_file()):
        logger.info("%s has this result: remove the file to measure again", path)
        return replace(outcome, stored=read_result(path))
    result = detect(
        evaluation.model,
        used,
        mean=evaluation.transform.mean,
        std=evaluation.transform.std,
        data=data,
        folder=None if path is None else path.with_suffix(""),
        fabric=fabric,
        seed=evaluation.seed,
        workers=evaluation.workers,
    )
    return replace(
        outcome,
        metrics=result.metrics(),
        details={
            "box_classes": result.precision.box_classes,
            "mask_classes": result.precision.mask_classes,
            "epochs": used.epochs,
            "train_loss": list(result.losses),
            "pictures": list(result.pictures),
            "notes": list(result.notes),
        },
    )
