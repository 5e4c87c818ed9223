"""Layers of a backbone by depth: which of them learn slowly, and which are frozen at first."""

from typing import Any

from torch import nn

from amcl.backbones import Backbone
from amcl.config import OptimizerSettings
from amcl.methods import Method


def distances(backbone: Backbone) -> dict[nn.Parameter, int]:
    """Return the number of layers between each parameter and what reads the features.

    Layers are those of timm: the stem, then each block, the last one with the norm behind it.

    Args:
        backbone: The backbone.

    Returns:
        1 for the last block, 2 for the one before it, and so on down to the stem.

    Example:
        >>> from amcl.backbones import BackboneSettings
        >>> backbone = Backbone(BackboneSettings(name="resnet10t", width=0.125), image_size=32)
        >>> sorted(set(distances(backbone).values()))
        [1, 2, 3, 4, 5]
    """
    from timm.models._manipulate import group_with_matcher

    network: Any = backbone.network
    if not hasattr(network, "group_matcher"):
        raise ValueError(
            f"timm does not know the layers of {backbone.settings.name!r} by depth: leave out "
            "--layer-decay and --freeze-depth, or choose another network."
        )
    names = [name for name, _ in network.named_parameters()]
    head = network.pretrained_cfg.get("classifier") or "fc"
    head = head if isinstance(head, str) else head[0]
    named = iter((name, None) for name in [*names, f"{head}.weight"])
    layers: Any = group_with_matcher(named, network.group_matcher(coarse=False), reverse=True)
    return {p: layers[f"{head}.weight"] - layers[name] for name, p in network.named_parameters()}


def lr_scales(method: Method, settings: OptimizerSettings) -> dict[nn.Parameter, float]:
    """Return the parameters that learn at a multiple of the learning rate; the others at 1.

    Args:
        method: A method, which may have scales of its own.
        settings: The layer decay.
    """
    scales = method.lr_scales()
    if settings.layer_decay is None:
        return scales
    return scales | {
        parameter: scales.get(parameter, 1.0) * settings.layer_decay**distance
        for parameter, distance in distances(method.backbone).items()
    }


def frozen_at_first(backbone: Backbone, settings: OptimizerSettings) -> list[nn.Parameter]:
    """Return the parameters that do not learn in the first epochs: the layers next to the input.

    Args:
        backbone: The backbone that learns.
        settings: Number of epochs, and share of the layers.
    """
    if not settings.freeze_epochs:
        return []
    if settings.freeze_depth is None:
        return list(backbone.parameters())
    by_distance = distances(backbone)
    layers = sorted(set(by_distance.values()), reverse=True)
    frozen = set(layers[: round(settings.freeze_depth * len(layers))])
    return [parameter for parameter, distance in by_distance.items() if distance in frozen]
