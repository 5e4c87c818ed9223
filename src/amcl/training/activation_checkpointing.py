"""Activation checkpointing: blocks are computed again in the backward pass, to save memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from amcl.backbones import Backbone
from amcl.errors import RunError
from amcl.methods import Method
from amcl.modules import MaskedDecoder


def checkpoint_activations(method: Method) -> None:
    """Let the backbone that learns keep only the inputs of its blocks until the backward pass.

    A decoder of masked patches does the same. Losses and gradients stay as they are.

    Args:
        method: The method, which is changed in place.

    Raises:
        RunError: timm cannot do it for the network.
    """
    _checkpoint(method.backbone)
    for module in method.modules():
        if isinstance(module, MaskedDecoder):
            module.grad_checkpointing = True


def _checkpoint(backbone: Backbone) -> None:
    network: Any = backbone.network
    name = backbone.settings.name
    refusal = RunError(
        f"--activation-checkpointing: timm does not have it for {name!r}. Leave it out, or choose "
        "a vision transformer or a ResNet."
    )
    if not hasattr(network, "set_grad_checkpointing"):
        raise refusal
    try:
        network.set_grad_checkpointing(True)
    except (AssertionError, NotImplementedError) as error:  # as networks say that they lack it
        raise refusal from error


@contextmanager
def recomputing(module: nn.Module) -> Iterator[None]:
    """Keep running statistics of batch norms as they are while blocks are computed again.

    Around a backward pass: the forward pass has counted the batch already.

    Args:
        module: A module with activation checkpointing, or without.
    """
    norms = [part for part in module.modules() if isinstance(part, _BatchNorm)]
    statistics = [buffer for norm in norms for buffer in norm.buffers()]
    before = [buffer.clone() for buffer in statistics]
    try:
        yield
    finally:
        for buffer, value in zip(statistics, before, strict=True):
            buffer.copy_(value)
