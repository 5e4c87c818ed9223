"""Recipes of LGP."""

from dataclasses import replace

from amcl.config import Config
from amcl.methods import LGPSettings
from amcl.recipes.moco_v3 import heads
from amcl.recipes.registry import register_recipes, register_variant
from amcl.recipes.sets import LARGE, decoder, vit


@register_recipes("lgp")
def lgp(data: str) -> Config:
    """Return LGP as published: a first stage of MAE, then MoCo v3."""
    config = vit(data)
    hardware = replace(config.hardware, sync_norm=data == "imagenet")
    return replace(config, method=_settings(data), hardware=hardware)


@register_variant("imagenet", "lgp", "large")
def lgp_large(data: str) -> Config:
    """Return LGP with ViT-L/16, pulled to the weights of MAE, in batches of its scripts' size."""
    config = lgp(data)
    return replace(
        config,
        backbone=replace(config.backbone, name=LARGE),
        method=replace(_settings(data), pull=1e-5),
        run=replace(config.run, batch_size=2080),
    )


def _settings(data: str) -> LGPSettings:
    settings = LGPSettings(**decoder(data), **heads(data), mae_epochs=800)
    if data == "builtin":
        return replace(settings, thirds=(0.5, 0.5, 1.0), mae_epochs=1, mae_lr=2e-3)
    return settings
