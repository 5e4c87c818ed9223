"""ResNets: SimCLR, MoCo, SimSiam and Barlow Twins, as their papers and repositories have them."""

from dataclasses import replace

from amcl.backbones import BackboneSettings
from amcl.methods import (
    AnySettings,
    BarlowTwinsSettings,
    MoCoSettings,
    SimCLRSettings,
    SimSiamSettings,
)
from amcl.training.config import Config, DataSettings, HardwareSettings, RunSettings
from amcl.training.optimizers import OptimizerSettings
from amcl.views import ViewSettings

METHODS = ("simclr", "moco", "simsiam", "barlow")


def cifar(method: str, data: str = "cifar10") -> Config:
    """CIFAR, ResNet-18 with the small stem, SGD, batches of 512: the baselines of the paper."""
    settings: dict[str, AnySettings] = {
        "simclr": SimCLRSettings(tau=0.5),
        "moco": MoCoSettings(tau=0.1, queue=4096, momentum=0.99, symmetric=True),
        "simsiam": SimSiamSettings(),
        "barlow": BarlowTwinsSettings(lam=5e-3, projector_last_norm="affine"),
    }
    rates = {"simclr": 0.06, "moco": 0.08, "simsiam": 0.05, "barlow": 0.11}
    return Config(
        data=DataSettings(data=data),
        backbone=BackboneSettings(backbone="resnet18"),
        method=settings[method],
        optimizer=OptimizerSettings(
            optimizer="sgd", lr=rates[method], weight_decay=5e-4, decay_norm_and_bias=True
        ),
        run=RunSettings(epochs=1000 if data == "cifar100" else 800, batch_size=512),
    )


def stl10(method: str) -> Config:
    """STL-10's 100,000 unlabeled images, ResNet-18, AdamW, batches of 512."""
    settings: dict[str, AnySettings] = {
        "simclr": SimCLRSettings(tau=0.07),
        "moco": MoCoSettings(tau=0.07),
        "simsiam": SimSiamSettings(),
        "barlow": BarlowTwinsSettings(projector_last_norm="affine"),
    }
    return Config(
        data=DataSettings(data="stl10"),
        views=ViewSettings(jitter=(0.5, 0.5, 0.5, 0.1), blur_kernel=9),
        backbone=BackboneSettings(backbone="resnet18"),
        method=settings[method],
        optimizer=OptimizerSettings(optimizer="adamw", lr=5e-4, weight_decay=1e-4, final_lr=0.02),
        run=RunSettings(epochs=1000, batch_size=512),
    )


def tinyimagenet(method: str) -> Config:
    """Tiny-ImageNet, ResNet-50 with the small stem, as the paper; the rest as CIFAR."""
    return replace(cifar(method, "tinyimagenet"), backbone=BackboneSettings(backbone="resnet50"))


def imagenet(method: str) -> Config:
    """ImageNet, ResNet-50, as the original repositories have it."""
    strong = (0.8, 0.8, 0.8, 0.2)
    config = Config(
        data=DataSettings(data="imagenet", workers=8),
        backbone=BackboneSettings(backbone="resnet50"),
        # MoCo shuffles images among processes instead of sharing their statistics.
        hardware=HardwareSettings(sync_norm=method != "moco"),
    )
    if method == "simclr":
        return replace(
            config,
            views=ViewSettings(jitter=strong),
            method=SimCLRSettings(
                tau=0.1,
                projector=(2048, 128),
                projector_norm=True,
                projector_bias=False,
                projector_last_norm="affine",
            ),
            optimizer=OptimizerSettings(
                optimizer="lars", lr=0.3, lr_scaling="linear", weight_decay=1e-6, warmup_epochs=10
            ),
            run=RunSettings(epochs=200, batch_size=4096),
        )
    if method == "moco":
        return replace(
            config,
            views=ViewSettings(crop_scale=(0.2, 1.0)),
            method=MoCoSettings(
                tau=0.2, queue=65536, momentum=0.999, symmetric=False, projector=(2048, 128)
            ),
            optimizer=OptimizerSettings(lr=0.03, weight_decay=1e-4, decay_norm_and_bias=True),
            run=RunSettings(epochs=200, batch_size=256),
        )
    if method == "simsiam":
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
        )
    return replace(
        config,
        views=ViewSettings(
            views="abcdes",
            jitter=(0.4, 0.4, 0.2, 0.1),
            blur_p=(1.0, 0.1),
            solarize_p=(0.0, 0.2),
        ),
        method=BarlowTwinsSettings(
            projector=(8192, 8192, 8192),
            projector_bias=False,
            projector_last_norm="plain",
            lam=0.0051,
        ),
        optimizer=OptimizerSettings(
            optimizer="lars",
            lr=0.2,
            lr_scaling="linear",
            bias_lr_scale=0.024,
            weight_decay=1e-6,
            warmup_epochs=10,
            final_lr=0.001,
        ),
        run=RunSettings(epochs=200, batch_size=2048),
    )


def folder(method: str) -> Config:
    """Pictures of your own: ResNet-18, a common start, not tuned on any set.

    Batch norm keeps projections apart from the first step on, which adaptive temperatures need to
    differ and which SimCLR gains by as published too (docs/results.md, on STL-10).
    """
    settings: dict[str, AnySettings] = {
        "simclr": SimCLRSettings(tau=0.1, projector_last_norm="plain"),
        "moco": MoCoSettings(tau=0.1, queue=4096, projector_last_norm="plain"),
        "simsiam": SimSiamSettings(projector=(1024, 1024), predictor=256),
        "barlow": BarlowTwinsSettings(projector=(1024, 1024)),
    }
    optimizer = OptimizerSettings(
        optimizer="adamw", lr=1e-3, lr_scaling="sqrt", weight_decay=1e-4, warmup_epochs=5
    )
    if method == "simsiam":
        optimizer = OptimizerSettings(lr=0.05, lr_scaling="linear", weight_decay=1e-4)
    return Config(
        data=DataSettings(data="FOLDER"),
        views=ViewSettings(crop_scale=(0.2, 1.0)),
        backbone=BackboneSettings(backbone="resnet18"),
        method=settings[method],
        optimizer=optimizer,
        run=RunSettings(epochs=200, batch_size=256),
    )


def builtin(method: str) -> Config:
    """The built-in patterns on a small machine: a narrow ResNet-10, a minute."""
    settings: dict[str, AnySettings] = {
        "simclr": SimCLRSettings(tau=0.2, projector=(256, 64), projector_norm=True),
        "moco": MoCoSettings(
            tau=0.1, projector=(256, 64), projector_norm=True, queue=512, momentum=0.9
        ),
        "simsiam": SimSiamSettings(projector=(256, 256), predictor=64),
        "barlow": BarlowTwinsSettings(projector=(256, 256)),
    }
    return Config(
        data=DataSettings(data="builtin"),
        views=ViewSettings(crop_scale=(0.3, 1.0), jitter=(0.4, 0.4, 0.4, 0.5), gray_p=0.3),
        backbone=BackboneSettings(backbone="resnet10t", width=0.25, stem="standard"),
        method=settings[method],
        optimizer=OptimizerSettings(optimizer="adamw", lr=5e-3, weight_decay=1e-4),
        run=RunSettings(epochs=30, batch_size=128, probe_every=5, knn_k=20),
    )
