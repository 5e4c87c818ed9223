"""The trainer: a method, its optimizer and its views, one step of training at a time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from amcl.config import Config
from amcl.data import Batch, DataSet
from amcl.errors import NonFiniteError
from amcl.methods import Drawn, Method
from amcl.seeds import generator, seed_of
from amcl.training.optimizers import make_optimizer, set_rate
from amcl.training.plan import Plan
from amcl.views import ViewGroups

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger("amcl")


class Trainer:
    """Trains a method, a step of the plan at a time.

    Everything random is a function of the seed and the step, so that the state below is all that a
    stopped run needs to continue as if it had not been stopped.

    Args:
        fabric: Devices, processes and precision.
        config: The configuration of the run.
        plan: Which images each step, part and process sees.
        data: The images, for their size and normalization.
        method: The method with its first weights.
    """

    def __init__(
        self, fabric: Fabric, config: Config, plan: Plan, data: DataSet, method: Method
    ) -> None:
        self.fabric, self.config, self.plan, self.method = fabric, config, plan, method
        self.views = ViewGroups(
            data.image_size, config.views, method.num_views, mean=data.mean, std=data.std
        )
        optimizer = make_optimizer(method, config.optimizer, config.run.batch_size)
        self.model, self.optimizer = fabric.setup(method, optimizer)
        self.step = 0
        """Number of steps that have been taken."""
        self.loss_sum = torch.zeros((), device=fabric.device)
        """Sum of the losses of the epoch so far."""
        self._peak_lr = config.optimizer.peak_rate(config.run.batch_size)
        self._unreadable = set[str]()

    def train_step(self, batches: Iterator[Batch], watch: bool = False) -> tuple[torch.Tensor, Any]:
        """Take one step.

        Args:
            batches: The images of this process, a batch for each part of a step.
            watch: Keep the method's statistics of the last part.

        Returns:
            The loss on this process, and the learning rate.
        """
        config, plan, fabric = self.config, self.plan, self.fabric
        # All parts first: a run that is stopped while it waits for images has not begun the step.
        parts = [next(batches) for _ in range(plan.accumulate)]
        epoch = self.step / plan.per_epoch
        torch.manual_seed(seed_of(config.run.seed, "step", self.step, fabric.global_rank))
        factor = config.optimizer.factor(epoch, config.run.epochs)
        lr = set_rate(self.optimizer, self._peak_lr, factor)
        self.method.before_step(epoch, self.step / plan.total)
        loss = torch.zeros((), device=fabric.device)
        for part, batch in enumerate(parts):
            self._warn_unreadable(batch)
            views, drawn = self.inputs(batch, part)
            last = part + 1 == plan.accumulate
            with fabric.no_backward_sync(self.model, enabled=not last and plan.world_size > 1):
                part_loss = self.model(views, **drawn, watch=watch and last)
                fabric.backward(part_loss / plan.accumulate)
            loss += part_loss.detach() / plan.accumulate
        if config.optimizer.clip:
            fabric.clip_gradients(self.model, self.optimizer, max_norm=config.optimizer.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.method.after_step()
        self.step += 1
        self.loss_sum += loss
        return loss, lr

    def inputs(self, batch: Batch, part: int = 0) -> tuple[list[torch.Tensor], dict[str, Drawn]]:
        """Make the method's inputs of a part of the next step.

        Random numbers are drawn for the images of all processes and parts, and those of this part
        are taken, so that they do not depend on how the batch is divided.

        Returns:
            The views, and what else the method draws for the images, by the name of its argument.
        """
        plan, (start, stop) = self.plan, self.plan.rows(part)
        drawn = self.method.draw(plan.batch_size, generator(plan.seed, "masks", self.step))
        shapes = None
        if batch.shapes is not None:
            shapes = torch.ones(plan.batch_size, 2)
            shapes[start:stop] = batch.shapes
        parameters = self.views.draw(
            plan.batch_size, generator=generator(plan.seed, "views", self.step), shapes=shapes
        )
        views = self.views(
            batch.pixels.to(self.fabric.device),
            [group.rows(start, stop) for group in parameters],
            channels_last=self.config.hardware.channels_last,
        )
        return views, {} if drawn is None else {"drawn": drawn.rows(start, stop)}

    def state_dict(self) -> dict[str, Any]:
        """Return all that a stopped run needs to continue."""
        return {
            "step": self.step,
            "config": self.config.to_toml(),
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loss_sum": self.loss_sum,
            "precision": self.fabric.strategy.precision.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        self.loss_sum.copy_(state["loss_sum"])
        self.step = state["step"]

    def require_finite(self) -> None:
        """Raise an error if a weight or a buffer of the method is not finite."""
        for name, value in self.method.state_dict().items():
            if value.is_floating_point() and not torch.isfinite(value).all():
                raise NonFiniteError(name)

    def _warn_unreadable(self, batch: Batch) -> None:
        """Name each picture that could not be read, once."""
        for path, reason in batch.unreadable:
            if path not in self._unreadable:
                logger.warning("skipped %s: %s", path, reason)
                self._unreadable.add(path)
