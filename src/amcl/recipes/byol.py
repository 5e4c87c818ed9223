"""Recipes of BYOL."""

from dataclasses import replace

from amcl.config import Config, HardwareSettings, OptimizerSettings, RunSettings
from amcl.methods import BYOLSettings
from amcl.recipes.registry import register_recipes
from amcl.recipes.sets import resnet, two_sided_views

METHODS = {
    # A target that follows quickly to the end: a short run has no time for a slow one.
    "builtin": BYOLSettings(projector=(256, 64), predictor=256, momentum=0.9, momentum_end=0.9),
    "folder": BYOLSettings(projector=(1024, 256), predictor=1024, momentum=0.99),
}


@register_recipes("byol")
def byol(data: str) -> Config:
    """Return BYOL; on ImageNet the run of 1000 epochs as published (arXiv 2006.07733).

    There statistics of batch norm are those of the whole batch. On small sets heads and momentum
    are those of solo-learn; the optimizer is that of the set, since solo-learn's clips the rate of
    each layer.
    """
    config = resnet(data)
    if data == "imagenet":
        return replace(
            config,
            views=two_sided_views(),
            method=BYOLSettings(),
            optimizer=OptimizerSettings(
                name="lars", lr=0.2, lr_scaling="linear", weight_decay=1.5e-6, warmup_epochs=10
            ),
            run=RunSettings(epochs=1000, batch_size=4096),
            hardware=HardwareSettings(sync_norm=True),
        )
    return replace(config, method=METHODS.get(data, BYOLSettings(momentum=0.99)))
