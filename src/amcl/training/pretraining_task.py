"""Pre-training as a task: a method on views of images."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from amcl.config import Config
from amcl.data import Batch, DataSet, stream
from amcl.environment import amcl_version
from amcl.methods import Method
from amcl.seeds import generator, seed_of
from amcl.training.activation_checkpointing import recomputing
from amcl.training.compiling import without_compiling
from amcl.training.layers import frozen_at_first
from amcl.training.log import RunLog
from amcl.training.optimizers import make_optimizer
from amcl.training.plan import Plan
from amcl.training.resume import describe_images
from amcl.training.sharding import gathered_network, is_sharded, load_whole_state
from amcl.training.task import Task
from amcl.training.watch import Watch
from amcl.views import ViewGroups

if TYPE_CHECKING:
    from lightning_fabric import Fabric

logger = logging.getLogger("amcl")

OnProbe = Callable[[dict[str, Any]], None]


class PretrainingTask(Task):
    """Trains a method on views of images.

    Args:
        fabric: Devices and processes.
        config: The configuration of the run.
        plan: Images of each step, part and process.
        data: The images, with their size and normalization.
        method: The method with its first weights.
        watch: Probes at the ends of epochs, on the first process; None for none.
        on_probe: Function of the metrics of each probe; it may raise an error to end the run.
    """

    def __init__(
        self,
        fabric: Fabric,
        config: Config,
        plan: Plan,
        data: DataSet,
        method: Method,
        watch: Watch | None = None,
        on_probe: OnProbe | None = None,
    ) -> None:
        super().__init__(
            method,
            make_optimizer(method, config.optimizer, config.run.batch_size),
            peak_lr=config.optimizer.peak_rate(config.run.batch_size),
            epochs=plan.epochs,
            per_epoch=plan.per_epoch,
            batch_size=plan.batch_size,
            accumulate=plan.accumulate,
            clip=config.optimizer.clip,
        )
        self.fabric = fabric
        self.config = config
        self.plan = plan
        self.data = data
        self.method = method
        self.watch = watch
        self.on_probe = on_probe
        self.views = ViewGroups(
            data.image_size,
            config.views,
            method.num_views,
            patch=method.backbone.patch,
            mean=data.mean,
            std=data.std,
        )
        for group in self.views.groups[1:]:
            method.backbone.check_crops(group.size)
        method.set_num_images(len(data.train))
        self._frozen = frozen_at_first(method.backbone, config.optimizer)
        self._unreadable = set[str]()

    def batches(self, step: int, on_wait: Callable[[], None]) -> Generator[Batch, None, None]:
        """Return the images of this process, part by part, from a step on."""
        indices = self.plan.indices(step)
        workers = self.config.data.workers
        return stream(self.data.train, indices, workers=workers, on_wait=on_wait)

    def lr_factor(self, step: int) -> float:
        """Return the learning rate of a step, as a share of its peak."""
        return self.config.optimizer.factor(step / self.per_epoch, self.epochs)

    def weight_decay(self, step: int) -> float | None:
        """Return the weight decay of a step where it has a schedule."""
        optimizer = self.config.optimizer
        if optimizer.final_weight_decay is None:
            return None
        return optimizer.decay(step / self.total)

    def frozen(self, step: int) -> Sequence[nn.Parameter]:
        """Return the layers of the backbone that do not learn in the first epochs."""
        is_first = step < (self.config.optimizer.freeze_epochs or 0.0) * self.per_epoch
        return self._frozen if is_first else ()

    def before_step(self, step: int) -> None:
        """Seed the step, and let the method follow its schedules."""
        torch.manual_seed(seed_of(self.config.run.seed, "step", step, self.fabric.global_rank))
        self.method.before_step(step / self.per_epoch, step / self.total)

    def loss(
        self, model: nn.Module, batch: Batch, step: int, part: int = 0, watch: bool = False
    ) -> torch.Tensor:
        """Return the method's loss on views of a batch."""
        self._warn_unreadable(batch)
        if batch.indices is not None:
            self.method.set_images(batch.indices)
        views, beside = self.inputs(batch, step, part)
        loss: torch.Tensor = model(views, **beside, watch=watch)
        return loss

    def inputs(
        self, batch: Batch, step: int, part: int = 0
    ) -> tuple[list[torch.Tensor], dict[str, Any]]:
        """Make the method's inputs of a part of a step.

        Random numbers are drawn for the images of all processes and parts, and those of this part
        are taken, so that they do not depend on how the batch is divided.

        Returns:
            The views, and what else the method takes, by the name of its argument: what it draws
            for the images, their labels.
        """
        plan = self.plan
        start, stop = plan.rows(part)
        drawn = self.method.draw(plan.batch_size, generator(plan.seed, "masks", step))
        shapes = None
        if batch.shapes is not None:
            shapes = torch.ones(plan.batch_size, 2)
            shapes[start:stop] = batch.shapes
        parameters = self.views.draw(
            plan.batch_size, generator=generator(plan.seed, "views", step), shapes=shapes
        )
        views = self.views(
            batch.pixels.to(self.fabric.device),
            [group.rows(start, stop) for group in parameters],
            channels_last=self.config.hardware.channels_last,
        )
        beside: dict[str, Any] = {}
        if drawn is not None:
            beside["drawn"] = drawn.rows(start, stop)
        if self.method.settings.needs_labels:
            beside["labels"] = self._labels(batch)
        return views, beside

    def _labels(self, batch: Batch) -> torch.Tensor:
        """Return the classes of the images that are in the batch, whichever were planned."""
        if self.data.labels is None or batch.indices is None:
            raise ValueError(
                f"{self.method.settings.label} learns from labels, and the data set has none: load "
                "it with load_dataset(…, train_labels=True)."
            )
        return self.data.labels[batch.indices].to(self.fabric.device)

    def recomputing(self) -> AbstractContextManager[None]:
        """Return the context of a backward pass: batch norms do not count a batch again."""
        if self.config.hardware.activation_checkpointing:
            return recomputing(self.method)
        return nullcontext()

    def after_backward(self) -> None:
        """Let the method change its gradients."""
        self.method.after_backward()

    def after_step(self) -> None:
        """Let the method update what no gradient does."""
        self.method.after_step()

    def log_metrics(self) -> dict[str, float]:
        """Return the method's statistics of the last step that was watched."""
        return self.method.log_metrics()

    def end_epoch(self, step: int, log: RunLog) -> None:
        """Probe the method where that is due."""
        is_due = self.ends_epoch(step, self.config.run.probe_every) or step == self.total
        if not is_due or (self.watch is None and not is_sharded(self.method)):
            return
        self.require_finite()
        network = self.trained_network()
        if self.watch is None or network is None:
            return
        with without_compiling() if self.config.hardware.compile else nullcontext():
            metrics = self.watch.probe(network.to(self.fabric.device), self.fabric.device)
        warmup = self.config.optimizer.warmup_epochs * self.per_epoch
        is_early = self.watch.is_early(step, self.total, warmup)
        advice = [] if is_early else self.watch.advice(self.method, metrics)
        row = log.probe(step, metrics, advice)
        if self.on_probe is not None:
            self.on_probe(row)

    def trained_network(self) -> nn.Module | None:
        """Return the network that is probed and exported.

        Of a sharded method every process has to ask for it, and the first gets a copy.
        """
        backbone = self.method.trained_backbone
        return gathered_network(backbone) if is_sharded(self.method) else backbone.network

    def remedies(self) -> list[str]:
        """Return options that may help after the run has diverged."""
        method = self.config.method
        remedies = [f"a lower {method.lr_option}", "a longer --warmup-epochs", "--clip 1"]
        return [*remedies, "a higher --tau-lower"] if method.adapts else remedies

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the method, and what a resumed run is compared with."""
        return {
            "config": self.config.to_toml(),
            "images": self._images,
            "version": amcl_version(),
            "method": self.method.state_dict(),
        }

    @cached_property
    def _images(self) -> dict[str, Any]:
        return describe_images(self.data.train)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned; the configuration may be another."""
        load_whole_state(self.method, state["method"])

    def _warn_unreadable(self, batch: Batch) -> None:
        """Name each picture that could not be read, once."""
        for path, reason in batch.unreadable:
            if path not in self._unreadable:
                logger.warning("skipped %s: %s", path, reason)
                self._unreadable.add(path)
