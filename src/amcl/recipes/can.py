"""Recipes of CAN."""

from dataclasses import replace

from amcl.config import Config
from amcl.methods import CANSettings
from amcl.recipes.registry import register_recipes, register_variant
from amcl.recipes.sets import LARGE, decoder, hidden, vit
from amcl.temperature import ConstantSettings
from amcl.views import ViewSettings


@register_recipes("can")
def can(data: str) -> Config:
    """Return CAN as published.

    On the built-in set it leans on its contrastive term: the patterns are quickly told apart and
    slowly drawn.
    """
    config = vit(data)
    if data == "builtin":
        method = CANSettings(
            **decoder(data),
            projector=(256, 64),
            contrast_weight=0.3,
            temperature=ConstantSettings(tau=0.2),
        )
        return replace(config, method=method)
    width = hidden(data)
    epochs = 800 if data == "imagenet" else config.run.epochs
    return replace(
        config,
        views=ViewSettings(jitter=(0.8, 0.8, 0.8, 0.2)),
        backbone=replace(config.backbone, pool="mean"),
        method=CANSettings(**decoder(data), projector=(width, width, 128)),
        optimizer=replace(config.optimizer, lr=2.5e-4, weight_decay=0.05, adam_betas=(0.9, 0.95)),
        run=replace(config.run, epochs=epochs),
    )


@register_variant("imagenet", "can", "large")
def can_large(data: str) -> Config:
    """Return CAN with ViT-L/16."""
    config = can(data)
    return replace(config, backbone=replace(config.backbone, name=LARGE))
