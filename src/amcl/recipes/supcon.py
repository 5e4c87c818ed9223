"""Recipes of SupCon."""

from dataclasses import replace

from amcl.config import Config, HardwareSettings, OptimizerSettings, RunSettings
from amcl.methods import SupConSettings
from amcl.recipes.registry import register_recipes
from amcl.recipes.sets import resnet
from amcl.temperature import ConstantSettings
from amcl.views import ViewSettings

METHODS = {
    # As for SimCLR: batch norm keeps projections apart from the first step on.
    "builtin": SupConSettings(
        projector=(256, 64),
        projector_norm=True,
        projector_last_norm="plain",
        temperature=ConstantSettings(tau=0.3),
    ),
    "folder": SupConSettings(projector_last_norm="plain"),
    "imagenet": SupConSettings(projector=(2048, 128), loss_scale=0.1),
}
_CIFAR = SupConSettings(temperature=ConstantSettings(tau=0.1), loss_scale=0.1 / 0.07)


@register_recipes("supcon")
def supcon(data: str) -> Config:
    """Return SupCon with the figures of the authors' code: PyTorch's on CIFAR, TensorFlow's else.

    On CIFAR they have a ResNet-50 and steps of 1024 images; the network here is that of the other
    methods. On ImageNet they have AutoAugment in place of SimCLR's operations.
    """
    config = resnet(data)
    if data == "imagenet":
        return replace(
            config,
            views=ViewSettings(jitter=(0.8, 0.8, 0.8, 0.2)),
            method=METHODS[data],
            optimizer=OptimizerSettings(
                name="lars", lr=0.4, lr_scaling="linear", weight_decay=1e-3, warmup_epochs=12
            ),
            run=RunSettings(epochs=350, batch_size=6144),
            hardware=HardwareSettings(sync_norm=True),
        )
    if config.optimizer.name == "sgd":
        return replace(
            config,
            views=ViewSettings(operations="acde", crop_scale=(0.2, 1.0)),
            method=_CIFAR,
            optimizer=OptimizerSettings(
                lr=0.5,
                weight_decay=1e-4,
                decay_norm_and_bias=True,
                warmup_epochs=10,
                final_lr=0.001,
            ),
            run=RunSettings(epochs=1000, batch_size=1024),
        )
    return replace(config, method=METHODS.get(data, SupConSettings()))
