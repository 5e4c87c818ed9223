"""Every collective that losses and methods need. Without a process group they do nothing."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist


def rank() -> int:
    """This process's number, 0 when there is one process."""
    return dist.get_rank() if _active() else 0


def world_size() -> int:
    """Number of processes train together."""
    return dist.get_world_size() if _active() else 1


def gather(z: torch.Tensor) -> torch.Tensor:
    """The items of every rank, in rank order, with gradient. z: (C, N, D). Returns (C, W·N, D).

    Every rank must bring the same N (drop the last, smaller batch). The gradient that reaches z is
    the sum over all ranks' losses; DDP's averaging of the ranks then gives the one-process
    gradient on the whole batch.
    """
    if world_size() == 1:
        return z
    ranks: torch.Tensor = _Gather.apply(z)
    return ranks.transpose(0, 1).flatten(1, 2)


@dataclass(frozen=True)
class Shuffled:
    """Items (N, ·) exchanged among the processes; `place` tells where each came from."""

    items: torch.Tensor
    place: torch.Tensor | None

    def undo(self, items: torch.Tensor) -> torch.Tensor:
        """What was computed from the shuffled items, given back to the processes they came from."""
        if self.place is None:
            return items
        n = items.shape[0]
        return gather(items.unsqueeze(0))[0][self.place.argsort()[rank() * n :][:n]]


def shuffle(items: torch.Tensor) -> Shuffled:
    """Exchange items (N, ·) among the processes at random. One process keeps its own in order."""
    if world_size() == 1:
        return Shuffled(items, None)
    n = items.shape[0]
    place = torch.randperm(world_size() * n, device=items.device)
    dist.broadcast(place, src=0)
    return Shuffled(gather(items.unsqueeze(0))[0][place[rank() * n :][:n]], place)


def mean_over_ranks(values: torch.Tensor) -> torch.Tensor:
    """The mean of each value over all processes, without gradient."""
    if world_size() == 1:
        return values.detach()
    values = values.detach().clone()
    dist.all_reduce(values)
    return values / world_size()


def _active() -> bool:
    return dist.is_available() and dist.is_initialized()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: torch.Tensor) -> torch.Tensor:
        z = z.contiguous()
        ranks = [torch.empty_like(z) for _ in range(world_size())]
        dist.all_gather(ranks, z)
        return torch.stack(ranks)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        grad = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad)
        return grad[rank()]
