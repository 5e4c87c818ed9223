"""A backbone with a linear layer on top, and the learning rates of its layers."""

import copy
import random
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn

from amcl.backbones import Backbone
from amcl.seeds import seed_of


def classifier(
    backbone: nn.Module,
    classes: int,
    *,
    image_size: int,
    channels: int = 3,
    drop_path: float = 0.0,
    scratch: bool = False,
    seed: int = 0,
) -> nn.Module:
    """Return a network from images (N, C, S, S) to logits (N, classes).

    Args:
        backbone: The network to start from, which is left as it is.
        classes: Number of classes.
        image_size: Side S of the images.
        channels: Number C of their channels.
        drop_path: Rate of stochastic depth.
        scratch: Take fresh weights instead of those of the backbone.
        seed: Fresh weights follow from it.

    Returns:
        Of a `Backbone` the timm network itself, with timm's keys; of another module a copy of it as
        `backbone` with a linear layer `head`.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet18", width=0.25), image_size=32)
        >>> classifier(backbone, 7, image_size=32)(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 7])
    """
    with seeded(seed, "classifier"):
        if isinstance(backbone, Backbone):
            return _of_backbone(backbone, classes, drop_path, scratch)
        if scratch or drop_path:
            setting = "scratch=True" if scratch else f"drop_path={drop_path}"
            raise ValueError(
                f"{setting} needs a network that can be made again, and a "
                f"{type(backbone).__name__} cannot: give an amcl.backbones.Backbone, or "
                "scratch=False and drop_path=0."
            )
        return _of_module(backbone, classes, (channels, image_size, image_size))


def parameter_groups(
    model: nn.Module, weight_decay: float, layer_decay: float
) -> list[dict[str, Any]]:
    """Return parameters by depth, with their `lr_scale`: 1 for the head, × layer_decay below.

    Biases, norms and what the network names (positions, class token) have no weight decay.
    """
    from timm.optim import param_groups_layer_decay  # type: ignore[attr-defined]

    if layer_decay != 1 and not hasattr(model, "group_matcher"):
        raise ValueError(
            f"layer_decay={layer_decay} needs a network whose layers are known by depth, such as "
            "an amcl.backbones.Backbone: set layer_decay=1 for other modules."
        )
    without_decay: Any = getattr(model, "no_weight_decay", tuple)()
    groups: list[dict[str, Any]] = param_groups_layer_decay(
        model, weight_decay, without_decay, layer_decay=layer_decay
    )
    return groups


@contextmanager
def seeded(*names: int | str, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed the global generators of Python, NumPy and torch by names; restore them at the end.

    For random numbers that libraries draw without a generator as their argument.

    Example:
        >>> with seeded(0, "example"):
        ...     first = torch.rand(3)
        >>> with seeded(0, "example"):
        ...     torch.equal(torch.rand(3), first)
        True
    """
    seed = seed_of(*names)
    python = random.getstate()
    numpy = np.random.get_state()
    with torch.random.fork_rng(devices=[]), _seeded_on(torch.device(device), seed):
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.default_generator.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


@contextmanager
def _seeded_on(device: torch.device, seed: int) -> Iterator[None]:
    """Seed the generator of a device that has its own."""
    if device.type == "cpu":
        yield
        return
    accelerator: Any = torch.get_device_module(device)
    # MPS is a single device, and cannot be chosen.
    current = accelerator.device(device) if hasattr(accelerator, "device") else nullcontext()
    with current:
        state = accelerator.get_rng_state()
        accelerator.manual_seed(seed)
        try:
            yield
        finally:
            accelerator.set_rng_state(state)


def _of_backbone(backbone: Backbone, classes: int, drop_path: float, scratch: bool) -> nn.Module:
    network: Any = backbone.copy_network(drop_path=drop_path, scratch=scratch)
    network.reset_classifier(classes)
    classified: nn.Module = network
    return classified


def _of_module(backbone: nn.Module, classes: int, image: tuple[int, int, int]) -> nn.Module:
    body = copy.deepcopy(backbone).cpu().eval()
    with torch.no_grad():
        shape = body(torch.zeros(1, *image)).shape
    if len(shape) != 2:
        raise ValueError(
            f"the backbone turned 1 image into {tuple(shape)}: it must give one vector for each, "
            "(N, D). Pool its output first, or take num_classes=0 for a timm model."
        )
    for parameter in body.parameters():  # it may have been frozen for another evaluation
        parameter.requires_grad_(parameter.is_floating_point())
    return nn.Sequential(OrderedDict(backbone=body, head=nn.Linear(shape[1], classes)))
