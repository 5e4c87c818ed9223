"""Recipes of VICReg."""

from dataclasses import replace

from amcl.config import Config, HardwareSettings, OptimizerSettings, RunSettings
from amcl.methods import VICRegSettings
from amcl.recipes.registry import register_recipes
from amcl.recipes.sets import resnet, two_sided_views
from amcl.views import ViewSettings

METHODS = {
    "builtin": VICRegSettings(projector=(256, 256)),
    "folder": VICRegSettings(projector=(1024, 1024)),
    "imagenet": VICRegSettings(projector=(8192, 8192, 8192)),
}


@register_recipes("vicreg")
def vicreg(data: str) -> Config:
    """Return VICReg; on ImageNet as the original repository has it for 1000 epochs.

    The original has no other set. CIFAR has the figures of solo-learn, whose LARS bounds the rate
    of each layer too, and Tiny-ImageNet those of CIFAR.
    """
    config = replace(resnet(data), method=METHODS.get(data, VICRegSettings()))
    if data == "imagenet":
        return replace(
            config,
            views=two_sided_views(),
            optimizer=OptimizerSettings(
                name="lars",
                lr=0.2,
                lr_scaling="linear",
                weight_decay=1e-6,
                warmup_epochs=10,
                final_lr=0.001,
            ),
            run=RunSettings(epochs=1000, batch_size=2048),
            hardware=HardwareSettings(sync_norm=True),
        )
    if config.optimizer.name == "sgd":
        return replace(
            config,
            views=ViewSettings(
                operations="acdes",
                crop_scale=(0.2, 1.0),
                jitter=(0.4, 0.4, 0.2, 0.1),
                solarize_p=(0.1, 0.1),
            ),
            optimizer=OptimizerSettings(
                name="lars", lr=0.3, lars_trust=0.02, weight_decay=1e-4, warmup_epochs=10
            ),
            run=RunSettings(epochs=1000, batch_size=256),
        )
    return config
