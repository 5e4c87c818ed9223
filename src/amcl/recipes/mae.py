"""Recipes of MAE."""

from dataclasses import replace

from amcl.config import Config
from amcl.methods import MAESettings
from amcl.recipes.registry import register_recipes, register_variant
from amcl.recipes.sets import LARGE, decoder, vit
from amcl.views import ViewSettings


@register_recipes("mae")
def mae(data: str) -> Config:
    """Return MAE as published: crops and flips alone."""
    config = vit(data)
    optimizer = replace(config.optimizer, weight_decay=0.05, adam_betas=(0.9, 0.95))
    epochs = 800 if data == "imagenet" else config.run.epochs
    return replace(
        config,
        views=ViewSettings(operations="ae", crop_scale=(0.2, 1.0)),
        method=MAESettings(**decoder(data)),
        optimizer=optimizer,
        run=replace(config.run, epochs=epochs),
    )


@register_variant("imagenet", "mae", "large")
def mae_large(data: str) -> Config:
    """Return MAE with ViT-L/16."""
    config = mae(data)
    return replace(config, backbone=replace(config.backbone, name=LARGE))
