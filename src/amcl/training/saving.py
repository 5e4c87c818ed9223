"""When a run saves its checkpoint, and which checkpoints it keeps."""

from __future__ import annotations

import time
from typing import Any

from amcl.checkpoints.files import keep_checkpoint, save_checkpoint
from amcl.checkpoints.run_folder import RunFolder
from amcl.config import Config
from amcl.training.plan import Plan
from amcl.training.trainer import Trainer

PAUSE = 30.0  # seconds between checkpoints at the ends of short epochs


class CheckpointPolicy:
    """Saves a trainer's state when it is due; only the first process writes.

    Checkpoints are due at the ends of epochs (`save_every`), after `save_minutes`, where one is to
    be kept (`keep_every`), at the end of the run and when it is stopped.
    """

    def __init__(
        self, trainer: Trainer, folder: RunFolder, config: Config, plan: Plan, about: dict[str, Any]
    ) -> None:
        self.trainer, self.folder, self.settings, self.plan = trainer, folder, config.run, plan
        self.about = about
        """What a model needs to be used without its data set."""
        self._saved = time.monotonic()

    def trained(self) -> dict[str, Any]:
        """Return `about` with the progress of the run."""
        step = self.trainer.step
        return {**self.about, "step": step, "epoch": step / self.plan.per_epoch}

    def save(self) -> None:
        """Save the trainer's state now; an error if it is not finite."""
        if self.trainer.fabric.is_global_zero:
            self.trainer.require_finite()
            state = {**self.trainer.state_dict(), "trained": self.trained()}
            save_checkpoint(self.folder.checkpoint, state)
        self._saved = time.monotonic()

    def save_if_due(self, stopped: bool = False) -> None:
        """Save the state if it is due, and keep the checkpoint of the epoch if that is asked for.

        Args:
            stopped: The run was asked to stop, and so everything is saved.
        """
        step, run, plan = self.trainer.step, self.settings, self.plan
        seconds, ends_epoch = time.monotonic() - self._saved, step % plan.per_epoch == 0
        keep = ends_epoch and plan.is_multiple(step, run.keep_every)
        due = ends_epoch and seconds > PAUSE and plan.is_multiple(step, run.save_every)
        late = seconds >= 60 * run.save_minutes
        if due or late or keep or stopped or step == plan.total:
            self.save()
            if keep and self.trainer.fabric.is_global_zero:
                keep_checkpoint(self.folder.checkpoint, f"epoch-{step // plan.per_epoch:04d}.pt")
