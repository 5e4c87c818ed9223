"""Pre-training: the loop, from images to a trained backbone."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from amcl.checkpoints.files import export_backbone, load_checkpoint
from amcl.checkpoints.run_folder import RunFolder
from amcl.config import Config
from amcl.data import Batch, DataSet, load_dataset, stream
from amcl.errors import Interrupted, NonFiniteError, RunError, StoppedWaiting
from amcl.training.fit import fitted
from amcl.training.hardware import StopRequest, make_fabric
from amcl.training.log import RunLog
from amcl.training.messages import (
    before_training,
    how_to_resume,
    non_finite,
    shorter_than_done,
    tell_new_length,
    tell_start,
)
from amcl.training.plan import Plan, counted
from amcl.training.ranks import shared_errors
from amcl.training.saving import CheckpointPolicy
from amcl.training.start import first_stage, init_of, method_to_train
from amcl.training.trackers import require_trackers
from amcl.training.trainer import Trainer
from amcl.training.watch import Watch

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger("amcl")

PATIENCE = 5.0  # seconds that processes which were asked to stop wait for images

OnProbe = Callable[[dict[str, Any]], None]


def pretrain(
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    on_probe: OnProbe | None = None,
) -> Path:
    """Train a backbone as `config` says and leave it in the run folder `out`.

    Everything random is a function of the seed and the step, so a run that was stopped and
    resumed is the run that never stopped. A resumed run may have other `epochs`, from where it is
    on. `on_probe` gets the line of metrics of each probe as it is made, and may raise an error to
    end the run. Returns the path of the trained backbone.
    """
    folder = RunFolder(Path(out))
    if not resume:
        folder.check_free()
    elif not folder.checkpoint.exists() and folder.is_finished(config.run.epochs):
        logger.info(
            "%s has finished its %s: nothing is left to do",
            out,
            counted(config.run.epochs, "epoch"),
        )
        return folder.backbone
    require_trackers(config)
    fabric = make_fabric(config.hardware)
    fabric.launch()
    with shared_errors(), StopRequest() as stop:
        with stop.at_once(before_training(folder)):
            data = load_data(config)
        config, notes = fitted(config, len(data.train), fabric.world_size)
        if fabric.is_global_zero:
            for note in notes:
                logger.info(note)
        begin = None if resume else partial(folder.create, config)
        before = first_stage(config)
        if before is not None:
            _run_first(fabric, before, config, data, folder, begin, stop)
            begin = None
        with closing(folder):
            _train(fabric, config, data, folder, begin, stop, on_probe)
    return folder.backbone


def _run_first(
    fabric: Fabric,
    config: Config,
    second: Config,
    data: DataSet,
    folder: RunFolder,
    begin: Callable[[], None] | None,
    stop: StopRequest,
) -> None:
    """Make, or finish, the run that the `second` starts from, inside that one's folder."""
    first = folder.first_stage
    began, ended = first.config.exists(), first.backbone.exists() or folder.checkpoint.exists()
    fabric.barrier()  # everyone has looked before anyone writes
    if ended:
        return

    def both() -> None:
        if begin is not None:
            begin()
        first.create(config)

    if fabric.is_global_zero:
        logger.info(
            "first of two stages, in %s: %s of MAE (--mae-epochs), then %d of %s (--epochs)",
            *(first.path, counted(config.run.epochs, "epoch")),
            *(second.run.epochs, second.method.name),
        )
    scale = fabric.strategy.precision.state_dict()
    with closing(first):
        _train(fabric, config, data, first, None if began else both, stop)
    fabric.strategy.precision.load_state_dict(scale)  # the second stage begins as a run alone does
    fabric.barrier()  # the first process has written the backbone that all start from
    if fabric.is_global_zero:
        logger.info("second of two stages, in %s", folder.path)


def _train(
    fabric: Fabric,
    config: Config,
    data: DataSet,
    folder: RunFolder,
    begin: Callable[[], None] | None,
    stop: StopRequest,
    on_probe: OnProbe | None = None,
) -> None:
    """Train one run to its end; `begin` makes the folder of a new one."""
    plan = Plan.of(config, data, fabric)
    checkpoint = None if begin is not None else folder.find_checkpoint()
    init = init_of(config, folder) if checkpoint is None else None
    method = method_to_train(config, data.image_size, init)
    watch = Watch(data, config.run.knn_k) if fabric.is_global_zero else None
    trainer = Trainer(fabric, config, plan, data, method)
    if checkpoint is not None:
        trainer.load_state_dict(load_checkpoint(checkpoint))
    saving = CheckpointPolicy(trainer, folder, config, plan, _about(data))
    with _named_errors(trainer, folder, config):
        _start(trainer, data, folder, begin, checkpoint, watch)
        if checkpoint is None:
            saving.save()  # from here on, a run without a checkpoint is one that has lost it
        with RunLog(folder, config, plan, fabric.is_global_zero) as log:
            _loop(trainer, saving, log, watch, _batches(trainer, data, stop), stop, on_probe)
    if fabric.is_global_zero:
        export_backbone(folder.backbone, method.backbone, saving.trained())
        logger.info("the trained backbone is in %s", folder.backbone)
        logger.info("judge it with: amcl evaluate %s", shlex.quote(str(folder.path)))


def _loop(
    trainer: Trainer,
    saving: CheckpointPolicy,
    log: RunLog,
    watch: Watch | None,
    batches: Generator[Batch],
    stop: StopRequest,
    on_probe: OnProbe | None,
) -> None:
    """Take the steps that are left; log, probe and save as they are due."""
    plan = trainer.plan
    log.display.start(trainer.step)
    with closing(batches):
        while trainer.step < plan.total:
            ends_epoch = (trainer.step + 1) % plan.per_epoch == 0
            try:
                loss, lr = trainer.train_step(batches, watch=ends_epoch)
            except (StoppedWaiting, ChildProcessError) as error:  # no images for this step
                saving.save()
                raise _without_images(error, trainer, saving.folder, stop) from error
            if not (ends_epoch or trainer.step % plan.check_every == 0):
                continue
            mean_loss, stopped = plan.agree(trainer.loss_sum, loss, stop)
            if not torch.isfinite(mean_loss):
                raise NonFiniteError("the loss")
            log.step(trainer.step, mean_loss.item(), lr)
            if ends_epoch:
                mean = trainer.loss_sum.item() / plan.per_epoch
                log.epoch(trainer.step, mean, lr, trainer.method.log_metrics())
                trainer.loss_sum.zero_()
                if watch is not None and watch.is_due(trainer):
                    trainer.require_finite()
                    row = log.probe(trainer.step, *watch.look(trainer))
                    if on_probe is not None:
                        on_probe(row)
                trainer.fabric.barrier()
                log.display.mark(trainer.step)
            saving.save_if_due(stopped)
            if stopped:
                raise Interrupted(how_to_resume(saving.folder, trainer.step, plan), stop.signal)


def _start(
    trainer: Trainer,
    data: DataSet,
    folder: RunFolder,
    begin: Callable[[], None] | None,
    checkpoint: Path | None,
    watch: Watch | None,
) -> None:
    """Open the run folder, and say what is about to be trained."""
    config, plan, step = trainer.config, trainer.plan, trainer.step
    stored = config if begin is not None else folder.read_config()
    if step > plan.total:
        raise RunError(shorter_than_done(folder, step, plan, stored))
    if watch is not None:
        if begin is not None:
            begin()
        folder.open(step, stored, config)
        logger.info("\n".join([data.describe(), *watch.describe()]))
        for warning in data.warnings:
            logger.warning(warning)
        for path, reason in data.unreadable:
            logger.debug("skipped %s: %s", path, reason)
        if begin is None:
            folder.log_source(checkpoint)
        tell_start(config, trainer.method, plan, step)
        if stored.run.epochs != config.run.epochs:
            tell_new_length(config, plan, step, stored.run.epochs)
    trainer.fabric.barrier()


def _batches(trainer: Trainer, data: DataSet, stop: StopRequest) -> Generator[Batch]:
    """Return the images of this process, part by part, from the trainer's step on."""
    # Several processes agree on the step they stop after, where each still gets its images.
    patience = PATIENCE if trainer.plan.world_size > 1 else 0.0
    return stream(
        data.train,
        trainer.plan.indices(trainer.step),
        workers=trainer.config.data.workers,
        on_wait=partial(stop.end_waiting, patience),
    )


def _without_images(
    error: Exception, trainer: Trainer, folder: RunFolder, stop: StopRequest
) -> Exception:
    """Return the error of a run that got no images for its next step and has been saved."""
    message = how_to_resume(folder, trainer.step, trainer.plan)
    if stop.signal is not None:
        return Interrupted(message, stop.signal)
    return ChildProcessError(f"{error} The run was {message}")


@contextmanager
def _named_errors(trainer: Trainer, folder: RunFolder, config: Config) -> Iterator[None]:
    """Give values that are not finite a message with the step, what is kept, and remedies."""
    try:
        yield
    except NonFiniteError as error:
        message = non_finite(str(error), trainer.step, folder, config)
        raise NonFiniteError(message) from None


def _about(data: DataSet) -> dict[str, Any]:
    """Return what a model needs to be used without its data set."""
    return {
        "image_size": data.image_size,
        "mean": data.mean,
        "std": data.std,
        "images": len(data.train),
    }


def load_data(config: Config) -> DataSet:
    """The images that a run of this configuration trains on."""
    settings = config.data
    return load_dataset(
        settings.source,
        root=Path(settings.data_root) if settings.data_root else None,
        image_size=settings.image_size,
        canvas=settings.canvas,
        labels=settings.labels,
        probe=settings.probe,
        validation=settings.validation,
        memory=settings.memory,
        workers=settings.workers,
        seed=config.run.seed,
        subset=settings.subset,
    )
