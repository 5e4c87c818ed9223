"""What MoCo adds: an encoder that follows another slowly, and a queue of past projections."""

import copy
import math

import torch
from torch import nn

from amcl.distributed import gather
from amcl.settings import whole_number


class MomentumCopy(nn.Module):
    """A copy of a module that follows it: θ' ← m·θ' + (1 − m)·θ, and is never trained itself.

    Buffers (batch-norm statistics) are the copy's own: it computes them on what it sees.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).requires_grad_(False)

    @torch.no_grad()
    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.module(*args)
        return out

    def copy_from(self, module: nn.Module) -> None:
        """Copy all parameters and buffers of `module`."""
        self.module.load_state_dict(module.state_dict())

    @torch.no_grad()
    def update(self, module: nn.Module, momentum: float) -> None:
        """Move towards `module` by 1 − momentum."""
        own: list[torch.Tensor] = list(self.module.parameters())
        other: list[torch.Tensor] = list(module.parameters())
        torch._foreach_lerp_(own, other, 1.0 - momentum)


def cosine_momentum(start: float, end: float, progress: float) -> float:
    """Momentum that rises from `start` to `end` along a half cosine; progress in [0, 1]."""
    return end - (end - start) * 0.5 * (1.0 + math.cos(math.pi * progress))


class Queue(nn.Module):
    """The last K projections of each head, first in, first out. `z`: (C, K, D), a buffer.

    It starts with random directions. Whole projections are kept, not unit vectors, so that any
    temperature scheme can read them.
    """

    z: torch.Tensor
    start: torch.Tensor

    def __init__(self, num_heads: int, length: int, dim: int) -> None:
        super().__init__()
        whole_number("queue", length)
        self.register_buffer("z", torch.randn(num_heads, length, dim))
        self.register_buffer("start", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def push(self, z: torch.Tensor) -> None:
        """Put z (C, N, D), and that of every other process, in the place of the oldest."""
        z = gather(z.to(self.z.dtype))
        length = self.z.shape[1]
        if z.shape[1] > length:
            raise ValueError(
                f"{z.shape[1]} projections a step do not fit into a queue of {length}: "
                "lengthen the queue or lower the batch size."
            )
        place = (self.start + torch.arange(z.shape[1], device=z.device)) % length
        self.z[:, place] = z
        self.start.copy_((self.start + z.shape[1]) % length)
