"""Recipes of MoCo v3."""

from dataclasses import replace
from typing import Any

from amcl.config import Config
from amcl.methods import MoCoV3Settings
from amcl.recipes.registry import register_recipes, register_variant
from amcl.recipes.sets import LARGE, hidden, vit
from amcl.temperature import ConstantSettings


@register_recipes("mocov3")
def moco_v3(data: str) -> Config:
    """Return MoCo v3 as published. On ImageNet its heads normalize over the whole batch."""
    config = vit(data)
    decays = data != "builtin"
    return replace(
        config,
        method=MoCoV3Settings(**heads(data)),
        optimizer=replace(config.optimizer, decay_norm_and_bias=decays),
        hardware=replace(config.hardware, sync_norm=data == "imagenet"),
    )


@register_variant("imagenet", "mocov3", "large")
def moco_v3_large(data: str) -> Config:
    """Return MoCo v3 with ViT-L/16."""
    config = moco_v3(data)
    return replace(config, backbone=replace(config.backbone, name=LARGE))


def heads(data: str) -> dict[str, Any]:
    """Return the settings of projectors, predictors and momentum."""
    if data == "builtin":
        return {
            "projector": (256, 64),
            "temperature": ConstantSettings(tau=0.2),
            "momentum": 0.9,
            "predictor": 256,
        }
    width = hidden(data)
    return {"projector": (width, width, 256), "predictor": width}
