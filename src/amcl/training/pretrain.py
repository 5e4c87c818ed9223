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
from amcl.methods import HeadSettings, Method
from amcl.training.checkpoint import (
    keep_checkpoint,
    load_checkpoint,
    save_checkpoint,
    save_tensors,
)
from amcl.training.config import Config
from amcl.training.display import Display
from amcl.training.errors import Interrupted, NonFiniteError
from amcl.training.feed import Feed
from amcl.training.hardware import StopRequest, make_fabric
from amcl.training.optimisers import make_optimiser
from amcl.training.plan import Plan
from amcl.training.run_folder import RunFolder
from amcl.training.start import first_stage, init_of, method_to_train
from amcl.training.step import Stepper
from amcl.training.trackers import make_trackers
from amcl.training.watch import Watch
from amcl.views import Views

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger("amcl")

PAUSE = 30.0  # seconds between checkpoints at the ends of short epochs


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
    resumed is the run that never stopped. `on_probe` gets the line of metrics of each probe as it
    is made, and may raise an error to end the run. Returns the path of the trained backbone.
    """
    folder = RunFolder(Path(out))
    if not resume:
        folder.check_free()
    fabric = make_fabric(config.hardware)
    fabric.launch()
    with StopRequest() as stop:
        begin = None if resume else partial(folder.create, config)
        before = first_stage(config)
        if before is not None:
            _run_first(fabric, before, folder, begin, stop)
            begin = None
        with closing(folder):
            _train(fabric, config, folder, begin, stop, on_probe)
    return folder.backbone


def _run_first(
    fabric: Fabric,
    config: Config,
    folder: RunFolder,
    begin: Callable[[], None] | None,
    stop: StopRequest,
) -> None:
    """Make, or finish, the run that another starts from, inside that one's folder."""
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
        logger.info("first of two stages: %s, in %s", config.method.name, first.path)
    scale = fabric.strategy.precision.state_dict()
    with closing(first):
        _train(fabric, config, first, None if began else both, stop)
    fabric.strategy.precision.load_state_dict(scale)  # the second stage begins as a run alone does
    fabric.barrier()  # the first process has written the backbone that all start from
    if fabric.is_global_zero:
        logger.info("second of two stages, in %s", folder.path)


def _train(
    fabric: Fabric,
    config: Config,
    folder: RunFolder,
    begin: Callable[[], None] | None,
    stop: StopRequest,
    on_probe: OnProbe | None = None,
) -> None:
    """One run, to its end; `begin` makes the folder of a new one."""
    first = fabric.is_global_zero
    data = load_data(config)
    plan = Plan.of(config, data, fabric)
    goes_on = folder.checkpoint.exists()  # else it is new, or was stopped before it saved one
    method = method_to_train(config, data.image_size, None if goes_on else init_of(config, folder))
    optimiser = make_optimiser(method, config.optimiser, config.run.batch_size)
    views = Views(data.image_size, config.views, mean=data.mean, std=data.std)
    feed = Feed(method, views, plan, fabric.device, channels_last=config.hardware.channels_last)
    watch = Watch(data, config.run.knn_k) if first else None

    trained, optimiser = fabric.setup(method, optimiser)
    take_step = Stepper(fabric, config, plan, method, trained, optimiser, feed)
    done, loss_sum = 0, torch.zeros((), device=fabric.device)
    if goes_on:
        state = load_checkpoint(folder.checkpoint)
        done = _restore(state, fabric, method, optimiser, loss_sum)
    if first:
        if begin is not None:
            begin()
        folder.open(done)
        logger.info(data.describe())
        for path, reason in data.unreadable:
            logger.debug("skipped %s: %s", path, reason)
        logger.info(_summary(config, method, plan, done))
    fabric.barrier()
    trackers = make_trackers(config, folder.path) if first else []

    def record(row: dict[str, Any]) -> None:
        folder.write(row)
        for tracker in trackers:
            tracker.write(row)

    def save() -> None:
        if first:
            _require_finite(method, done, folder)
            state = _state(fabric, method, optimiser, loss_sum, done, config)
            save_checkpoint(folder.checkpoint, {**state, "trained": trained_on(data, plan, done)})

    display = Display(plan.total, plan.per_epoch, config.run.batch_size, shown=first)
    batches = stream(data.train, plan.indices(done), workers=config.data.workers)
    saved = time.monotonic()
    with display:
        display.start(done)
        for step in range(done, plan.total):
            ends_epoch = (step + 1) % plan.per_epoch == 0
            loss, rate = take_step(step, batches, watch=ends_epoch)
            done = step + 1
            loss_sum += loss
            if not (ends_epoch or done % plan.check_every == 0):
                continue
            mean_loss, asked = plan.agree(loss_sum, loss, stop)
            if not torch.isfinite(mean_loss):
                raise NonFiniteError(_non_finite("the loss", done, folder))
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
                        _require_finite(method, done, folder)
                        row = _probe(watch, method, fabric, number, done, record)
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
                raise Interrupted(_how_to_resume(folder, done, plan), stop.signal)
    for tracker in trackers:
        tracker.close()
    if first:
        export_backbone(folder.backbone, method.backbone, trained_on(data, plan, done))
        logger.info("the trained backbone is in %s", folder.backbone)
        logger.info("judge it with: amcl evaluate %s", shlex.quote(str(folder.path)))


def trained_on(data: DataSet, plan: Plan, done: int) -> dict[str, Any]:
    """What a model needs to be used without its data set: normalisation, and how far it came."""
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
    watch: Watch, method: Method, fabric: Fabric, epoch: int, done: int, record: Any
) -> dict[str, Any]:
    found = watch.probe(method, fabric.device)
    row = {"kind": "probe", "step": done, "epoch": epoch, **found}
    record(row)
    text = "  ".join(
        f"{name} {value:.1%}" if name.startswith("knn") else f"{name} {value:.3g}"
        for name, value in found.items()
    )
    logger.info("epoch %d  %s", epoch, text)
    for told in watch.advice(method, found):
        logger.warning("epoch %d: %s", epoch, told)
    return row


def _state(
    fabric: Fabric,
    method: Method,
    optimiser: Any,
    loss_sum: torch.Tensor,
    done: int,
    config: Config,
) -> dict[str, Any]:
    return {
        "step": done,
        "config": config.to_toml(),
        "method": method.state_dict(),
        "optimiser": optimiser.state_dict(),
        "loss_sum": loss_sum,
        "precision": fabric.strategy.precision.state_dict(),
    }


def _restore(
    state: dict[str, Any],
    fabric: Fabric,
    method: Method,
    optimiser: Any,
    loss_sum: torch.Tensor,
) -> int:
    method.load_state_dict(state["method"])
    optimiser.load_state_dict(state["optimiser"])
    fabric.strategy.precision.load_state_dict(state["precision"])
    loss_sum.copy_(state["loss_sum"])
    step: int = state["step"]
    return step


def _require_finite(method: Method, done: int, folder: RunFolder) -> None:
    for name, value in method.state_dict().items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise NonFiniteError(_non_finite(name, done, folder))


def _non_finite(what: str, done: int, folder: RunFolder) -> str:
    kept = (
        f"The last good checkpoint is kept: {folder.checkpoint}"
        if folder.checkpoint.exists()
        else "No checkpoint had been written"
    )
    return (
        f"{what} is not finite after step {done}: training diverged and was stopped. {kept}. Start "
        "again with a lower --lr (in the first stage of LGP: --mae-lr), a longer --warmup-epochs, "
        "--clip 1, or for adaptive temperatures a higher --tau-lower."
    )


def _how_to_resume(folder: RunFolder, done: int, plan: Plan) -> str:
    return (
        f"stopped after step {done} of {plan.total}, everything is saved. "
        f"Go on with: amcl pretrain --resume {folder.resumed_by}"
    )


def _summary(config: Config, method: Method, plan: Plan, done: int) -> str:
    trained = sum(p.numel() for p in method.parameters() if p.requires_grad)
    begin = f"going on after step {done} of {plan.total}" if done else f"{plan.total} steps"
    settings, heads = config.method, ""
    if isinstance(settings, HeadSettings):
        count = f"{settings.heads} head{'s' * (settings.heads > 1)}"
        heads = f", {count}, {settings.temperature} temperature"
    return (
        f"{settings.name}{heads}; {config.backbone.backbone} "
        f"×{config.backbone.width:g}, {trained / 1e6:.1f} M parameters in all; "
        f"{plan.epochs} epoch{'s' * (plan.epochs > 1)} of {plan.per_epoch} steps of "
        f"{plan.batch_size} images: {begin}"
    )
