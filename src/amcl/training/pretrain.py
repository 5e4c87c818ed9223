"""Pre-training: the loop, from images to a trained backbone."""

from __future__ import annotations

import json
import logging
import shlex
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from amcl.backbones import Backbone
from amcl.data import DataSet, load_dataset, stream
from amcl.methods import Method
from amcl.training.checkpoint import (
    keep_checkpoint,
    load_checkpoint,
    save_checkpoint,
    save_tensors,
)
from amcl.training.config import Config
from amcl.training.display import Display
from amcl.training.errors import Interrupted, NonFiniteError, RunError, StoppedWaiting
from amcl.training.feed import Feed
from amcl.training.fit import fitted
from amcl.training.hardware import StopRequest, make_fabric
from amcl.training.messages import (
    before_training,
    how_to_resume,
    non_finite,
    shorter_than_done,
    tell_new_length,
    tell_start,
)
from amcl.training.optimizers import make_optimizer
from amcl.training.plan import Plan, counted
from amcl.training.run_folder import RunFolder
from amcl.training.start import first_stage, init_of, method_to_train
from amcl.training.step import Stepper
from amcl.training.trackers import make_trackers, require_trackers
from amcl.training.watch import Watch
from amcl.views import Views

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger("amcl")

PATIENCE = 5.0  # seconds that processes which were asked to stop wait for images
PAUSE = 30.0  # seconds between checkpoints at the ends of short epochs
_EARLY = 0.1  # share of a run in which signs of trouble mean nothing yet

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
    with StopRequest() as stop:
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
    """One run, to its end; `begin` makes the folder of a new one."""
    first = fabric.is_global_zero
    plan = Plan.of(config, data, fabric)
    stored = config if begin is not None else folder.read_config()
    checkpoint = None if begin is not None else folder.find_checkpoint()
    init = init_of(config, folder) if checkpoint is None else None
    method = method_to_train(config, data.image_size, init)
    optimizer = make_optimizer(method, config.optimizer, config.run.batch_size)
    views = Views(data.image_size, config.views, mean=data.mean, std=data.std)
    feed = Feed(method, views, plan, fabric.device, channels_last=config.hardware.channels_last)
    watch = Watch(data, config.run.knn_k) if first else None

    trained, optimizer = fabric.setup(method, optimizer)
    take_step = Stepper(fabric, config, plan, method, trained, optimizer, feed)
    done, loss_sum = 0, torch.zeros((), device=fabric.device)
    if checkpoint is not None:
        done = _restore(load_checkpoint(checkpoint), fabric, method, optimizer, loss_sum)
        if done > plan.total:
            raise RunError(shorter_than_done(folder, done, plan, stored))
    if first:
        if begin is not None:
            begin()
        folder.open(done, stored, config)
        logger.info("\n".join([data.describe(), *(watch.describe() if watch else [])]))
        for warning in data.warnings:
            logger.warning(warning)
        for path, reason in data.unreadable:
            logger.debug("skipped %s: %s", path, reason)
        if begin is None:
            folder.tell_source(checkpoint)
        tell_start(config, method, plan, done)
        if stored.run.epochs != config.run.epochs:
            tell_new_length(config, plan, done, stored.run.epochs)
    fabric.barrier()
    trackers = make_trackers(config, folder.path) if first else []

    def record(row: dict[str, Any]) -> None:
        folder.write(row)
        for tracker in trackers:
            tracker.write(row)

    def save() -> None:
        if first:
            _require_finite(method, done, folder, config)
            state = _state(fabric, method, optimizer, loss_sum, done, config)
            save_checkpoint(folder.checkpoint, {**state, "trained": trained_on(data, plan, done)})

    if checkpoint is None:
        save()  # from here on, a run without a checkpoint is one that has lost it
    display = Display(plan.total, plan.per_epoch, config.run.batch_size, shown=first)
    # Several processes agree on the step they stop after, where each still gets its images.
    patience = PATIENCE if plan.world_size > 1 else 0.0
    batches = stream(
        data.train,
        plan.indices(done),
        workers=config.data.workers,
        on_wait=partial(stop.end_waiting, patience),
    )
    saved = time.monotonic()
    with closing(batches), display:
        display.start(done)
        for step in range(done, plan.total):
            ends_epoch = (step + 1) % plan.per_epoch == 0
            try:
                loss, rate = take_step(step, batches, watch=ends_epoch)
            except (StoppedWaiting, ChildProcessError) as error:  # no images for this step
                save()
                ended = how_to_resume(folder, done, plan)
                if stop.signal is not None:
                    raise Interrupted(ended, stop.signal) from None
                raise ChildProcessError(f"{error} The run was {ended}") from error
            done = step + 1
            loss_sum += loss
            if not (ends_epoch or done % plan.check_every == 0):
                continue
            mean_loss, asked = plan.agree(loss_sum, loss, stop)
            if not torch.isfinite(mean_loss):
                raise NonFiniteError(non_finite("the loss", done, folder, config))
            display.advance(done, mean_loss.item())
            if done % config.run.log_every == 0:
                record({"kind": "step", "step": done, "loss": mean_loss.item(), "lr": rate})
            if ends_epoch:
                number = done // plan.per_epoch
                row = _epoch_row(method, plan, done, loss_sum, rate, display)
                loss_sum.zero_()
                if first:
                    record(row)
                    logger.log(
                        logging.DEBUG if display.bar.live.is_started else logging.INFO,
                        "epoch %d/%d  loss %.4f  %.0f images/s  %s left",
                        *(number, config.run.epochs, row["loss"], row["images_per_second"]),
                        display.left(done),
                    )
                    if watch and (number % config.run.probe_every == 0 or done == plan.total):
                        _require_finite(method, done, folder, config)
                        row = _probe(watch, method, fabric, number, done, record, config, plan)
                        if on_probe is not None:
                            on_probe(row)
                fabric.barrier()
                display.mark(done)
            seconds = time.monotonic() - saved
            keep = ends_epoch and plan.is_multiple(done, config.run.keep_every)
            due = ends_epoch and seconds > PAUSE and plan.is_multiple(done, config.run.save_every)
            late = seconds >= 60 * config.run.save_minutes
            if due or late or keep or asked or done == plan.total:
                save()
                saved = time.monotonic()
                if keep and first:
                    keep_checkpoint(folder.checkpoint, f"epoch-{done // plan.per_epoch:04d}.pt")
            if asked:
                raise Interrupted(how_to_resume(folder, done, plan), stop.signal)
    for tracker in trackers:
        tracker.close()
    if first:
        export_backbone(folder.backbone, method.backbone, trained_on(data, plan, done))
        logger.info("the trained backbone is in %s", folder.backbone)
        logger.info("judge it with: amcl evaluate %s", shlex.quote(str(folder.path)))


def trained_on(data: DataSet, plan: Plan, done: int) -> dict[str, Any]:
    """What a model needs to be used without its data set: normalization, and how far it came."""
    return {
        "image_size": data.image_size,
        "mean": data.mean,
        "std": data.std,
        "images": len(data.train),
        "step": done,
        "epoch": done / plan.per_epoch,
    }


def export_backbone(path: Path, backbone: Backbone, trained: dict[str, Any]) -> None:
    """Write a backbone for other tools: timm's keys, and in the metadata what made it."""
    # One entry: safetensors writes several in any order, and equal runs should be equal files.
    made = {**trained, **backbone.metadata()}
    save_tensors(path, backbone.network.state_dict(), {"amcl": json.dumps(made)})


def load_data(config: Config) -> DataSet:
    """The images that a run of this configuration trains on."""
    settings = config.data
    return load_dataset(
        settings.data,
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


def _epoch_row(
    method: Method,
    plan: Plan,
    done: int,
    loss_sum: torch.Tensor,
    rate: float,
    display: Display,
) -> dict[str, Any]:
    return {
        "kind": "epoch",
        "step": done,
        "epoch": done // plan.per_epoch,
        "loss": loss_sum.item() / plan.per_epoch,
        "lr": rate,
        "images_per_second": round(display.rate(done), 1),
        **method.measured(),
    }


def _probe(
    watch: Watch,
    method: Method,
    fabric: Fabric,
    epoch: int,
    done: int,
    record: Any,
    config: Config,
    plan: Plan,
) -> dict[str, Any]:
    found = watch.probe(method, fabric.device)
    row = {"kind": "probe", "step": done, "epoch": epoch, **found}
    record(row)
    text = "  ".join(
        f"{name} {value:.1%}" if name.startswith("knn") else f"{name} {value:.3g}"
        for name, value in found.items()
    )
    logger.info("epoch %d  %s", epoch, text)
    early = done < max(_EARLY * plan.total, config.optimizer.warmup_epochs * plan.per_epoch)
    for told in [] if early else watch.advice(method, found):
        logger.warning("epoch %d: %s", epoch, told)
    return row


def _state(
    fabric: Fabric,
    method: Method,
    optimizer: Any,
    loss_sum: torch.Tensor,
    done: int,
    config: Config,
) -> dict[str, Any]:
    return {
        "step": done,
        "config": config.to_toml(),
        "method": method.state_dict(),
        "optimizer": optimizer.state_dict(),
        "loss_sum": loss_sum,
        "precision": fabric.strategy.precision.state_dict(),
    }


def _restore(
    state: dict[str, Any],
    fabric: Fabric,
    method: Method,
    optimizer: Any,
    loss_sum: torch.Tensor,
) -> int:
    method.load_state_dict(state["method"])
    optimizer.load_state_dict(state["optimizer"])
    fabric.strategy.precision.load_state_dict(state["precision"])
    loss_sum.copy_(state["loss_sum"])
    step: int = state["step"]
    return step


def _require_finite(method: Method, done: int, folder: RunFolder, config: Config) -> None:
    for name, value in method.state_dict().items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise NonFiniteError(non_finite(name, done, folder, config))
