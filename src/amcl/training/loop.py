"""The loop of all training: steps, log, validation, checkpoints, stops."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import torch

from amcl.distributed import mean_over_ranks
from amcl.errors import Interrupted, NonFiniteError, StoppedWaiting
from amcl.training.hardware import StopRequest
from amcl.training.log import RunLog
from amcl.training.saving import CheckpointPolicy
from amcl.training.trainer import Trainer

logger = logging.getLogger("amcl")

PATIENCE = 5.0  # seconds that processes which were asked to stop wait for images


def train(trainer: Trainer, saving: CheckpointPolicy, log: RunLog, stop: StopRequest) -> None:
    """Take the steps that remain of a task.

    Args:
        trainer: The task and its state, new or from a checkpoint.
        saving: Checkpoints, and when they are written.
        log: Metrics and progress.
        stop: Requests to stop or to save by signals: they are granted between two steps.

    Raises:
        Interrupted: A signal came, and everything is saved.
        NonFiniteError: The loss or a weight is no longer finite.
    """
    try:
        if saving.from_start and trainer.step == 0:
            saving.save()
        _take_steps(trainer, saving, log, stop)
    except NonFiniteError as error:
        remedies = trainer.task.remedies()
        raise NonFiniteError(
            f"{error} is not finite after step {trainer.step}: training diverged and was stopped. "
            f"{saving.describe()}Start again with {', '.join(remedies[:-1])} or {remedies[-1]}."
        ) from None


def _take_steps(trainer: Trainer, saving: CheckpointPolicy, log: RunLog, stop: StopRequest) -> None:
    """Take steps; log, validate and save as they are due."""
    task = trainer.task
    fabric = trainer.fabric
    # Looking at the loss waits for the device, which costs nothing on a CPU.
    check_every = 1 if fabric.device.type == "cpu" else 10
    # Several processes agree on the step they stop after, where each still gets its images.
    patience = PATIENCE if fabric.world_size > 1 else 0.0
    log.display.start(trainer.step)
    with closing(task.batches(trainer.step, partial(stop.end_waiting, patience))) as source:
        batches = _Timed(source)
        while trainer.step < task.total:
            ends_epoch = task.ends_epoch(trainer.step + 1)
            try:
                loss, lr = trainer.train_step(batches, watch=ends_epoch)
            except (StoppedWaiting, ChildProcessError) as error:  # no images for this step
                if not trainer.is_sharded:
                    saving.save()
                raise _without_images(error, saving, stop) from error
            log.display.add_wait(batches.take_seconds())
            if not (ends_epoch or trainer.step % check_every == 0):
                continue
            mean_loss, stopped, save = _agree(trainer, loss, stop)
            if not torch.isfinite(mean_loss):
                raise NonFiniteError("the loss")
            log.step(trainer.step, mean_loss.item(), lr)
            if ends_epoch:
                epoch_loss = trainer.loss_sum.item() / task.per_epoch
                wait = torch.tensor(log.display.data_wait, device=fabric.device)
                wait_share = mean_over_ranks(wait).item()
                log.epoch(trainer.step, epoch_loss, lr, wait_share, task.log_metrics())
                trainer.loss_sum.zero_()
                task.end_epoch(trainer.step, log)
                fabric.barrier()
                log.display.mark(trainer.step)
            saving.save_if_due(stopped or save)
            if save and not stopped and fabric.is_global_zero:
                logger.info(saving.saved_on_request())
            if stopped:
                raise Interrupted(saving.how_to_resume(), stop.signal)


class _Timed:
    """Batches, and the seconds that passed until they came."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._seconds = 0.0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        start = time.perf_counter()
        batch = next(self._batches)
        self._seconds += time.perf_counter() - start
        return batch

    def take_seconds(self) -> float:
        """Return the seconds since this was last asked."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds


def _agree(
    trainer: Trainer, loss: torch.Tensor, stop: StopRequest
) -> tuple[torch.Tensor, bool, bool]:
    """Return the mean loss of all processes, and whether any was asked to stop, and to save."""
    requests = [float(stop.signal is not None), float(stop.take_save())]
    values = [loss, trainer.loss_sum, *torch.tensor(requests, device=loss.device)]
    mean_loss, loss_sum, stopped, save = mean_over_ranks(torch.stack(values))
    trainer.loss_sum.copy_(loss_sum)
    return mean_loss, stopped.item() > 0, save.item() > 0


def _without_images(error: Exception, saving: CheckpointPolicy, stop: StopRequest) -> Exception:
    """Return the error of a run that got no images for its next step; it is saved if it can be."""
    is_sharded = saving.trainer.is_sharded
    message = saving.without_others() if is_sharded else saving.how_to_resume()
    if stop.signal is not None:
        return Interrupted(message, stop.signal)
    if saving.path is None:
        return ChildProcessError(str(error))
    return ChildProcessError(f"{error} The run was {message}")
