"""Vision transformers: MAE, CAN, MoCo v3 and LGP, as their papers and repositories have them.

On small sets, which no paper has, the networks are small and the rest follows ImageNet's.
"""

from dataclasses import replace
from typing import Any

from amcl.backbones import BackboneSettings, Pool
from amcl.methods import AnySettings, CANSettings, LGPSettings, MAESettings, MoCoV3Settings
from amcl.training.config import Config, DataSettings, HardwareSettings, RunSettings
from amcl.training.optimizers import OptimizerSettings
from amcl.views import ViewSettings

METHODS = ("mae", "can", "mocov3", "lgp")

TINY, SMALL, BASE, LARGE = (
    f"vit_{size}_patch16_224" for size in ("tiny", "small", "base", "large")
)


def imagenet(method: str) -> Config:
    """ImageNet, ViT-B/16, as the original repositories have it."""
    epochs = {"mae": 800, "can": 800, "mocov3": 300, "lgp": 300}
    config = _start(method, "imagenet", BASE, RunSettings(epochs=epochs[method], batch_size=4096))
    # MoCo v3's heads normalize over the whole batch.
    hardware = HardwareSettings(sync_norm=method in ("mocov3", "lgp"))
    return replace(config, data=replace(config.data, workers=8), hardware=hardware)


def imagenet_large(method: str) -> Config:
    """ImageNet, ViT-L/16; LGP is pulled to the weights of MAE, in batches of its scripts' size."""
    config = imagenet(method)
    settings, run = config.method, config.run
    if isinstance(settings, LGPSettings):
        settings, run = replace(settings, pull=1e-5), replace(run, batch_size=2080)
    backbone = replace(config.backbone, backbone=LARGE)
    return replace(config, backbone=backbone, method=settings, run=run)


def tinyimagenet(method: str) -> Config:
    """Tiny-ImageNet, ViT-B with patches of 8 pixels, 800 epochs, as the paper."""
    return _start(method, "tinyimagenet", BASE, RunSettings(epochs=800, batch_size=512))


def cifar(method: str, data: str = "cifar10") -> Config:
    """CIFAR, ViT-Ti with patches of 4 pixels; not in the paper."""
    run = RunSettings(epochs=1000 if data == "cifar100" else 800, batch_size=512)
    return _start(method, data, TINY, run, decoder=(192, 4, 3), hidden=1024)


def stl10(method: str) -> Config:
    """STL-10's 100,000 unlabeled images, ViT-S/16; not in the paper."""
    run = RunSettings(epochs=1000, batch_size=512)
    return _start(method, "stl10", SMALL, run, decoder=(256, 4, 8), hidden=2048)


def folder(method: str) -> Config:
    """Pictures of your own: ViT-S/16, a common start, not tuned on any set."""
    run = RunSettings(epochs=400, batch_size=256)
    config = _start(method, "FOLDER", SMALL, run, decoder=(256, 4, 8), hidden=2048)
    return replace(config, optimizer=replace(config.optimizer, warmup_epochs=20))


def builtin(method: str) -> Config:
    """The built-in patterns on a small machine: timm's smallest vision transformer, minutes.

    CAN leans on its contrastive term: these patterns are quickly told apart and slowly drawn.
    """
    decoder = _decoder(64, 1, 4)
    heads: dict[str, Any] = {
        "projector": (256, 64),
        "tau": 0.2,
    }
    moco: dict[str, Any] = {**heads, "momentum": 0.9, "predictor": 256}
    settings: dict[str, AnySettings] = {
        "mae": MAESettings(**decoder),
        "can": CANSettings(**decoder, **heads, contrast_weight=0.3),
        "mocov3": MoCoV3Settings(**moco),
        "lgp": LGPSettings(**decoder, **moco, thirds=(0.5, 0.5, 1.0), mae_epochs=1, mae_lr=2e-3),
    }
    # In color, a vision transformer tells pictures apart by that and learns no pattern for long.
    views = ViewSettings(crop_scale=(0.3, 1.0), jitter=(0.4, 0.4, 0.4, 0.5), gray_p=1.0)
    return Config(
        data=DataSettings(data="builtin"),
        views=_views(method) if method == "mae" else views,
        backbone=BackboneSettings(backbone="test_vit", pool="mean"),
        method=settings[method],
        optimizer=OptimizerSettings(
            optimizer="adamw",
            lr=2e-3,
            weight_decay=0.05,
            adam_betas=(0.9, 0.95),
            warmup_epochs=0.5,
        ),
        run=RunSettings(epochs=12, batch_size=64, probe_every=3, knn_k=20),
    )


def _start(
    method: str,
    data: str,
    backbone: str,
    run: RunSettings,
    decoder: tuple[int, int, int] = (512, 8, 16),
    hidden: int = 4096,
) -> Config:
    """A method as published, on a network and a set.

    decoder: its width, depth and heads; hidden: widths within projectors and predictors.
    """
    pool: Pool = "mean" if method == "can" else "auto"
    rate = 2.5e-4 if method == "can" else 1.5e-4
    decay, betas = (0.05, (0.9, 0.95)) if method in ("mae", "can") else (0.1, (0.9, 0.999))
    masked = _decoder(*decoder)
    settings: dict[str, AnySettings] = {
        "mae": MAESettings(**masked),
        "can": CANSettings(**masked, projector=(hidden, hidden, 128)),
        "mocov3": MoCoV3Settings(projector=(hidden, hidden, 256), predictor=hidden),
        "lgp": LGPSettings(
            **masked, projector=(hidden, hidden, 256), predictor=hidden, mae_epochs=800
        ),
    }
    return Config(
        data=DataSettings(data=data),
        views=_views(method),
        backbone=BackboneSettings(backbone=backbone, pool=pool),
        method=settings[method],
        optimizer=OptimizerSettings(
            optimizer="adamw",
            lr=rate,
            lr_scaling="linear",
            weight_decay=decay,
            adam_betas=betas,
            decay_norm_and_bias=method == "mocov3",
            warmup_epochs=40,
        ),
        run=run,
    )


def _decoder(dim: int, depth: int, heads: int) -> dict[str, Any]:
    return {"decoder_dim": dim, "decoder_depth": depth, "decoder_heads": heads}


def _views(method: str) -> ViewSettings:
    if method == "mae":
        return ViewSettings(views="ae", crop_scale=(0.2, 1.0))
    if method == "can":
        return ViewSettings(jitter=(0.8, 0.8, 0.8, 0.2))
    return ViewSettings(
        views="abcdes",
        jitter=(0.4, 0.4, 0.2, 0.1),
        blur_p=(1.0, 0.1),
        solarize_p=(0.0, 0.2),
    )
