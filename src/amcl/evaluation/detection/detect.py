"""Detection: a detector trained end to end from a backbone, and measured by average precision."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from amcl.checkpoints.training_folder import read_metrics
from amcl.data.coco import CocoSet
from amcl.distributed import broadcast_buffers, from_first
from amcl.errors import Interrupted, RunError
from amcl.evaluation.detection.average_precision import (
    AveragePrecision,
    Detections,
    average_precision,
)
from amcl.evaluation.detection.folder import DetectionFolder, load_detector
from amcl.evaluation.detection.images import DetectionData
from amcl.evaluation.detection.inference import detections_of
from amcl.evaluation.detection.networks import detector
from amcl.evaluation.detection.pictures import side_by_side
from amcl.evaluation.detection.settings import DetectionSettings
from amcl.evaluation.detection.task import DetectionTask
from amcl.evaluation.finetuning.classifier import seeded
from amcl.metrics.features import fingerprint
from amcl.printable import counted
from amcl.training.display import Display
from amcl.training.hardware import StopRequest, fabric_on
from amcl.training.log import RunLog
from amcl.training.loop import train as train_task
from amcl.training.resume import restore
from amcl.training.saving import CheckpointPolicy
from amcl.training.trainer import Trainer

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger("amcl")

_RESUME = "Resume it by the same command."


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectionResult:
    """Result of a detector after its last epoch."""

    precision: AveragePrecision
    """Average precision of boxes and masks, over all classes and by class."""
    settings: DetectionSettings
    """Settings, with those that were left out."""
    notes: tuple[str, ...]
    """Sentences on what was chosen or adapted."""
    losses: tuple[float, ...]
    """Mean loss of each epoch; empty without a folder."""
    pictures: tuple[str, ...]
    """Image names of the pictures that were drawn."""

    def metrics(self) -> dict[str, float]:
        """Return average precisions by name, as shares from 0 to 1."""
        return dict(self.precision.metrics)


def detect(
    backbone: nn.Module,
    settings: DetectionSettings,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    data: DetectionData | None = None,
    folder: str | Path | None = None,
    fabric: "Fabric | None" = None,
    seed: int = 0,
    workers: int = 0,
) -> DetectionResult:
    """Train a detector from a backbone on annotated images, and measure it on test images.

    The detector is Mask R-CNN, or Faster R-CNN where there are no masks.

    Args:
        backbone: An `amcl.backbones.Backbone`, as `amcl.load` returns it; it is left as it is.
        settings: Images, network and training.
        mean: Means of the channels that the backbone was trained with; None for its own.
        std: Standard deviations of the channels.
        data: The images, where they have been read before.
        folder: A folder for metrics, checkpoints, the detector, its detections and pictures. A
            training that was stopped there is resumed.
        fabric: Devices, processes and precision; None for this process and a CPU.
        seed: Everything random follows from it.
        workers: Number of processes that read images; 0 reads in this one.

    Returns:
        Average precisions after the last epoch.

    Raises:
        Interrupted: A signal stopped the training, and it is saved in `folder`.
        NonFiniteError: The training has diverged.

    Example:
        >>> import amcl
        >>> from amcl.evaluation import DetectionSettings, detect
        >>> settings = DetectionSettings(data="coco", epochs=12)
        >>> result = detect(amcl.load("runs/first"), settings)  # doctest: +SKIP
        >>> result.metrics()["box_AP"]  # doctest: +SKIP
        0.213
    """
    fabric = fabric_on(torch.device("cpu"), "32") if fabric is None else fabric
    mean, std = _normalization(backbone, mean, std)
    data = DetectionData.of(settings) if data is None else data
    settings = settings.resolved(
        images=len(data.train), longest=data.longest(), processes=fabric.world_size
    )
    files = None if folder is None else DetectionFolder(Path(folder))
    model, notes = _new_detector(backbone, settings, data, mean, std, fabric, seed)
    if files is not None and from_first(files.has_result()):
        _load_trained(model, files)
        model.to(fabric.device)
    else:
        with seeded(seed, "detect", device=fabric.device):  # steps seed the global generators
            _train(fabric, model, data, settings, notes, mean, files, seed, workers)
    measured = _measure(fabric, model, data.test, settings, workers)
    pictures: list[str] = []
    precision: AveragePrecision | None = None
    if measured is not None:
        precision, detections, unreadable = measured
        notes += _note_on_unreadable(unreadable)
        pictures = [] if files is None else _save(files, data.test, detections)
    precision, notes, pictures = from_first((precision, notes, pictures))
    assert precision is not None
    return DetectionResult(
        precision=precision,
        settings=settings,
        notes=tuple(notes),
        losses=_losses(files),
        pictures=tuple(pictures),
    )


def _load_trained(model: nn.Module, files: DetectionFolder) -> None:
    """Load the detector that a training has left in its folder."""
    logger.info("%s is there: nothing is trained again", files.detector)
    try:
        model.load_state_dict(load_detector(files.detector).model.state_dict())
    except RuntimeError:
        raise RunError(
            f"{files.detector} is another detector than this command trains: {files.start_again()}"
        ) from None


def _note_on_unreadable(unreadable: dict[str, str]) -> list[str]:
    """Return a note on test images that cannot be read, if there are some."""
    if not unreadable:
        return []
    path, reason = next(iter(unreadable.items()))
    return [f"{counted(len(unreadable), 'test image')} cannot be read, {path}: {reason}"]


def _save(files: DetectionFolder, test: CocoSet, detections: list[Detections]) -> list[str]:
    """Write detections and pictures of them, and return the image names of the pictures."""
    files.save_detections(test, detections)
    drawn, indices = side_by_side(test, detections)
    files.save_pictures(drawn)
    files.remove_leftovers()
    return [Path(test.path(index)).name for index in indices]


def _normalization(
    backbone: nn.Module, mean: Sequence[float] | None, std: Sequence[float] | None
) -> tuple[Sequence[float], Sequence[float]]:
    """Return the mean and std of the channels: those given, or the backbone's own."""
    if mean is not None and std is not None:
        return mean, std
    stored = getattr(backbone, "normalization", None)
    if stored is None:
        raise ValueError(
            "the backbone does not say how its images are normalized: give mean and std, such as "
            "amcl.views.IMAGENET_MEAN and IMAGENET_STD."
        )
    own: tuple[Sequence[float], Sequence[float]] = stored
    return own


def _new_detector(
    backbone: nn.Module,
    settings: DetectionSettings,
    data: DetectionData,
    mean: Sequence[float],
    std: Sequence[float],
    fabric: "Fabric",
    seed: int,
) -> tuple[nn.Module, list[str]]:
    """Return the detector with its first weights, and notes on it."""
    assert settings.image_size
    assert settings.batch_size
    return detector(
        backbone,
        len(data.train.classes),
        settings.detector,
        image_size=settings.image_size,
        mean=mean,
        std=std,
        masks=data.train.has_masks,
        scratch=settings.scratch,
        images_per_step=settings.batch_size // settings.accumulate,
        processes=fabric.world_size,
        device=fabric.device,
        seed=seed,
    )


def _train(
    fabric: "Fabric",
    model: nn.Module,
    data: DetectionData,
    settings: DetectionSettings,
    notes: list[str],
    mean: Sequence[float],
    files: DetectionFolder | None,
    seed: int,
    workers: int,
) -> None:
    """Train to the end, from the newest checkpoint if there is one."""
    red, green, blue = (round(255 * value) for value in mean)

    def validate() -> dict[str, float]:
        measured = _measure(fabric, model, data.test, settings, workers)
        return {} if measured is None else _headline(measured[0])

    task = DetectionTask(
        fabric,
        model,
        data.train,
        settings,
        fill=(red, green, blue),
        seed=seed,
        workers=workers,
        identity={
            "settings": repr(settings.training()),
            "seed": repr(seed),
            "images": data.identity()["sha256"],
            "weights": fingerprint(model),
        },
        validate=validate,
    )
    trainer = Trainer(fabric, task)
    if files is not None and (resumed := files.load_checkpoint()) is not None:
        restore(trainer, resumed.state, resumed.path)
    first = fabric.is_global_zero
    saving = CheckpointPolicy(
        trainer,
        None if files is None else files.checkpoint,
        _RESUME,
        from_start=True,
        keep_last=2,
    )
    stop = StopRequest()
    with (
        _written(files if first else None, trainer.step) as writers,
        # Without a folder nothing could be saved, and a signal does what it always does.
        nullcontext() if files is None else stop,
        Display(
            *(task.total, task.per_epoch, task.batch_size), shown=first, name="detection"
        ) as display,
    ):
        if first:
            _describe(model, data, settings, notes, task, trainer.step)
        train_task(trainer, saving, RunLog(display, writers, log_every=10), stop)
        if stop.signal is not None:  # it came after the last step
            raise Interrupted(saving.how_to_resume(), stop.signal)
    if files is not None and first:
        files.save_detector(model, data.train.classes)
    fabric.barrier()


@contextmanager
def _written(files: DetectionFolder | None, step: int) -> Iterator[list[DetectionFolder]]:
    """Open the folder for metrics and the log, if there is one."""
    if files is None:
        yield []
        return
    try:
        files.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"could not make the folder {files.path}: {error}.") from error
    with closing(files):
        files.open(step)
        yield [files]


def _describe(
    model: nn.Module,
    data: DetectionData,
    settings: DetectionSettings,
    notes: Sequence[str],
    task: DetectionTask,
    step: int,
) -> None:
    """Log what is about to be trained."""
    parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
    kind = "Mask R-CNN" if data.train.has_masks else "Faster R-CNN (there are no masks)"
    logger.info(
        "%s on %s of %d classes, %d to test on; %.1f M parameters; images of %d pixels; AdamW "
        "%.2g; %s of %s of %s%s",
        *(kind, counted(len(data.train), "image"), len(data.train.classes), len(data.test)),
        *(parameters / 1e6, settings.image_size, task.peak_lr),
        *(counted(task.epochs, "epoch"), counted(task.per_epoch, "step")),
        counted(task.batch_size, "image"),
        f"; resumed after step {step} of {task.total}" if step else "",
    )
    for note in notes:
        logger.info(note)


def _measure(
    fabric: "Fabric", model: nn.Module, test: CocoSet, settings: DetectionSettings, workers: int
) -> tuple[AveragePrecision, list[Detections], dict[str, str]] | None:
    """Return precision, detections and unreadable files; None but on the first process."""
    assert settings.batch_size
    at_once = max(settings.batch_size // (settings.accumulate * fabric.world_size), 1)
    broadcast_buffers(model)
    measured = detections_of(model, test, fabric, at_once=at_once, workers=workers)
    if measured is None:
        return None
    detections, unreadable = measured
    return average_precision(test, detections), detections, unreadable


def _headline(precision: AveragePrecision) -> dict[str, float]:
    """Return the precisions that a log shows during training."""
    names = ("box_AP", "box_AP50", "mask_AP")
    return {name: precision.metrics[name] for name in names if name in precision.metrics}


def _losses(files: DetectionFolder | None) -> tuple[float, ...]:
    """Return the mean loss of each epoch, where it was written."""
    if files is None or not files.metrics.is_file():
        return ()
    return tuple(row["loss"] for row in read_metrics(files.path) if row["kind"] == "epoch")
