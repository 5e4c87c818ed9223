"""Bytes that a training step keeps for its backward pass, by real or by imagined tensors."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_leaves

from amcl.backbones import Backbone
from amcl.config import Config
from amcl.errors import RunError
from amcl.methods import Method, make_method
from amcl.modules import MaskedDecoder
from amcl.seeds import generator
from amcl.training.activation_checkpointing import checkpoint_activations
from amcl.training.blocks import blocks_of
from amcl.views import ViewGroups


class SavedTensors:
    """Counts the memory of tensors that autograd saves, each once, and without given ones.

    Args:
        without: Tensors that are there anyway, such as parameters.

    Example:
        >>> weight = torch.ones(4, 4, requires_grad=True)
        >>> saved = SavedTensors([weight])
        >>> with saved.counting():
        ...     loss = (torch.ones(2, 4) @ weight).square().sum()
        >>> saved.bytes  # the input of each product
        64
    """

    def __init__(self, without: Iterable[torch.Tensor] = ()) -> None:
        self._without = {tensor.untyped_storage()._cdata for tensor in without}
        # Kept, so that no other storage takes the place of one that is counted.
        self._storages: dict[int, torch.UntypedStorage] = {}

    @property
    def bytes(self) -> int:
        """Bytes that were saved so far."""
        return sum(storage.nbytes() for storage in self._storages.values())

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what is saved in this context."""
        with torch.autograd.graph.saved_tensors_hooks(self._save, lambda tensor: tensor):
            yield

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in self._without:
            self._storages[storage._cdata] = storage
        return tensor


@dataclass(frozen=True, kw_only=True)
class Activations:
    """Bytes that a step keeps between its forward and its backward pass."""

    saved: int
    """Bytes at the end of the forward pass."""
    checkpointed: int | None
    """The same with activation checkpointing; None where the network does not have it."""
    blocks: int
    """Number of blocks that are then computed again, one after the other."""

    @property
    def recomputed(self) -> int:
        """Bytes of a block that is computed again."""
        return 0 if self.checkpointed is None else (self.saved - self.checkpointed) // self.blocks

    def peak(self, checkpointing: bool) -> int:
        """Return the bytes at most.

        Args:
            checkpointing: Whether blocks are computed again.
        """
        if not checkpointing or self.checkpointed is None:
            return self.saved
        return self.checkpointed + self.recomputed


def activations_of(
    config: Config, images: int, image_size: int, *, bf16: bool = True, channels: int = 3
) -> Activations:
    """Count the activations of a training step on one device. Nothing is computed.

    Args:
        config: Configuration of the training.
        images: Number of images that the device gets at once.
        image_size: Pixels a side of the views.
        bf16: Compute products in bf16, as mixed precision does; False computes in float32.
        channels: Number of channels of the images.

    Example:
        >>> from amcl.recipes import recipe
        >>> activations = activations_of(recipe("builtin-simclr"), images=8, image_size=32)
        >>> activations.peak(checkpointing=True) < activations.peak(checkpointing=False)
        True
    """
    method = _without_values(config, image_size, channels)
    blocks = len(blocks_of(method.backbone.network))
    for module in method.modules():
        blocks += len(module.blocks) if isinstance(module, MaskedDecoder) else 0
    saved = _saved(method, config, images, image_size, bf16)
    method = _without_values(config, image_size, channels)
    try:
        checkpoint_activations(method)
    except RunError:  # the network does not have it
        return Activations(saved=saved, checkpointed=None, blocks=0)
    checkpointed = _saved(method, config, images, image_size, bf16)
    return Activations(saved=saved, checkpointed=checkpointed, blocks=max(blocks, 1))


def _without_values(config: Config, image_size: int, channels: int) -> Method:
    with torch.device("meta"):
        return make_method(config.method, Backbone(config.backbone, image_size, channels=channels))


def _saved(method: Method, config: Config, images: int, image_size: int, bf16: bool) -> int:
    sizes = ViewGroups(
        image_size, config.views, method.num_views, patch=method.backbone.patch
    ).sizes
    drawn = method.draw(images, generator("cost"))
    with _Imagined():
        method.to_empty(device="cpu")
        views = [torch.empty(images, method.backbone.channels, size, size) for size in sizes]
        arguments: dict[str, Any] = {} if drawn is None else {"drawn": drawn}
        if method.settings.needs_labels:
            arguments["labels"] = torch.empty(images, dtype=torch.long)
        return saved_bytes(method, views, arguments, bf16=bf16)


def saved_bytes(
    method: Method,
    views: Sequence[torch.Tensor],
    arguments: dict[str, Any] | None = None,
    *,
    bf16: bool = False,
) -> int:
    """Return the bytes that the loss of views keeps for its backward pass.

    Args:
        method: The method.
        views: Its views.
        arguments: Its other arguments, by name.
        bf16: Compute products in bf16.
    """
    saved = SavedTensors([*method.parameters(), *method.buffers()])
    with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext(), saved.counting():
        method(views, **(arguments or {}))
    return saved.bytes


class _Imagined(FakeTensorMode):
    """Tensors with shapes and without values, but for masks and seeds that were drawn before."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = tree_leaves((args, kwargs))
        tensors = [value for value in leaves if isinstance(value, torch.Tensor)]
        if tensors and not any(isinstance(t, FakeTensor) or t.is_meta for t in tensors):
            return func(*args, **(kwargs or {}))
        if func is torch.ops.aten.index.Tensor:
            args = (args[0], [index for mask in args[1] for index in _indices(mask)])
        return super().__torch_dispatch__(func, types, args, kwargs)


def _indices(mask: torch.Tensor | None) -> Sequence[torch.Tensor | None]:
    """Return the indices that a mask with values selects, whose number its shape does not say."""
    has_values = mask is not None and not isinstance(mask, FakeTensor)
    if mask is None or not has_values or mask.dtype != torch.bool:
        return [mask]
    return mask.nonzero(as_tuple=True)
