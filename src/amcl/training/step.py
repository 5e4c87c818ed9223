"""One step of training: images, views, loss, gradient, optimizer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from amcl.data import Batch
from amcl.methods import Method
from amcl.seeds import seed_of
from amcl.training.config import Config
from amcl.training.feed import Feed
from amcl.training.optimizers import rate_factor, set_rate
from amcl.training.plan import Plan

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger("amcl")


class Stepper:
    """Trains a method, a step of the plan at a time.

    `trained` and `optimizer` are what Fabric made of the method and its optimizer.
    """

    def __init__(
        self,
        fabric: Fabric,
        config: Config,
        plan: Plan,
        method: Method,
        trained: Any,
        optimizer: Any,
        feed: Feed,
    ) -> None:
        self.fabric, self.config, self.plan, self.feed = fabric, config, plan, feed
        self.method, self.trained, self.optimizer = method, trained, optimizer
        self._peak = config.optimizer.peak_rate(config.run.batch_size)
        self._skipped = set[str]()

    def __call__(
        self, step: int, batches: Iterator[Batch], watch: bool
    ) -> tuple[torch.Tensor, float]:
        """Take a step; returns the loss on this process and the learning rate."""
        config, plan, fabric = self.config, self.plan, self.fabric
        # All of them first: a run that is stopped while it waits has not begun the step.
        parts = [next(batches) for _ in range(plan.accumulate)]
        epoch = step / plan.per_epoch
        torch.manual_seed(seed_of(config.run.seed, "step", step, fabric.global_rank))
        factor = rate_factor(config.optimizer, epoch, config.run.epochs)
        rate = set_rate(self.optimizer, self._peak, factor)
        self.method.before_step(epoch, step / plan.total)
        loss = torch.zeros((), device=fabric.device)
        for part, batch in enumerate(parts):
            self._tell_unreadable(batch)
            views, beside = self.feed(batch, step, part)
            last = part + 1 == plan.accumulate
            with fabric.no_backward_sync(self.trained, enabled=not last and plan.world_size > 1):
                part_loss = self.trained(*views, **beside, watch=watch and last)
                fabric.backward(part_loss / plan.accumulate)
            loss += part_loss.detach() / plan.accumulate
        if config.optimizer.clip:
            fabric.clip_gradients(self.trained, self.optimizer, max_norm=config.optimizer.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.method.after_step()
        return loss, rate

    def _tell_unreadable(self, batch: Batch) -> None:
        """Each picture once."""
        for path, reason in batch.unreadable:
            if path not in self._skipped:
                logger.warning("skipped %s: %s", path, reason)
                self._skipped.add(path)
