"""A task: what the trainer trains, such as a method on views or a classifier on labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from amcl.distributed import mean_over_ranks
from amcl.errors import NonFiniteError
from amcl.training.sharding import is_sharded, own_share

if TYPE_CHECKING:
    from amcl.training.log import RunLog


class Task(ABC):
    """A kind of training: a module, its optimizer, its batches and its loss.

    The trainer does all that tasks have in common: optimizer steps, precision, checkpoints, the
    log and stops by a signal. Everything random in a task must be a function of its seed and the
    step, so that training that was stopped and resumed is the training that never stopped.

    Args:
        module: The network to train.
        optimizer: Its optimizer. The learning rate of a group is scaled by `lr_scale`, and stays at
            its peak where `constant_lr` is set.
        peak_lr: The highest learning rate.
        epochs: Number of epochs.
        per_epoch: Number of steps of an epoch.
        batch_size: Number of images of a step, over all processes.
        accumulate: Number of batches whose gradients make a step.
        clip: Largest norm of the gradient; 0 for no limit.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        peak_lr: float,
        epochs: int,
        per_epoch: int,
        batch_size: int,
        accumulate: int = 1,
        clip: float = 0.0,
    ) -> None:
        self.module = module
        self.optimizer = optimizer
        self.peak_lr = peak_lr
        self.epochs = epochs
        self.per_epoch = per_epoch
        self.batch_size = batch_size
        self.accumulate = accumulate
        self.clip = clip
        # A mask of -inf in a buffer is no sign of divergence.
        self._masks = {name for name, value in module.named_buffers() if not _is_finite(value)}

    @property
    def total(self) -> int:
        """Number of steps of all epochs."""
        return self.per_epoch * self.epochs

    def ends_epoch(self, step: int, every: int = 1) -> bool:
        """Return whether `step` steps end an epoch that is a multiple of `every`; never for 0."""
        return every > 0 and step % (every * self.per_epoch) == 0

    @abstractmethod
    def batches(self, step: int, on_wait: Callable[[], None]) -> Generator[Any, None, None]:
        """Return the batches of this process from a step on, `accumulate` of them for each step.

        `on_wait` is to be called now and then while no batch comes; it may raise an error.
        """

    @abstractmethod
    def lr_factor(self, step: int) -> float:
        """Return the learning rate of a step, as a share of its peak."""

    def weight_decay(self, step: int) -> float | None:
        """Return the weight decay of a step; None where it does not change in the training."""
        return None

    @abstractmethod
    def loss(
        self, model: nn.Module, batch: Any, step: int, part: int = 0, watch: bool = False
    ) -> torch.Tensor | None:
        """Return the loss of a batch.

        Args:
            model: The module as Fabric wraps it, with its precision and its processes.
            batch: What `batches` yielded.
            step: Number of steps before this one.
            part: Number of the batch among those of the step.
            watch: Keep statistics for `log_metrics`.

        Returns:
            The loss, or None where nothing in the batch can be used.
        """

    def frozen(self, step: int) -> Sequence[nn.Parameter]:
        """Return the parameters that do not learn in a step.

        Their gradients are computed and dropped, so that all processes agree on which there are.
        """
        return ()

    def before_step(self, step: int) -> None:  # noqa: B027 (a task need not define it)
        """Prepare a step; its batches are there."""

    def recomputing(self) -> AbstractContextManager[None]:
        """Return the context of a backward pass, in which layers may be computed once more."""
        return nullcontext()

    def after_backward(self) -> None:  # noqa: B027
        """Change gradients, after they are clipped and before the step of the optimizer."""

    def after_step(self) -> None:  # noqa: B027
        """Finish a step, after that of the optimizer."""

    def log_metrics(self) -> dict[str, float]:
        """Return metrics of the epoch that has ended, for the log."""
        return {}

    def end_epoch(self, step: int, log: RunLog) -> None:  # noqa: B027
        """Validate, on every process, after the epoch that `step` ends."""

    @abstractmethod
    def remedies(self) -> list[str]:
        """Return settings that may help after the training has diverged."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return what a stopped training needs besides the trainer's own state."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""

    def require_finite(self) -> None:
        """Raise an error if a weight or a buffer is not finite.

        Of a sharded module every process has to ask, and all of them raise it.
        """
        state = self.module.state_dict()
        names = [name for name in state if name not in self._masks]
        faults = [not _is_finite(state[name]) for name in names]
        if is_sharded(self.module):
            device = next(self.module.parameters()).device
            faults = mean_over_ranks(torch.tensor(faults, device=device).float()).bool().tolist()
        for name, fault in zip(names, faults, strict=True):
            if fault:
                raise NonFiniteError(name)


def _is_finite(value: Any) -> bool:
    """Return whether a tensor has no infinite value and no NaN; other values have none."""
    if not torch.is_tensor(value) or not value.is_floating_point():
        return True
    return bool(torch.isfinite(own_share(value)).all())
