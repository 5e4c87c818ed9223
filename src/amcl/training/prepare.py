"""A method as the hardware wants it: norms, memory format, checkpointing, compilation, shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from amcl.config import Config, HardwareSettings
from amcl.errors import RunError
from amcl.methods import Method
from amcl.training.activation_checkpointing import checkpoint_activations
from amcl.training.compiling import compile_backbones
from amcl.training.sharding import shard

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def check_strategy(config: Config) -> None:
    """Raise an error if the method cannot be trained with --strategy, before anything is made.

    Args:
        config: The configuration of a run.
    """
    if config.hardware.strategy == "fsdp" and (refusal := config.method.sharding_refusal()):
        raise RunError(f"--strategy fsdp does not go with --method {config.method.name}: {refusal}")


def prepared(method: Method, settings: HardwareSettings, fabric: Fabric) -> Method:
    """Return the method as the hardware wants it, before an optimizer is made of its parameters.

    Args:
        method: The method with its first weights.
        settings: The hardware.
        fabric: Devices and processes.
    """
    is_sharded = settings.strategy == "fsdp"
    if settings.sync_norm:
        method = torch.nn.SyncBatchNorm.convert_sync_batchnorm(method)
    if settings.channels_last and not is_sharded:  # shares of weights are contiguous
        method = method.to(memory_format=torch.channels_last)
    if settings.activation_checkpointing:
        checkpoint_activations(method)
    if settings.compile:
        compile_backbones(method, fabric.device)
    if is_sharded:
        strategy: Any = fabric.strategy
        shard(method, strategy.device_mesh["data_parallel"])
    return method
