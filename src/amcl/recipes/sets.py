"""Data sets of recipes: network, optimizer, batches and epochs that methods start from."""

from dataclasses import replace
from typing import Any, Literal

from amcl.backbones import BackboneSettings
from amcl.config import PLACEHOLDER, Config, DataSettings, OptimizerSettings, RunSettings
from amcl.views import ViewSettings

SETS = ("builtin", "folder", "cifar10", "cifar100", "stl10", "tinyimagenet", "imagenet")
TINY, SMALL, BASE, LARGE = (
    f"vit_{size}_patch16_224" for size in ("tiny", "small", "base", "large")
)


def base(data: str, network: Literal["resnet", "vit"]) -> Config:
    """Return the configuration that recipes of a data set and a family of networks start from."""
    return resnet(data) if network == "resnet" else vit(data)


def resnet(data: str) -> Config:
    """Return the configuration that recipes with a ResNet start from."""
    if data == "builtin":
        return Config(
            data=DataSettings(source="builtin"),
            views=ViewSettings(crop_scale=(0.3, 1.0), jitter=(0.4, 0.4, 0.4, 0.5), gray_p=0.3),
            backbone=BackboneSettings(name="resnet10t", width=0.25, stem="standard"),
            optimizer=OptimizerSettings(name="adamw", lr=5e-3, weight_decay=1e-4),
            run=RunSettings(epochs=30, batch_size=128, probe_every=5, knn_k=20),
        )
    if data == "folder":  # not tuned on any set
        return Config(
            data=DataSettings(source=PLACEHOLDER),
            views=ViewSettings(crop_scale=(0.2, 1.0)),
            backbone=BackboneSettings(name="resnet18"),
            optimizer=OptimizerSettings(
                name="adamw", lr=1e-3, lr_scaling="sqrt", weight_decay=1e-4, warmup_epochs=5
            ),
            run=RunSettings(epochs=200, batch_size=256),
        )
    if data == "stl10":
        return Config(
            data=DataSettings(source="stl10"),
            views=ViewSettings(jitter=(0.5, 0.5, 0.5, 0.1), blur_kernel=9),
            backbone=BackboneSettings(name="resnet18"),
            optimizer=OptimizerSettings(name="adamw", lr=5e-4, weight_decay=1e-4, final_lr=0.02),
            run=RunSettings(epochs=1000, batch_size=512),
        )
    if data == "imagenet":
        return Config(
            data=DataSettings(source="imagenet", workers=8),
            backbone=BackboneSettings(name="resnet50"),
            run=RunSettings(epochs=200, batch_size=256),
        )
    # The baselines of the paper: CIFAR with ResNet-18, Tiny-ImageNet with ResNet-50.
    network = "resnet50" if data == "tinyimagenet" else "resnet18"
    return Config(
        data=DataSettings(source=data),
        backbone=BackboneSettings(name=network),
        optimizer=OptimizerSettings(
            name="sgd", lr=0.06, weight_decay=5e-4, decay_norm_and_bias=True
        ),
        run=RunSettings(epochs=1000 if data == "cifar100" else 800, batch_size=512),
    )


def vit(data: str) -> Config:
    """Return the configuration that recipes with a vision transformer start from.

    On small sets, which no paper has, the networks are small and the rest follows ImageNet's.
    """
    if data == "builtin":
        # In color, a vision transformer tells pictures apart by that and is slow to learn patterns.
        return Config(
            data=DataSettings(source="builtin"),
            views=ViewSettings(crop_scale=(0.3, 1.0), jitter=(0.4, 0.4, 0.4, 0.5), gray_p=1.0),
            backbone=BackboneSettings(name="test_vit", pool="mean"),
            optimizer=OptimizerSettings(
                name="adamw",
                lr=2e-3,
                weight_decay=0.05,
                adam_betas=(0.9, 0.95),
                warmup_epochs=0.5,
            ),
            run=RunSettings(epochs=12, batch_size=64, probe_every=3, knn_k=20),
        )
    networks = {
        "folder": (SMALL, RunSettings(epochs=400, batch_size=256)),
        "cifar10": (TINY, RunSettings(epochs=800, batch_size=512)),
        "cifar100": (TINY, RunSettings(epochs=1000, batch_size=512)),
        "stl10": (SMALL, RunSettings(epochs=1000, batch_size=512)),
        "tinyimagenet": (BASE, RunSettings(epochs=800, batch_size=512)),
        "imagenet": (BASE, RunSettings(epochs=300, batch_size=4096)),
    }
    backbone, run = networks[data]
    config = Config(
        data=DataSettings(source=PLACEHOLDER if data == "folder" else data),
        views=two_sided_views(),
        backbone=BackboneSettings(name=backbone),
        optimizer=OptimizerSettings(
            name="adamw",
            lr=1.5e-4,
            lr_scaling="linear",
            weight_decay=0.1,
            warmup_epochs=20 if data == "folder" else 40,
        ),
        run=run,
    )
    workers = 8 if data == "imagenet" else config.data.workers
    return replace(config, data=replace(config.data, workers=workers))


def two_sided_views() -> ViewSettings:
    """Return the views of BYOL and MoCo v3: blur and solarize differ between the two."""
    return ViewSettings(
        operations="abcdes", jitter=(0.4, 0.4, 0.2, 0.1), blur_p=(1.0, 0.1), solarize_p=(0.0, 0.2)
    )


def decoder(data: str) -> dict[str, Any]:
    """Return the decoder of masked methods: its width, depth and heads."""
    sizes = {
        "builtin": (64, 1, 4),
        "cifar10": (192, 4, 3),
        "cifar100": (192, 4, 3),
        "stl10": (256, 4, 8),
        "folder": (256, 4, 8),
    }
    width, depth, heads = sizes.get(data, (512, 8, 16))
    return {"decoder_dim": width, "decoder_depth": depth, "decoder_heads": heads}


def hidden(data: str) -> int:
    """Return the width of hidden layers in the projectors and predictors of MoCo v3 and CAN."""
    widths = {"cifar10": 1024, "cifar100": 1024, "stl10": 2048, "folder": 2048}
    return widths.get(data, 4096)
