"""The trainer: a task and its optimizer, one step at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from amcl.training.optimizers import set_lr, set_weight_decay
from amcl.training.sharding import (
    average_gradients,
    clip_gradients,
    is_sharded,
    load_whole_optimizer_state,
    whole_state,
)
from amcl.training.task import Task

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Trainer:
    """Trains a task step by step, on the devices and with the precision of Fabric.

    Args:
        fabric: Devices, processes and precision.
        task: What is trained: pre-training, fine-tuning, …
    """

    def __init__(self, fabric: Fabric, task: Task) -> None:
        self.fabric = fabric
        self.task = task
        self.model, self.optimizer = fabric.setup(task.module, task.optimizer)
        self.is_sharded = is_sharded(task.module)
        """Whether each process has a share of the weights; their states are then gathered."""
        self.step = 0
        """Number of steps that have been taken."""
        self.loss_sum = torch.zeros((), device=fabric.device)
        """Sum of the losses of the epoch so far."""

    def train_step(self, batches: Iterator[Any], watch: bool = False) -> tuple[torch.Tensor, float]:
        """Take one step.

        Args:
            batches: The batches of this process, one for each part of a step.
            watch: Keep the task's statistics of the last part.

        Returns:
            The loss on this process, and the learning rate.
        """
        task = self.task
        fabric = self.fabric
        # All parts first: a run that is stopped while it waits for images has not begun the step.
        parts = [next(batches) for _ in range(task.accumulate)]
        task.before_step(self.step)
        lr = set_lr(self.optimizer, task.peak_lr, task.lr_factor(self.step))
        if (weight_decay := task.weight_decay(self.step)) is not None:
            set_weight_decay(self.optimizer, weight_decay)
        step_loss = torch.zeros((), device=fabric.device)
        num_losses = 0
        for part, batch in enumerate(parts):
            last = part + 1 == len(parts)
            with fabric.no_backward_sync(self.model, enabled=not last and fabric.world_size > 1):
                loss = task.loss(self.model, batch, self.step, part, watch=watch and last)
                if loss is None:
                    continue
                with task.recomputing():
                    fabric.backward(loss / len(parts))
            step_loss += loss.detach() / len(parts)
            num_losses += 1
        if num_losses:
            if self.is_sharded:
                average_gradients(task.module.parameters())
            for parameter in task.frozen(self.step):
                parameter.grad = None  # before clipping: its size is of no account
            if task.clip:
                self._clip(task.clip)
            task.after_backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            task.after_step()
        self.step += 1
        self.loss_sum += step_loss
        return step_loss, lr

    def _clip(self, max_norm: float) -> None:
        if self.is_sharded:
            clip_gradients(self.task.module.parameters(), max_norm)
            return
        self.fabric.clip_gradients(
            self.model, self.optimizer, max_norm=max_norm, error_if_nonfinite=False
        )

    def state_dict(self) -> dict[str, Any]:
        """Return all that a stopped run needs to continue.

        Of a sharded module every process has to ask for it, and the first has all of it.
        """
        state = {
            "step": self.step,
            "optimizer": self.optimizer.state_dict(),
            "loss_sum": self.loss_sum,
            "precision": self.fabric.strategy.precision.state_dict(),
            **self.task.state_dict(),
        }
        return dict(whole_state(state)) if self.is_sharded else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.task.load_state_dict(state)
        load_whole_optimizer_state(self.optimizer, state["optimizer"])
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        self.loss_sum.copy_(state["loss_sum"])
        self.step = state["step"]
