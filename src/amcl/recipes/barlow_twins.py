"""Recipes of Barlow Twins."""

from dataclasses import replace

from amcl.config import Config, HardwareSettings, OptimizerSettings, RunSettings
from amcl.methods import BarlowTwinsSettings
from amcl.recipes.registry import register_recipes
from amcl.recipes.sets import resnet, two_sided_views

METHODS = {
    "builtin": BarlowTwinsSettings(projector=(256, 256)),
    "folder": BarlowTwinsSettings(projector=(1024, 1024)),
}


@register_recipes("barlow")
def barlow_twins(data: str) -> Config:
    """Return Barlow Twins as published; on ImageNet as the original repository has it."""
    config = resnet(data)
    if data == "imagenet":
        return replace(
            config,
            views=two_sided_views(),
            method=BarlowTwinsSettings(
                projector=(8192, 8192, 8192),
                projector_bias=False,
                projector_last_norm="plain",
                lam=0.0051,
            ),
            optimizer=OptimizerSettings(
                name="lars",
                lr=0.2,
                lr_scaling="linear",
                bias_lr_scale=0.024,
                weight_decay=1e-6,
                warmup_epochs=10,
                final_lr=0.001,
            ),
            run=RunSettings(epochs=200, batch_size=2048),
            hardware=HardwareSettings(sync_norm=True),
        )
    if config.optimizer.name == "sgd":
        config = replace(config, optimizer=replace(config.optimizer, lr=0.11))
    default = BarlowTwinsSettings(lam=5e-3, projector_last_norm="affine")
    return replace(config, method=METHODS.get(data, default))
