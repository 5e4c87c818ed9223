"""Messages of a pre-training run, at its start and where it cannot start."""

import logging
import math

from amcl.checkpoints.run_folder import RunFolder
from amcl.config import Config
from amcl.data import DataSet, MemoryImages
from amcl.data.load import usable_cores
from amcl.data.records import FileRecords
from amcl.methods import Method
from amcl.printable import counted
from amcl.training.plan import Plan

logger = logging.getLogger("amcl")


def tell_start(config: Config, method: Method, plan: Plan, done: int) -> None:
    """Say what is about to be trained, and how."""
    trained = sum(p.numel() for p in method.parameters() if p.requires_grad)
    begin = counted(plan.total, "step")
    if done:
        begin = f"going on after step {done} of {plan.total}"
    logger.info(
        f"{config.method.describe()}; {config.backbone.name} "
        f"×{config.backbone.width:g}, {trained / 1e6:.1f} M parameters in all; "
        f"{counted(plan.epochs, 'epoch')} of {counted(plan.per_epoch, 'step')} of "
        f"{counted(plan.batch_size, 'image')}: {begin}"
    )
    logger.info(_rate(config, plan))
    if text := _layers(config, plan):
        logger.info(text)
    if plan.left_over:
        logger.info(
            f"each epoch leaves out {plan.left_over} of {plan.images} images, others each time"
        )
    if config.optimizer.warmup_epochs >= plan.epochs:
        logger.warning(
            f"the whole run lies within its warm-up of {config.optimizer.warmup_epochs:g} epochs: "
            "shorten that with --warmup-epochs, or train for more --epochs"
        )


def tell_new_length(config: Config, plan: Plan, done: int, before: int) -> None:
    """Say that a resumed run has another length than it began with."""
    peak = config.optimizer.peak_rate(config.run.batch_size)
    rate = peak * config.optimizer.factor(done / plan.per_epoch, plan.epochs)
    logger.info(
        f"the run has {counted(plan.epochs, 'epoch')} now instead of {before}: from step {done} on "
        f"its schedules are those of {counted(plan.epochs, 'epoch')}, and the learning rate "
        f"continues at {rate:.3g}"
    )


def data_hint(config: Config, data: DataSet, processes: int) -> str:
    """Return what helps a run that waits for its images; "" where they are in memory."""
    if isinstance(data.train, MemoryImages):
        return ""
    settings = config.data
    cores = usable_cores() // processes
    remedies = []
    if settings.workers < cores:
        remedies.append(f"--workers {cores}, one for each core (--workers {settings.workers} now)")
    if isinstance(data.train.records, FileRecords):
        remedies.append("shards, where files are on a slow drive (amcl data pack)")
    remedies.append(f"smaller files, or a smaller canvas (--canvas {data.train.canvas[0]} now)")
    return f"{'; '.join(remedies)} may help"


def how_to_resume(folder: RunFolder) -> str:
    """Return how to resume a run that was stopped."""
    return f"Resume with: amcl pretrain --resume {folder.resumed_by}"


def before_training(folder: RunFolder) -> str:
    """Return what to do after a stop while images are read."""
    again = "Nothing was written: start it again with the same command."
    if folder.config.exists():
        again = how_to_resume(folder)
    return f"stopped while images were read, before the first step. {again}"


def shorter_than_done(folder: RunFolder, done: int, plan: Plan, stored: Config) -> str:
    """Return why a run with more steps than planned cannot be resumed."""
    steps = f"{folder.path} has trained for {done} steps"
    if stored.run.epochs != plan.epochs:
        least = -(-done // plan.per_epoch)
        return f"{steps}, more than --epochs {plan.epochs} has: use --epochs {least} or more."
    return (
        f"{steps}, and {counted(plan.images, 'image')} make only {plan.total}: the images have "
        "changed since the run began. Put them back, or start a new run."
    )


def _layers(config: Config, plan: Plan) -> str:
    """Return which layers learn slowly, and which are frozen at first; "" where none are."""
    optimizer = config.optimizer
    texts = []
    if optimizer.layer_decay not in (None, 1):
        texts.append(
            f"each layer of the backbone learns at {optimizer.layer_decay:g} times the rate of the "
            "one behind it"
        )
    if optimizer.freeze_epochs:
        share = optimizer.freeze_depth
        part = "the backbone" if share in (None, 1) else f"the first {share:.0%} of its layers"
        steps = min(math.ceil(optimizer.freeze_epochs * plan.per_epoch), plan.total)
        texts.append(f"{part} is frozen for the first {counted(steps, 'step')}")
    return "; ".join(texts)


def _rate(config: Config, plan: Plan) -> str:
    """Return the learning rate, its scaling by the batch, and its warm-up, in words."""
    optimizer = config.optimizer
    text = f"learning rate {optimizer.peak_rate(plan.batch_size):.3g}"
    if optimizer.lr_scaling != "none":
        text += f" (--lr {optimizer.lr:g}, scaled to batches of {plan.batch_size})"
    if optimizer.warmup_epochs:
        steps = min(round(optimizer.warmup_epochs * plan.per_epoch), plan.total)
        epochs = "epoch" if optimizer.warmup_epochs == 1 else "epochs"
        text += (
            f", after a warm-up of {optimizer.warmup_epochs:.3g} {epochs}, {counted(steps, 'step')}"
        )
    return text
