"""Warnings about settings that are allowed but seldom meant, before a run begins."""

import torch

from amcl.backbones import SMALL, Backbone
from amcl.config import Config
from amcl.methods import make_method

FEW_PIXELS = 16
MANY_HEADS = 16


def cautions(config: Config) -> list[str]:
    """Return warnings about the settings of a run.

    Args:
        config: Settings of the run.

    Returns:
        A sentence or two for each setting that is seldom meant.

    Example:
        >>> cautions(Config())
        []
    """
    warnings = []
    size = config.data.image_size
    if not config.views.operations and config.method.needs_augmentation:
        warnings.append(
            "--views '' switches every operation off: both views of an image are the same picture, "
            "and there is little to learn from them. --views ae crops and flips."
        )
    if size is not None and size < FEW_PIXELS:
        warnings.append(
            f"--image-size {size} is very small: most networks shrink their input 8 to 32 times. "
            "Usual sizes are 32 to 224 pixels."
        )
    heads = getattr(config.method, "heads", 1)
    if heads > MANY_HEADS:
        warnings.append(_many_heads(config, heads))
    return warnings


def _many_heads(config: Config, heads: int) -> str:
    with torch.device("meta"):  # counted without memory
        method = make_method(config.method, Backbone(config.backbone, SMALL))
    total, backbone = (
        sum(p.numel() for p in module.parameters()) for module in (method, method.backbone)
    )
    return (
        f"--heads {heads} is more than the 2 to 6 that are usual: beside the backbone's "
        f"{backbone / 1e6:,.1f} million parameters there are {(total - backbone) / 1e6:,.1f} "
        "million more."
    )
