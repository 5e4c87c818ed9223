"""Pre-training: from images to a trained backbone in its run folder."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amcl.checkpoints.files import export_backbone
from amcl.checkpoints.run_folder import Resumed, RunFolder
from amcl.config import Config
from amcl.data import DataSet, load_dataset
from amcl.errors import RunError
from amcl.printable import counted
from amcl.training.display import Display
from amcl.training.fit import fitted
from amcl.training.hardware import StopRequest, make_fabric
from amcl.training.log import RunLog
from amcl.training.loop import train
from amcl.training.messages import (
    before_training,
    data_hint,
    how_to_resume,
    shorter_than_done,
    tell_new_length,
    tell_start,
)
from amcl.training.plan import Plan
from amcl.training.prepare import check_strategy, prepared
from amcl.training.pretraining_task import OnProbe, PretrainingTask
from amcl.training.ranks import shared_errors
from amcl.training.resume import check_unchanged, restore
from amcl.training.saving import CheckpointPolicy
from amcl.training.start import (
    FirstWeights,
    check_channels,
    first_stage,
    first_weights,
    method_to_train,
    normalized_for,
)
from amcl.training.trackers import open_trackers, require_trackers
from amcl.training.trained_on import Trained, trained_on
from amcl.training.trainer import Trainer
from amcl.training.watch import Watch

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger("amcl")


def pretrain(
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    accept_changes: bool = False,
    on_probe: OnProbe | None = None,
) -> Path:
    """Train a backbone as `config` says and leave it in the run folder `out`.

    Everything random is a function of the seed and the step, so a run that was stopped and
    resumed is the run that never stopped.

    Args:
        config: Settings of the run. A resumed run may have other `epochs`, from where it is on.
        out: The run folder, new unless the run is resumed.
        resume: Resume the run that is in the folder.
        accept_changes: Resume it though images, settings or amcl have changed since the checkpoint.
        on_probe: Function of the metrics of each probe; it may raise an error to end the run.

    Returns:
        The path of the trained backbone.

    Raises:
        RunError: The run cannot start or continue.
        Interrupted: Ctrl-C, SIGTERM or SIGHUP stopped the run, and everything is saved.
        NonFiniteError: The run has diverged.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from amcl.backbones import BackboneSettings
        >>> from amcl.config import DataSettings, RunSettings
        >>> config = Config(
        ...     backbone=BackboneSettings(name="resnet10t", width=0.125),
        ...     data=DataSettings(source="builtin", subset=32, probe="none"),
        ...     run=RunSettings(epochs=1, batch_size=16),
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     pretrain(config, f"{folder}/run").name
        'backbone.safetensors'
    """
    folder = RunFolder(Path(out))
    if not resume:
        folder.check_free()
    elif folder.is_finished(config.run.epochs):
        logger.info(
            "%s has finished its %s: nothing is left to do",
            out,
            counted(config.run.epochs, "epoch"),
        )
        return folder.backbone
    require_trackers(config)
    check_strategy(config)
    fabric = make_fabric(config.hardware)
    fabric.launch()
    with shared_errors(), StopRequest() as stop:
        with stop.at_once(before_training(folder)):
            data = load_data(config, trained_on(folder) if resume else None)
        config, notes = fitted(config, len(data.train), fabric.world_size, data.channels)
        if fabric.is_global_zero:
            for note in notes:
                logger.info(note)
        begin = None if resume else partial(folder.create, config)
        before = first_stage(config)
        if before is not None:
            _run_first(fabric, before, config, data, folder, begin, stop, accept_changes)
            begin = None
        with closing(folder):
            _train(fabric, config, data, folder, begin, stop, accept_changes, on_probe)
    return folder.backbone


def _run_first(
    fabric: Fabric,
    config: Config,
    second: Config,
    data: DataSet,
    folder: RunFolder,
    begin: Callable[[], None] | None,
    stop: StopRequest,
    accept_changes: bool,
) -> None:
    """Make, or finish, the run that the `second` starts from, inside that one's folder."""
    first = folder.first_stage
    began = first.config.exists()
    ended = first.backbone.exists() or folder.checkpoint.exists()
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
        _train(fabric, config, data, first, None if began else both, stop, accept_changes)
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
    accept_changes: bool,
    on_probe: OnProbe | None = None,
) -> None:
    """Train one run to its end; `begin` makes the folder of a new one."""
    run = config.run
    plan = Plan.of(config, data, fabric)
    resumed = None if begin is not None else folder.load_checkpoint()
    if resumed is not None and fabric.is_global_zero and not accept_changes:
        check_unchanged(resumed.state, config, data.train, folder, resumed.path)
    weights = None
    if resumed is not None:
        check_channels(data, resumed)
    else:
        weights = first_weights(config, folder, data.image_size, data.channels)
    data = normalized_for(data, weights, resumed if run.init is not None else None)
    method = method_to_train(config, data.image_size, weights, data.channels)
    plan.check_norms(method)
    method = prepared(method, config.hardware, fabric)
    watch = Watch(data, run.knn_k) if fabric.is_global_zero else None
    task = PretrainingTask(fabric, config, plan, data, method, watch, on_probe)
    trainer = Trainer(fabric, task)
    if resumed is not None:
        restore(trainer, resumed.state, resumed.path)
    saving = CheckpointPolicy(
        trainer,
        folder.checkpoint,
        how_to_resume(folder),
        from_start=True,  # from here on, a run without a checkpoint is one that has lost it
        save_every=run.save_every,
        save_minutes=run.save_minutes,
        keep_every=run.keep_every,
        keep_last=run.keep_last,
        about=_about(data),
    )
    _start(trainer, task, folder, begin, resumed, weights)
    del weights
    if resumed is not None:
        saving.resume_from(resumed.path)
    first = fabric.is_global_zero
    with (
        open_trackers(config, folder.path, first) as trackers,
        Display(plan.total, plan.per_epoch, plan.batch_size, shown=first) as display,
    ):
        hint = data_hint(config, data, fabric.world_size)
        log = RunLog(display, [folder, *trackers], run.log_every, hint)
        train(trainer, saving, log, stop)
    network = task.trained_network()
    if network is not None and fabric.is_global_zero:
        backbone = method.trained_backbone
        export_backbone(folder.backbone, backbone, saving.trained(), network.state_dict())
        logger.info("the trained backbone is in %s", folder.backbone)
        logger.info("judge it with: amcl evaluate %s", shlex.quote(str(folder.path)))


def _start(
    trainer: Trainer,
    task: PretrainingTask,
    folder: RunFolder,
    begin: Callable[[], None] | None,
    resumed: Resumed | None,
    weights: FirstWeights | None,
) -> None:
    """Open the run folder, and say what is about to be trained."""
    config, data, plan, step = task.config, task.data, task.plan, trainer.step
    stored = config if begin is not None else folder.read_config()
    if step > plan.total:
        raise RunError(shorter_than_done(folder, step, plan, stored))
    if task.watch is not None:
        if begin is not None:
            begin()
        folder.open(step, partial(folder.store_changes, stored, config))
        logger.info("\n".join([data.describe(), *task.watch.describe()]))
        for warning in data.warnings:
            logger.warning(warning)
        for path, reason in data.unreadable:
            logger.debug("skipped %s: %s", path, reason)
        if begin is None:
            folder.log_source(resumed)
        if weights is not None:
            logger.info("; ".join((f"starts from {weights.name}", *weights.notes)))
        tell_start(config, task.method, plan, step)
        if stored.run.epochs != config.run.epochs:
            tell_new_length(config, plan, step, stored.run.epochs)
    trainer.fabric.barrier()


def _about(data: DataSet) -> dict[str, Any]:
    """Return what a model needs to be used without its data set."""
    return {
        "image_size": data.image_size,
        "mean": data.mean,
        "std": data.std,
        "images": len(data.train),
        **data.pixel_format.metadata(),
    }


def load_data(config: Config, trained: Trained | None = None) -> DataSet:
    """Return the images that a run of this configuration trains on.

    Args:
        config: The configuration.
        trained: Form of the images that the run has been trained on so far: it stays the same.
    """
    settings = config.data
    pixels, normalization = (None, None) if trained is None else trained.for_settings(settings)
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
        train_labels=config.method.needs_labels,
        channels=settings.channels,
        value_range=settings.value_range,
        pixels=pixels,
        normalization=normalization,
    )
