"""All collective operations. Without a process group they do nothing."""

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")


def rank() -> int:
    """Return the number of this process, 0 if it is the only one."""
    return dist.get_rank() if _active() else 0


def world_size() -> int:
    """Return the number of processes that train together."""
    return dist.get_world_size() if _active() else 1


def gather(z: torch.Tensor, check: bool = True) -> torch.Tensor:
    """Gather the items of all ranks, in rank order, with gradient.

    Every rank must have the same N (drop the last, smaller batch); otherwise the ranks would wait
    for each other forever. The gradient that reaches z is the sum over all ranks' losses; DDP's
    averaging of the ranks then gives the one-process gradient on the whole batch.

    Args:
        z: Items (C, N, D) of this rank.
        check: Compare the shapes of all ranks first, which waits for the device. False is for
            tensors whose shapes cannot differ, or were compared with others of the same items.

    Returns:
        Items (C, W·N, D) of all W ranks.

    Raises:
        ValueError: The ranks have items of different shapes.
    """
    if world_size() == 1:
        return z
    if check:
        _check_shapes(z)
    ranks: torch.Tensor = _Gather.apply(z)
    return ranks.transpose(0, 1).flatten(1, 2)


@dataclass(frozen=True)
class Shuffled:
    """Items (N, ·) exchanged among the processes; `order` holds their positions before."""

    items: torch.Tensor
    order: torch.Tensor | None

    def undo(self, items: torch.Tensor) -> torch.Tensor:
        """Return results for shuffled items to the processes that the items came from."""
        if self.order is None:
            return items
        n = items.shape[0]
        return gather(items.unsqueeze(0))[0][self.order.argsort()[rank() * n :][:n]]


def shuffle(items: torch.Tensor) -> Shuffled:
    """Exchange items (N, ·) among the processes at random; a single process keeps their order."""
    if world_size() == 1:
        return Shuffled(items, None)
    n = items.shape[0]
    order = torch.randperm(world_size() * n, device=items.device)
    dist.broadcast(order, src=0)
    return Shuffled(gather(items.unsqueeze(0))[0][order[rank() * n :][:n]], order)


def sum_over_ranks(values: torch.Tensor) -> torch.Tensor:
    """Return the sum of each value over all processes, with gradient.

    The gradient that reaches the values is the sum over all ranks' losses, as that of `gather`.

    Args:
        values: Values of this process, in a shape that all share.

    Returns:
        The sums, the same on every process.
    """
    if world_size() == 1:
        return values
    total: torch.Tensor = _Sum.apply(values)
    return total


def mean_over_ranks(values: torch.Tensor) -> torch.Tensor:
    """Return the mean of each value over all processes, without gradient."""
    if world_size() == 1:
        return values.detach()
    values = values.detach().clone()
    dist.all_reduce(values)
    return values / world_size()


def gather_objects(value: T) -> list[T] | None:
    """Return the values of all processes, in the order of ranks; None on all but the first.

    They are pickled: for numbers and arrays that these processes have made themselves.
    """
    if world_size() == 1:
        return [value]
    values: list[Any] | None = [None] * world_size() if rank() == 0 else None
    dist.gather_object(value, values)
    return values


def from_first(value: T) -> T:
    """Return the value of the first process, on every process."""
    if world_size() == 1:
        return value
    values = [value]
    dist.broadcast_object_list(values)
    return values[0]


def broadcast_buffers(module: torch.nn.Module) -> None:
    """Give all processes the buffers of the first, such as running statistics of batch norm."""
    if world_size() > 1:
        for buffer in module.buffers():
            dist.broadcast(buffer, src=0)


def _check_shapes(z: torch.Tensor) -> None:
    """Raise an error on all ranks unless the tensors of all have the same shape."""
    sizes = [z.ndim, *z.shape][:4]
    mine = torch.tensor(sizes + [0] * (4 - len(sizes)), device=z.device)
    ranks = [torch.empty_like(mine) for _ in range(world_size())]
    dist.all_gather(ranks, mine)
    shapes = [tuple(each[1 : 1 + int(each[0])]) for each in torch.stack(ranks).tolist()]
    if len(set(shapes)) > 1:
        listed = ", ".join(f"{shape} on rank {k}" for k, shape in enumerate(shapes))
        raise ValueError(
            f"the batches of the processes differ: {listed}. All need the same number of images: "
            "leave out the last, smaller batch (drop_last=True)."
        )


def _active() -> bool:
    return dist.is_available() and dist.is_initialized()


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        total = values.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        grad = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad)
        return grad


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
