"""Recipes of SimSiam."""

from dataclasses import replace

from amcl.config import Config, HardwareSettings, OptimizerSettings, RunSettings
from amcl.methods import SimSiamSettings
from amcl.recipes.registry import register_recipes
from amcl.recipes.sets import resnet
from amcl.views import ViewSettings

METHODS = {
    "builtin": SimSiamSettings(projector=(256, 256), predictor=64),
    "folder": SimSiamSettings(projector=(1024, 1024), predictor=256),
}


@register_recipes("simsiam")
def simsiam(data: str) -> Config:
    """Return SimSiam as published; on ImageNet as the original repository has it."""
    config = resnet(data)
    if data == "imagenet":
        return replace(
            config,
            views=ViewSettings(crop_scale=(0.2, 1.0)),
            method=SimSiamSettings(
                projector=(2048, 2048, 2048), projector_bias=False, projector_last_norm="plain"
            ),
            optimizer=OptimizerSettings(
                lr=0.05, lr_scaling="linear", weight_decay=1e-4, decay_norm_and_bias=True
            ),
            run=RunSettings(epochs=200, batch_size=512),
            hardware=HardwareSettings(sync_norm=True),
        )
    if data == "folder":
        optimizer = OptimizerSettings(lr=0.05, lr_scaling="linear", weight_decay=1e-4)
        config = replace(config, optimizer=optimizer)
    if config.optimizer.name == "sgd":
        config = replace(config, optimizer=replace(config.optimizer, lr=0.05))
    return replace(config, method=METHODS.get(data, SimSiamSettings()))
