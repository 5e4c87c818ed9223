"""Recipes of DINO."""

from dataclasses import replace

from amcl.backbones import BackboneSettings
from amcl.config import Config, HardwareSettings, OptimizerSettings, RunSettings
from amcl.methods import DINOSettings
from amcl.recipes.registry import register_recipes, register_variant
from amcl.recipes.sets import SMALL, resnet, two_sided_views, vit

_LOCAL = {"folder": (None, 6), "stl10": (48, 6), "tinyimagenet": (32, 6), "imagenet": (96, 8)}
"""Pixels and number of the local crops."""


@register_recipes("dino")
def dino(data: str) -> Config:
    """Return DINO as published: on ImageNet ViT-S/16 for 300 epochs, of the original repository.

    On CIFAR it is solo-learn's, with a ResNet-18 and no local crops. Other sets, which no paper
    has, follow ImageNet's with fewer prototypes.
    """
    if data == "builtin":
        return _builtin()
    if data in ("cifar10", "cifar100"):
        return _cifar(data)
    config = vit(data)
    local_size, local_crops = _LOCAL[data]
    views = replace(
        two_sided_views(), crop_scale=(0.4, 1.0), local_crops=local_crops, local_size=local_size
    )
    method = DINOSettings(prototypes=8192)
    if data == "imagenet":
        method = DINOSettings(prototypes=65536, prototype_unit_length=False, drop_path=0.1)
        config = replace(config, run=RunSettings(epochs=300, batch_size=1024))
    return replace(
        config,
        views=views,
        backbone=BackboneSettings(name=SMALL),
        method=method,
        optimizer=OptimizerSettings(
            name="adamw",
            lr=5e-4,
            lr_scaling="linear",
            weight_decay=0.04,
            final_weight_decay=0.4,
            warmup_epochs=10,
            final_lr=5e-4,  # of 2e-3 at batches of 1024: 1e-6
            clip=3.0,
        ),
    )


@register_variant("imagenet", "dino", "resnet50")
def dino_resnet50(data: str) -> Config:
    """Return DINO with ResNet-50, as the original repository has it."""
    config = dino(data)
    views = replace(config.views, crop_scale=(0.14, 1.0), local_scale=(0.05, 0.14))
    return replace(
        config,
        views=views,
        backbone=BackboneSettings(name="resnet50"),
        method=DINOSettings(teacher_tau=0.04, teacher_tau_warmup=0),
        optimizer=OptimizerSettings(
            lr=0.03,
            lr_scaling="linear",
            weight_decay=1e-4,
            warmup_epochs=10,
            final_lr=1.7e-5,  # of 0.06 at batches of 512: 1e-6
            clip=3.0,
        ),
        run=RunSettings(epochs=100, batch_size=512),
        hardware=HardwareSettings(sync_norm=True),
    )


def _cifar(data: str) -> Config:
    config = resnet(data)
    return replace(
        config,
        views=replace(two_sided_views(), blur_p=(0.0, 0.0)),
        method=DINOSettings(prototypes=4096, teacher_tau_warmup=0, momentum=0.9995),
        optimizer=OptimizerSettings(
            name="lars",
            lr=0.3,
            lr_scaling="linear",
            weight_decay=1e-6,
            lars_trust=0.02,
            warmup_epochs=10,
        ),
        run=RunSettings(epochs=1000, batch_size=256),
    )


def _builtin() -> Config:
    config = resnet("builtin")
    return replace(
        config,
        method=DINOSettings(
            projector=(256, 64),
            projector_norm=True,
            prototypes=256,
            prototype_freeze=0.0,
            teacher_tau=0.03,
            teacher_tau_warmup=0,
            momentum=0.98,
            momentum_end=0.99,
        ),
        run=replace(config.run, batch_size=64, epochs=20),
    )
