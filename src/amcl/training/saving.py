"""Checkpoints of training: the times at which they are saved, and those that are kept."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from amcl.checkpoints.files import keep_checkpoint, save_checkpoint
from amcl.distributed import from_first
from amcl.training.trainer import Trainer

PAUSE = 30.0  # seconds between checkpoints at the ends of short epochs


class CheckpointPolicy:
    """Saves a trainer's state when it is due; only the first process writes.

    Checkpoints are due at the ends of epochs (`save_every`), after `save_minutes`, where one is to
    be kept (`keep_every`), at the end of the training, and when a signal asks for one.

    Args:
        trainer: The trainer whose state is saved.
        path: The checkpoint; None writes none.
        resume: A sentence that says how a stopped training is resumed.
        from_start: Save the state before the first step too.
        save_every: Number of epochs between checkpoints; epochs of a few seconds share one.
        save_minutes: Minutes between checkpoints within an epoch.
        keep_every: Number of epochs between checkpoints that are kept for good; 0 for none.
        keep_last: Number of last checkpoints; earlier ones serve where the newest is damaged.
        about: What a model needs to be used without its data set.
    """

    def __init__(
        self,
        trainer: Trainer,
        path: Path | None,
        resume: str,
        *,
        from_start: bool = False,
        save_every: int = 1,
        save_minutes: float = 10.0,
        keep_every: int = 0,
        keep_last: int = 1,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.trainer = trainer
        self.path = path
        self.resume = resume
        self.from_start = from_start
        self.save_every = save_every
        self.save_minutes = save_minutes
        self.keep_every = keep_every
        self.keep_last = keep_last
        self.about = about or {}
        self._saved = time.monotonic()

    def trained(self) -> dict[str, Any]:
        """Return `about` with the progress of the training."""
        step = self.trainer.step
        return {**self.about, "step": step, "epoch": step / self.trainer.task.per_epoch}

    def save(self) -> None:
        """Save the trainer's state now; raise an error if it is not finite.

        Where the state is divided among processes, all of them have to save at once.
        """
        is_first = self.trainer.fabric.is_global_zero
        if is_first or self.trainer.is_sharded:
            self.trainer.task.require_finite()
            if self.path is not None:
                state = {**self.trainer.state_dict(), "trained": self.trained()}
                if is_first:
                    save_checkpoint(self.path, state, self.keep_last)
        self._saved = time.monotonic()

    def save_if_due(self, requested: bool = False) -> None:
        """Save the state if it is due, and keep the checkpoint of the epoch if that is asked for.

        Args:
            requested: A signal asked for it, to stop or to continue.
        """
        task = self.trainer.task
        step = self.trainer.step
        seconds = time.monotonic() - self._saved
        keep = task.ends_epoch(step, self.keep_every)
        due = task.ends_epoch(step, self.save_every) and seconds > PAUSE
        late = seconds >= 60 * self.save_minutes
        save = due or late or keep or requested or step == task.total
        if self.trainer.is_sharded:  # clocks differ, and all processes have to save at once
            save = from_first(save)
        if save:
            self.save()
            self._keep()

    def resume_from(self, path: Path) -> None:
        """Keep the checkpoint that training is resumed from, if a kill came before that."""
        if path == self.path:
            self._keep()

    def _keep(self) -> None:
        """Copy the last checkpoint, if that of this epoch is to be kept and is not there yet."""
        task, step = self.trainer.task, self.trainer.step
        keep = step > 0 and task.ends_epoch(step, self.keep_every)
        if keep and self.path is not None and self.trainer.fabric.is_global_zero:
            name = f"epoch-{step // task.per_epoch:04d}.pt"
            if not self.path.with_name(name).exists():
                keep_checkpoint(self.path, name)

    def describe(self) -> str:
        """Return a sentence on the last checkpoint; nothing where none is written."""
        if self.path is None:
            return ""
        if self.path.exists():
            return f"The last good checkpoint is kept: {self.path}. "
        return "No checkpoint had been written. "

    def saved_on_request(self) -> str:
        """Return a line on the checkpoint that a signal asked for."""
        step = f"step {self.trainer.step} of {self.trainer.task.total}"
        if self.path is None:
            return f"a signal asked for a checkpoint after {step}, but this training writes none"
        return f"saved after {step}, as a signal asked: training continues"

    def without_others(self) -> str:
        """Return what to do after a stop of one process, whose share of the state is not all."""
        step = self.trainer.step
        return (
            f"stopped after step {step} of {self.trainer.task.total}, which is not saved, because "
            f"other processes wait for images. {self.describe()}{self.resume}"
        )

    def how_to_resume(self) -> str:
        """Return what to do after a stop."""
        step = self.trainer.step
        total = self.trainer.task.total
        return f"stopped after step {step} of {total}, everything is saved. {self.resume}"
