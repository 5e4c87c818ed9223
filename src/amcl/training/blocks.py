"""Blocks of a network: the modules that are sharded and compiled one by one."""

from collections.abc import Iterator

from torch import nn

_STAGES = ("blocks", "layer1", "layer2", "layer3", "layer4", "stages", "layers")
"""Attributes under which timm keeps the blocks of a network, or stages of blocks."""


def blocks_of(network: nn.Module) -> list[nn.Module]:
    """Return the blocks that a network repeats, in their order.

    Args:
        network: A network of timm, or another that keeps its blocks under the same names.

    Returns:
        The blocks of a transformer, the residual blocks of a ResNet, and so on; none where they
        are kept under other names.

    Example:
        >>> from amcl.backbones import Backbone, BackboneSettings
        >>> vit = Backbone(BackboneSettings(name="test_vit"), image_size=32).network
        >>> resnet = Backbone(
        ...     BackboneSettings(name="resnet10t", width=0.125), image_size=32
        ... ).network
        >>> len(blocks_of(vit)), len(blocks_of(resnet)), len(blocks_of(nn.Linear(2, 2)))
        (6, 4, 0)
    """
    stages = [getattr(network, name, None) for name in _STAGES]
    return [block for stage in stages if isinstance(stage, nn.Module) for block in _flat(stage)]


def _flat(stage: nn.Module) -> Iterator[nn.Module]:
    """Yield the modules of a stage that are no containers of others."""
    for child in stage.children():
        inner = getattr(child, "blocks", None)
        if isinstance(child, nn.Sequential | nn.ModuleList):
            yield from _flat(child)
        elif isinstance(inner, nn.Module):
            yield from _flat(inner)
        else:
            yield child
