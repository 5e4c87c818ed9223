"""The protocol "finetune": the whole network is trained on the labeled training images."""

from dataclasses import asdict, replace

from amcl.checkpoints.evaluations import CLASSIFIER
from amcl.evaluation.evaluation import Evaluation
from amcl.evaluation.finetuning import FinetuneSettings, finetune, save_classifier
from amcl.evaluation.registry import Outcome, register_protocol


@register_protocol("finetune", FinetuneSettings, shown=("epochs", "layer_decay", "scratch"))
def run_finetune(evaluation: Evaluation, settings: FinetuneSettings) -> Outcome:
    """Train backbone and classifier end to end; with a folder, the classifier is saved there."""
    if settings.scratch:  # as `finetune` takes it: the result says what was done
        settings = replace(settings, layer_decay=1.0)
    used = asdict(settings) | {"precision": evaluation.precision}
    path = evaluation.result_path("finetune", Outcome(metrics={}, settings=used))
    trained = finetune(
        evaluation.model,
        evaluation.probe.bank,
        evaluation.probe.queries,
        len(evaluation.probe.classes),
        evaluation.transform,
        settings,
        device=evaluation.device,
        workers=evaluation.workers,
        seed=evaluation.seed,
        precision=evaluation.precision,
        checkpoint=None if path is None else path.with_suffix(".pt"),
    )
    if path is not None:
        save_classifier(
            path.with_suffix(CLASSIFIER),
            trained.state_dict,
            evaluation.probe.classes,
            evaluation.model,
            evaluation.transform,
            evaluation.data.pixel_format,
        )
    return Outcome(
        metrics=trained.metrics(),
        settings=used,
        details=trained.details(),
        predicted=trained.predicted,
        truth=trained.truth,
    )
