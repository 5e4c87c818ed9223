"""Parts with a memory: an encoder that follows another slowly, a queue of past projections."""

import copy

import torch
from torch import nn

from amcl import functional as F
from amcl.distributed import gather
from amcl.schedule import half_cosine
from amcl.settings import whole_number


class MomentumCopy(nn.Module):
    """A copy of a module that follows it: θ' ← m·θ' + (1 − m)·θ, and is never trained itself.

    Buffers (batch-norm statistics) do not follow: the copy computes them from its own input.

    Args:
        module: The module to copy and follow.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> momentum_copy = MomentumCopy(layer)
        >>> momentum_copy.update(layer, momentum=0.99)
        >>> momentum_copy(torch.ones(1, 2)).requires_grad
        False
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).requires_grad_(False)

    @torch.no_grad()
    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        """Call the copy without gradient.

        Args:
            args: Input of the module.

        Returns:
            Output of the copy.
        """

        out: torch.Tensor = self.module(*args)
        return out

    def copy_from(self, module: nn.Module) -> None:
        """Copy all parameters and buffers of a module.

        Args:
            module: A module of the same architecture.
        """
        self.module.load_state_dict(module.state_dict())

    @torch.no_grad()
    def update(self, module: nn.Module, momentum: float) -> None:
        """Move toward a module by 1 − momentum.

        Args:
            module: The module that is followed.
            momentum: Share m of itself that the copy keeps.
        """
        copied: list[torch.Tensor] = list(self.module.parameters())
        followed: list[torch.Tensor] = list(module.parameters())
        torch._foreach_lerp_(copied, followed, 1.0 - momentum)


def cosine_momentum(start: float, end: float, progress: float) -> float:
    """Return a momentum that rises from `start` to `end` along a half cosine.

    Args:
        start: Momentum at the start of training.
        end: Momentum at the end of training.
        progress: Share of the training that is done, from 0 to 1.

    Returns:
        The momentum.

    Example:
        >>> cosine_momentum(0.99, 1.0, 0.0), cosine_momentum(0.99, 1.0, 1.0)
        (0.99, 1.0)
    """
    return half_cosine(start, end, progress)


class Queue(nn.Module):
    """The last K projections of each head, first in, first out. `z`: (C, K, D), a buffer.

    It starts with random directions. Whole projections are stored, not unit vectors, so that any
    temperature scheme can read them.

    Args:
        num_heads: Number C of heads.
        length: Number K of projections of each head.
        dim: Width D of the projections.

    Example:
        >>> queue = Queue(num_heads=2, length=8, dim=4)
        >>> queue.push(torch.zeros(2, 3, 4))
        >>> queue.z[:, :3].abs().sum()
        tensor(0.)
    """

    z: torch.Tensor
    start: torch.Tensor

    def __init__(self, num_heads: int, length: int, dim: int) -> None:
        super().__init__()
        whole_number("queue", length)
        self.register_buffer("z", torch.randn(num_heads, length, dim))
        self.register_buffer("start", torch.zeros((), dtype=torch.long))
        self._held: list[torch.Tensor] = []

    def hold(self, z: torch.Tensor) -> None:
        """Hold projections back until `push_held`, so that all parts of a step see one queue.

        Args:
            z: Projections (C, N, D) of this process.
        """
        self._held.append(z.detach())

    def push_held(self) -> None:
        """Push the projections that were held, in the order of the calls of `hold`."""
        self.push(torch.cat(self._held, dim=1))
        self._held.clear()

    @torch.no_grad()
    def nearest(self, z: torch.Tensor) -> torch.Tensor:
        """Return the most similar projection of the queue for each of the given ones.

        Args:
            z: Projections (C, N, D).

        Returns:
            Projections (C, N, D) from the queue of the same head, without gradient.

        Example:
            >>> queue = Queue(num_heads=1, length=2, dim=2)
            >>> queue.push(torch.tensor([[[2.0, 0.0], [0.0, 3.0]]]))
            >>> queue.nearest(torch.tensor([[[1.0, 9.0]]]))
            tensor([[[0., 3.]]])
        """
        index = F.nearest(z.to(self.z.dtype), self.z).unsqueeze(-1)
        return self.z.gather(1, index.expand(-1, -1, self.z.shape[-1]))

    @torch.no_grad()
    def push(self, z: torch.Tensor) -> None:
        """Replace the oldest projections by new ones.

        Args:
            z: Projections (C, N, D) of this process; those of all processes enter the queue.
        """
        z = gather(z.to(self.z.dtype))
        length = self.z.shape[1]
        if z.shape[1] > length:
            raise ValueError(
                f"{z.shape[1]} projections a step do not fit into a queue of {length}: "
                "lengthen the queue or lower the batch size."
            )
        index = (self.start + torch.arange(z.shape[1], device=z.device)) % length
        self.z[:, index] = z
        self.start.copy_((self.start + z.shape[1]) % length)
