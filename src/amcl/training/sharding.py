"""Fully sharded data parallelism (FSDP2): each process keeps a share of every weight.

Weights are gathered block by block while they are used, and so are their gradients divided. States
for checkpoints are gathered too, tensor by tensor, so that they are those of a run that is not
sharded: either resumes from the other's checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from amcl.backbones import Backbone
from amcl.distributed import mean_over_ranks, rank
from amcl.errors import RunError
from amcl.methods import Method
from amcl.modules import MaskedDecoder
from amcl.training.blocks import blocks_of

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


def shard(method: Method, mesh: DeviceMesh) -> None:
    """Divide the weights of a method among processes, in place.

    Parameters become tensors of torch's `DTensor`: an optimizer has to be made after this. Blocks
    of backbones and decoders are gathered one by one; all else with the method. Scalars stay
    whole on every process, and `average_gradients` is for them.

    Args:
        method: The method, with the same weights on every process.
        mesh: The processes.
    """
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard

    scalars = {parameter for parameter in method.parameters() if parameter.ndim == 0}
    for scalar in scalars:
        scalar.data = scalar.data.to(_device(mesh))

    def placement(parameter: nn.Parameter) -> Shard | None:
        """Divide weights (C, out, in) of several heads by their outputs: heads are few."""
        by_outputs = parameter.ndim == 3 and parameter.shape[1] % mesh.size() == 0
        return Shard(1) if by_outputs else None

    options: dict[str, Any] = {"mesh": mesh, "shard_placement_fn": placement}
    for block in units_of(method):
        fully_shard(block, **options)
    fully_shard(method, ignored_params=scalars, **options)


def units_of(method: Method) -> Iterator[nn.Module]:
    """Yield the modules that are gathered one by one, those of momentum copies among them.

    Args:
        method: A method.

    Raises:
        RunError: The blocks of its backbone are not known.
    """
    for module in list(method.modules()):
        if isinstance(module, Backbone):
            blocks = blocks_of(module.network)
            if not blocks:
                raise RunError(
                    f"--strategy fsdp gathers a network block by block, and the blocks of "
                    f"{module.settings.name!r} are not known: use --strategy ddp, or a vision "
                    "transformer or a ResNet."
                )
            yield from blocks
        elif isinstance(module, MaskedDecoder):
            yield from module.blocks


def _device(mesh: DeviceMesh) -> torch.device:
    is_cuda = mesh.device_type == "cuda"
    return torch.device("cuda", torch.cuda.current_device()) if is_cuda else torch.device("cpu")


def is_sharded(module: nn.Module) -> bool:
    """Return whether `shard` has divided a module.

    Args:
        module: Any module.

    Example:
        >>> is_sharded(nn.Linear(2, 2))
        False
    """
    return any(is_share(parameter) for parameter in module.parameters())


def is_share(tensor: torch.Tensor) -> bool:
    """Return whether this process holds a share of a tensor.

    Args:
        tensor: Any tensor.
    """
    return hasattr(tensor, "full_tensor")  # so that DTensor, which takes seconds, is not imported


def own_share(tensor: Any) -> torch.Tensor:
    """Return the share of a tensor that this process holds; a tensor that is not divided itself.

    Args:
        tensor: Any tensor.

    Example:
        >>> own_share(torch.ones(2))
        tensor([1., 1.])
    """
    share: torch.Tensor = tensor.to_local() if is_share(tensor) else tensor
    return share


def divided_dim(tensor: Any) -> int | None:
    """Return the dimension along which a tensor is divided; None if it is not.

    Args:
        tensor: Any tensor.
    """
    dim: int | None = tensor.placements[0].dim if is_share(tensor) else None
    return dim


def whole_state(value: Any) -> Any:
    """Gather the tensors of a nested state; every process has to call it.

    Args:
        value: Dictionaries and lists of tensors and plain values.

    Returns:
        The state with whole tensors on the CPU, on the first process. On the others, tensors that
        are divided are None.
    """
    if isinstance(value, torch.Tensor):
        if not is_share(value):
            return value
        whole = value.full_tensor()  # type: ignore[attr-defined]
        return whole.cpu() if rank() == 0 else None
    if isinstance(value, Mapping):
        return {name: whole_state(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole_state(inner) for inner in value]
    return value


def _as_share(value: Any, like: Any) -> Any:
    """Return a whole tensor as divided as another of its shape; other values as they are."""
    if not (isinstance(value, torch.Tensor) and isinstance(like, torch.Tensor) and is_share(like)):
        return value
    if value.shape != like.shape:
        return value
    from torch.distributed.tensor import distribute_tensor

    share: Any = like
    return distribute_tensor(value.to(like.device), share.device_mesh, share.placements)


def load_whole_state(module: nn.Module, state: Mapping[str, torch.Tensor]) -> None:
    """Load a state dict of whole tensors into a module, whether it is sharded or not.

    Args:
        module: The module.
        state: Its state as `state_dict` returns it where it is not sharded.
    """
    current = module.state_dict()
    module.load_state_dict(
        {name: _as_share(value, current.get(name)) for name, value in state.items()}
    )


def load_whole_optimizer_state(optimizer: Any, state: Mapping[str, Any]) -> None:
    """Load a state dict of whole tensors into an optimizer, whether it is sharded or not.

    Args:
        optimizer: The optimizer.
        state: Its state as `state_dict` returns it where it is not sharded.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    shares = {
        index: {name: _as_share(value, parameters[index]) for name, value in values.items()}
        for index, values in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": shares})


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Average the gradients of parameters that `shard` has left whole over the processes.

    Args:
        parameters: Parameters of a sharded method.
    """
    gradients = [p.grad for p in parameters if not is_share(p) and p.grad is not None]
    if gradients:
        means = mean_over_ranks(torch.stack(gradients))
        for gradient, mean in zip(gradients, means, strict=True):
            gradient.copy_(mean)


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> None:
    """Scale the gradients of a sharded method to a norm, that of all shares together.

    Args:
        parameters: Its parameters.
        max_norm: The largest norm.
    """
    from torch.nn.utils import clip_grads_with_norm_, get_total_norm

    learned = [p for p in parameters if p.grad is not None]
    kinds = [[p for p in learned if is_share(p) == divided] for divided in (True, False)]
    norms = [get_total_norm([p.grad for p in kind if p.grad is not None]) for kind in kinds if kind]
    whole = [norm.full_tensor() if is_share(norm) else norm for norm in norms]  # type: ignore[attr-defined]
    total = torch.linalg.vector_norm(torch.stack(whole))
    for kind in kinds:
        clip_grads_with_norm_(kind, max_norm, total)


def gathered_network(backbone: Backbone) -> nn.Module | None:
    """Return the network of a backbone with whole weights; every process has to call it.

    Args:
        backbone: The backbone of a sharded method.

    Returns:
        A copy on the CPU that is not sharded, on the first process; None on the others.
    """
    state = whole_state(backbone.network.state_dict())
    if rank() != 0:
        return None
    with torch.random.fork_rng(devices=[]):
        network = backbone.copy_network(scratch=True)
    network.load_state_dict(state)
    return network
