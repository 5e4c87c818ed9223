"""Recipes of SimCLR."""

from dataclasses import replace

from amcl.config import Config, HardwareSettings, OptimizerSettings, RunSettings
from amcl.methods import SimCLRSettings
from amcl.recipes.registry import register_recipes
from amcl.recipes.sets import resnet
from amcl.temperature import ConstantSettings
from amcl.views import ViewSettings

METHODS = {
    "builtin": SimCLRSettings(
        projector=(256, 64), projector_norm=True, temperature=ConstantSettings(tau=0.2)
    ),
    # Batch norm keeps projections apart from the first step on, which adaptive temperatures need
    # to differ and which SimCLR gains by as published too (docs/short-runs.md, on STL-10).
    "folder": SimCLRSettings(projector_last_norm="plain", temperature=ConstantSettings(tau=0.1)),
    "cifar10": SimCLRSettings(temperature=ConstantSettings(tau=0.5)),
    "cifar100": SimCLRSettings(temperature=ConstantSettings(tau=0.5)),
    "stl10": SimCLRSettings(temperature=ConstantSettings(tau=0.07)),
    "tinyimagenet": SimCLRSettings(temperature=ConstantSettings(tau=0.5)),
}


@register_recipes("simclr")
def simclr(data: str) -> Config:
    """Return SimCLR as published; on ImageNet as the original repository has it."""
    if data != "imagenet":
        return replace(resnet(data), method=METHODS[data])
    return replace(
        resnet(data),
        views=ViewSettings(jitter=(0.8, 0.8, 0.8, 0.2)),
        method=SimCLRSettings(
            projector=(2048, 128),
            projector_norm=True,
            projector_bias=False,
            projector_last_norm="affine",
            temperature=ConstantSettings(tau=0.1),
        ),
        optimizer=OptimizerSettings(
            name="lars", lr=0.3, lr_scaling="linear", weight_decay=1e-6, warmup_epochs=10
        ),
        run=RunSettings(epochs=200, batch_size=4096),
        hardware=HardwareSettings(sync_norm=True),
    )
