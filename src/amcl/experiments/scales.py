"""Scales: sizes of the data, networks and training of experiments."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal

from amcl.analysis import PairSettings
from amcl.backbones import BackboneSettings
from amcl.config import Config, OptimizerSettings
from amcl.data.named import DATASETS
from amcl.evaluation import (
    DetectionSettings,
    FewLabelsSettings,
    FinetuneSettings,
    KnnSettings,
    LinearSettings,
    UnlabeledSettings,
)
from amcl.evaluation.detection import DetectorSettings
from amcl.methods import MethodSettings
from amcl.recipes import default
from amcl.temperature import ConstantSettings

ScaleName = Literal["smoke", "night", "cpu", "paper"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Size of the data, networks and training of experiments.

    Args:
        name: Name on the command line.
        about: Description.
        seeds: Number of seeds.
        own_data: Whether tables are of the paper's data sets; else of `data`.
        data: Name of the data set.
        shrink: Function that returns a recipe at this scale.
        protocols: Settings of the protocols.
        pairs: Settings of the pairs of views.
        few: Whether axes have a few of their values only.
        detector_patch: Pixels a side of the patches of the vision transformers that detectors start
            from; None for those of the other tables.
    """

    name: ScaleName
    about: str
    seeds: int
    own_data: bool
    data: str
    shrink: Callable[[Config], Config]
    protocols: dict[str, Any]
    pairs: PairSettings
    few: bool = False
    detector_patch: int | None = None

    def config(self, data: str, method: str) -> Config:
        """Return a method as published, on this set, at this scale."""
        return self.shrink(default(data, method))

    def sets(self, *published: str) -> tuple[str, ...]:
        """Return the data sets of a table that has `published` in the paper."""
        return published if self.own_data else (self.data,)


def _with_own_fields(method: MethodSettings, **values: Any) -> MethodSettings:
    """Return the settings of a method with other values, for those of the fields that it has."""
    names = {field.name for field in fields(method)}
    return replace(method, **{name: value for name, value in values.items() if name in names})


def _smoke(config: Config) -> Config:
    """Return the configuration with two steps on a few images, to show that everything works."""
    return replace(
        config,
        data=replace(config.data, subset=64, workers=0),
        method=_with_own_fields(config.method, queue=128, mae_epochs=1),
        run=replace(config.run, epochs=1, batch_size=32, probe_every=1, knn_k=5),
    )


_Tuned = dict[str, tuple[float, dict[str, Any]]]
"""Rate of AdamW and settings of each method as published, by its name."""

_RESNET18: _Tuned = {
    "simclr": (0.008, {"temperature": ConstantSettings(tau=0.1), "projector_last_norm": "plain"}),
    "moco": (
        0.004,
        {
            "temperature": ConstantSettings(tau=0.2),
            "queue": 1024,
            "projector_last_norm": "plain",
        },
    ),
    "simsiam": (
        0.002,
        {"projector": (512, 512), "predictor": 256, "fixed_predictor_rate": False},
    ),
    "barlow": (0.004, {"lam": 0.02, "projector": (512, 512)}),
}
"""What suits ResNet-18 of a quarter of the width in a few hundred steps, by the validation images
of docs/tuning.md. With the recipes' own, made for hundreds of epochs, a gain would be one over an
untuned baseline."""

_SMALL: _Tuned = {
    name: (0.0025 if name == "simsiam" else 0.005, settings)
    for name, (_, settings) in _RESNET18.items()
}
"""The same for ResNet-10 of a quarter of the width with the stem for large images, from the same
page."""


def _short(
    config: Config,
    *,
    network: BackboneSettings,
    patch: int,
    tuned: _Tuned,
    images: int,
    validation: int,
    epochs: int,
    probe_every: int,
) -> Config:
    """Return the configuration with a fixed subset, a narrow network, and a few tuned epochs.

    A vision transformer is timm's smallest, with patches of this many pixels a side.
    """
    method = config.method
    backbone = config.backbone
    optimizer = config.optimizer
    method = _with_own_fields(method, mae_epochs=epochs, mae_lr=1e-3)
    method = _with_own_fields(method, decoder_dim=64, decoder_depth=1, decoder_heads=4)
    if backbone.name.startswith("vit"):
        backbone = replace(backbone, name="test_vit", patch=patch)
        optimizer = replace(optimizer, lr=1e-3, warmup_epochs=2)
    else:
        backbone = replace(backbone, name=network.name, width=network.width, stem=network.stem)
        lr, settings = tuned.get(method.name, (0.004, {}))
        method = replace(method, **settings)
        optimizer = OptimizerSettings(
            name="adamw", lr=lr, weight_decay=1e-4, warmup_epochs=1, decay_norm_and_bias=True
        )
    data = config.data
    if data.source in DATASETS:
        data = replace(data, subset=images, validation=validation)
    return replace(
        config,
        data=data,
        backbone=backbone,
        method=method,
        optimizer=optimizer,
        run=replace(config.run, epochs=epochs, batch_size=256, probe_every=probe_every),
    )


_SHAPES = DetectionSettings(
    data="builtin",
    subset=300,
    image_size=96,
    batch_size=8,
    epochs=50,
    lr=3e-3,
    detector=DetectorSettings(channels=32, samples=32),
)
"""Detectors on drawn shapes: with fewer epochs, they learn nothing."""

SCALES: dict[str, Scale] = {
    s.name: s
    for s in (
        Scale(
            name="smoke",
            about="a few steps on a handful of images: it shows that everything runs, and its "
            "numbers mean nothing",
            seeds=1,
            own_data=False,
            data="builtin",
            shrink=_smoke,
            protocols={
                "knn": KnnSettings(k=5),
                "linear": LinearSettings(epochs=2, min_steps=0, lrs=(0.1, 1.0)),
                "few-labels": FewLabelsSettings(per_class=(2, 4), draws=1),
                "finetune": FinetuneSettings(epochs=1, min_steps=1, warmup_epochs=0.0),
                "unlabeled": UnlabeledSettings(images=40),
                "detect": DetectionSettings(
                    data="builtin",
                    subset=16,
                    image_size=64,
                    batch_size=8,
                    epochs=1,
                    detector=DetectorSettings(channels=16, samples=16),
                ),
            },
            pairs=PairSettings(images=32),
            few=True,
        ),
        Scale(
            name="night",
            about="5,120 images, ResNet-10 of a quarter of the width with the stem for large "
            "images (for vision transformers timm's smallest on 16 patches), 12 epochs, which are "
            "240 steps, baselines tuned for so few. Gains may be compared with the paper's; "
            "accuracies may not",
            seeds=3,
            own_data=False,
            data="cifar10",
            shrink=partial(
                _short,
                network=BackboneSettings(name="resnet10t", width=0.25, stem="standard"),
                patch=8,
                tuned=_SMALL,
                images=5120,
                validation=5000,
                epochs=12,
                probe_every=12,
            ),
            protocols={
                "knn": KnnSettings(k=200),
                "linear": LinearSettings(),
                "few-labels": FewLabelsSettings(),
                "finetune": FinetuneSettings(epochs=10, min_steps=0, warmup_epochs=1.0),
                "detect": _SHAPES,
            },
            pairs=PairSettings(images=500),
        ),
        Scale(
            name="cpu",
            about="a fixed part of the images, ResNet-18 of a quarter of the width (for vision "
            "transformers timm's smallest), 20 epochs, baselines tuned for so few. Gains may be "
            "compared with the paper's; accuracies may not",
            seeds=3,
            own_data=False,
            data="cifar10",
            shrink=partial(
                _short,
                network=BackboneSettings(name="resnet18", width=0.25),
                patch=4,
                tuned=_RESNET18,
                images=5000,
                validation=1000,
                epochs=20,
                probe_every=5,
            ),
            protocols={
                "knn": KnnSettings(k=200),
                "linear": LinearSettings(),
                "few-labels": FewLabelsSettings(),
                "finetune": FinetuneSettings(epochs=10, min_steps=0, warmup_epochs=1.0),
                "detect": _SHAPES,
            },
            pairs=PairSettings(images=500),
            detector_patch=8,
        ),
        Scale(
            name="paper",
            about="the paper's networks and epochs",
            seeds=5,
            own_data=True,
            data="cifar10",
            shrink=lambda config: config,
            protocols={"detect": DetectionSettings(recipe="paper")},
            pairs=PairSettings(images=500),
        ),
    )
}
