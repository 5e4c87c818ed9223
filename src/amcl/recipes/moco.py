"""Recipes of MoCo."""

from dataclasses import replace

from amcl.config import Config, OptimizerSettings
from amcl.methods import MoCoSettings
from amcl.recipes.registry import register_recipes
from amcl.recipes.sets import resnet
from amcl.temperature import ConstantSettings
from amcl.views import ViewSettings

_CIFAR = MoCoSettings(
    queue=4096, momentum=0.99, symmetric=True, temperature=ConstantSettings(tau=0.1)
)
METHODS = {
    "builtin": MoCoSettings(
        projector=(256, 64),
        projector_norm=True,
        queue=512,
        momentum=0.9,
        temperature=ConstantSettings(tau=0.1),
    ),
    "folder": MoCoSettings(
        queue=4096, projector_last_norm="plain", temperature=ConstantSettings(tau=0.1)
    ),
    "cifar10": _CIFAR,
    "cifar100": _CIFAR,
    "stl10": MoCoSettings(temperature=ConstantSettings(tau=0.07)),
    "tinyimagenet": _CIFAR,
}


@register_recipes("moco")
def moco(data: str) -> Config:
    """Return MoCo as published; on ImageNet as the original repository has MoCo v2.

    There it shuffles images among processes instead of sharing their statistics.
    """
    config = resnet(data)
    if data == "imagenet":
        return replace(
            config,
            views=ViewSettings(crop_scale=(0.2, 1.0)),
            method=MoCoSettings(
                queue=65536,
                momentum=0.999,
                symmetric=False,
                projector=(2048, 128),
                temperature=ConstantSettings(tau=0.2),
            ),
            optimizer=OptimizerSettings(lr=0.03, weight_decay=1e-4, decay_norm_and_bias=True),
        )
    if config.optimizer.name == "sgd":
        config = replace(config, optimizer=replace(config.optimizer, lr=0.08))
    return replace(config, method=METHODS[data])
