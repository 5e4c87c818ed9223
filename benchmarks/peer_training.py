"""Training by other libraries, each with its own transforms, head, loss, optimizer and loop.

lightly, solo-learn and stable-pretraining train a network that is given to them, on images in
memory, as their own example or configuration for CIFAR-10 does. They call `on_start` before the
first batch, and after each step `on_step` with the network and the number of images so far; an
error that it raises ends training.
"""

# Scripts that measure memory import this file before their arms do: it imports nothing heavy.
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from PIL import Image

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn

    from amcl.backbones import Backbone, BackboneSettings
    from amcl.config import Config
    from amcl.data import DataSet

SIZE = 32
CLASSES = 10
OnStart = Callable[[], None]
OnStep = Callable[["nn.Module", int], None]


def nothing() -> None:
    """Do nothing."""


class Pictures:
    """Images as torchvision's CIFAR-10 gives them: PIL, made from an array (N, H, W, 3)."""

    def __init__(self, images: "np.ndarray[Any, Any]", transform: Any) -> None:
        self.images = images
        self.transform = transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.fromarray(self.images[index]))


class LabeledPictures(Pictures):
    """The same with classes, for libraries that watch the accuracy of a classifier."""

    def __init__(self, images: "np.ndarray[Any, Any]", labels: Any, transform: Any = None) -> None:
        super().__init__(images, transform or (lambda picture: picture))
        self.labels = labels

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index), int(self.labels[index])


def pictures_of(data: "DataSet") -> "np.ndarray[Any, Any]":
    """Return the images to train on as an array (N, H, W, 3)."""
    import torch

    pixels = data.train[torch.arange(len(data.train))]
    return pixels.permute(0, 2, 3, 1).contiguous().numpy()


def first_backbone(settings: "BackboneSettings", seed: int) -> "Backbone":
    """Return a network with the first weights of a run of amcl with this seed."""
    import torch

    from amcl.backbones import Backbone
    from amcl.seeds import seed_of

    torch.manual_seed(seed_of(seed, "weights"))
    return Backbone(settings, SIZE)


def knn_of(
    network: "nn.Module",
    data: "DataSet",
    normalization: tuple[Any, Any],
    *,
    bank: int | None = None,
) -> float:
    """Return the kNN accuracy (k = 200) of the probe images against those to compare with.

    Args:
        network: The network, which maps images to features.
        data: Images with a probe.
        normalization: Mean and standard deviation that the network was trained with.
        bank: Number of images to compare with, always the same ones; None for all.
    """
    from amcl.data.split import sample
    from amcl.metrics.features import Transform, features_of
    from amcl.metrics.knn import knn_accuracy
    from amcl.seeds import seed_of

    if data.probe is None:
        raise RuntimeError("a set to evaluate on has labels")
    mean, std = map(tuple, normalization)
    transform = Transform(image_size=SIZE, mean=mean, std=std)
    compared, queries = data.probe.bank, data.probe.queries
    if bank is not None:
        compared = compared.subset(sample(len(compared.labels), bank, seed_of(0, "bank")))
    known, asked = (
        features_of(network, part.images, transform, show_progress=False).values
        for part in (compared, queries)
    )
    return knn_accuracy(known, compared.labels, asked, queries.labels, k=200)


def normalization_of(library: str, data: "DataSet") -> tuple[Any, Any]:
    """Return the mean and standard deviation of the colors that a library trains with."""
    if library == "lightly":
        from lightly.transforms.utils import IMAGENET_NORMALIZE

        return IMAGENET_NORMALIZE["mean"], IMAGENET_NORMALIZE["std"]
    if library == "amcl":
        return data.mean, data.std
    return (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # CIFAR-10's, to four digits


def train_amcl(config: "Config", *, on_step: OnStep, on_start: OnStart = nothing) -> None:
    """Train as `amcl pretrain` does."""
    from amcl.training import pretrain
    from amcl.training.trainer import Trainer

    original = Trainer.train_step

    def train_step(trainer: Any, *args: Any, **keywords: Any) -> Any:
        if trainer.step == 0:
            on_start()
        result = original(trainer, *args, **keywords)
        on_step(trainer.task.method.trained_backbone, trainer.step * trainer.task.batch_size)
        return result

    Trainer.train_step = train_step  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as out:
            pretrain(config, Path(out) / "run")
    finally:
        Trainer.train_step = original  # type: ignore[method-assign]


def lightly_steps(
    network: "nn.Module", head: "nn.Module", criterion: Any, loader: Iterable[Any], optimizer: Any
) -> Iterator["torch.Tensor"]:
    """Train an epoch as lightly's examples do, and yield the loss of each step."""
    for view0, view1 in loader:
        loss = criterion(head(network(view0)), head(network(view1)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss.detach()


def loader_of(pictures: Any, batch_size: int, workers: int) -> Any:
    """Return a DataLoader as in all examples, but that its workers live on between epochs."""
    import torch

    return torch.utils.data.DataLoader(
        pictures,
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )


@dataclass(frozen=True, kw_only=True)
class LightlySettings:
    """Settings of SimCLR by lightly's transforms, head and loss."""

    strength: float = 1.0
    """Strength of the color jitter (`cj_strength`)."""
    batch_size: int = 256
    temperature: float = 0.5
    optimizer: Literal["sgd", "adamw"] = "sgd"
    lr: float = 0.06
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: Literal["constant", "epochs", "steps"] = "constant"
    """A cosine that falls after each epoch or after each step, or none."""


LIGHTLY_EXAMPLE = LightlySettings()
"""lightly's example of SimCLR on CIFAR-10 (examples/pytorch/simclr.py)."""
LIGHTLY_BENCHMARK = LightlySettings(
    strength=0.5, batch_size=128, momentum=0.9, weight_decay=5e-4, schedule="epochs"
)
"""lightly's benchmark of CIFAR-10 (getting_started/benchmarks/cifar10_benchmark.py)."""


def train_lightly(
    network: "Backbone",
    images: "np.ndarray[Any, Any]",
    settings: LightlySettings,
    *,
    epochs: int,
    workers: int,
    on_step: OnStep,
    on_start: OnStart = nothing,
) -> None:
    """Train SimCLR by lightly's transform, head, loss and loop."""
    import torch
    from lightly.loss import NTXentLoss  # type: ignore[import-untyped]
    from lightly.models.modules import heads  # type: ignore[import-untyped]
    from lightly.transforms.simclr_transform import SimCLRTransform

    transform = SimCLRTransform(input_size=SIZE, gaussian_blur=0.0, cj_strength=settings.strength)
    head = heads.SimCLRProjectionHead(network.dim, 512, 128)
    loader = loader_of(Pictures(images, transform), settings.batch_size, workers)
    parameters = [*network.parameters(), *head.parameters()]
    decay = {"lr": settings.lr, "weight_decay": settings.weight_decay}
    optimizer: Any
    if settings.optimizer == "adamw":
        optimizer = torch.optim.AdamW(parameters, **decay)
    else:
        optimizer = torch.optim.SGD(parameters, momentum=settings.momentum, **decay)
    lengths = {"constant": 1, "epochs": epochs, "steps": epochs * len(loader)}
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, lengths[settings.schedule])
    criterion = NTXentLoss(temperature=settings.temperature)
    step = 0
    on_start()
    for _ in range(epochs):
        for _ in lightly_steps(network, head, criterion, loader, optimizer):
            step += 1
            if settings.schedule == "steps":
                cosine.step()
            on_step(network, step * settings.batch_size)
        if settings.schedule == "epochs":
            cosine.step()


SOLO_LEARN: dict[str, Any] = {
    "name": "simclr-cifar10",
    "method": "simclr",
    "backbone": {"name": "given"},
    "method_kwargs": {"proj_hidden_dim": 2048, "proj_output_dim": 256, "temperature": 0.2},
    "data": {"dataset": "cifar10", "num_classes": CLASSES}
    | {"num_large_crops": 2, "num_small_crops": 0},
    "optimizer": {
        "name": "lars",
        "batch_size": 256,
        "lr": 0.4,
        "classifier_lr": 0.1,
        "weight_decay": 1e-4,
        "kwargs": {"clip_lr": True, "eta": 0.02, "exclude_bias_n_norm": True, "momentum": 0.9},
    },
    "scheduler": {"name": "warmup_cosine"},
}
"""solo-learn's settings of SimCLR on CIFAR-10 (scripts/pretrain/cifar/simclr.yaml).

The momentum is its default. Of its 1,000 epochs 10 are a warm-up.
"""
SOLO_LEARN_VIEWS: dict[str, Any] = {
    "rrc": {"enabled": True, "crop_min_scale": 0.08, "crop_max_scale": 1.0},
    "color_jitter": {
        "prob": 0.8,
        "brightness": 0.8,
        "contrast": 0.8,
        "saturation": 0.8,
        "hue": 0.2,
    },
    "grayscale": {"prob": 0.2},
    "gaussian_blur": {"prob": 0.5},
    "solarization": {"prob": 0.0},
    "equalization": {"prob": 0.0},
    "horizontal_flip": {"prob": 0.5},
    "crop_size": SIZE,
}
"""Its views (augmentations/symmetric.yaml)."""


def train_solo_learn(
    network: "Backbone",
    images: "np.ndarray[Any, Any]",
    labels: "torch.Tensor",
    *,
    epochs: int,
    warmup_epochs: float,
    workers: int,
    on_step: OnStep,
    on_start: OnStart = nothing,
    on_optimizer: Callable[[Any], None] | None = None,
) -> None:
    """Train SimCLR by solo-learn's method, transforms and optimizer, with its classifier beside.

    Args:
        network: The network.
        images: Images (N, H, W, 3).
        labels: Classes (N,), which only the classifier sees.
        epochs: Passes over the images.
        warmup_epochs: Epochs of the warm-up.
        workers: Processes that make views.
        on_step: Called after each step.
        on_start: Called before the first batch.
        on_optimizer: Called with the optimizer after each step.
    """
    import torch
    from omegaconf import OmegaConf
    from solo.data.pretrain_dataloader import (  # type: ignore[import-not-found]
        FullTransformPipeline,
        NCropAugmentation,
        build_transform_pipeline,
        dataset_with_index,
    )
    from solo.methods import METHODS  # type: ignore[import-not-found]
    from solo.methods.base import BaseMethod  # type: ignore[import-not-found]

    config = OmegaConf.create(SOLO_LEARN)
    config.max_epochs = epochs
    config.scheduler.warmup_epochs = warmup_epochs
    network.num_features = network.dim
    BaseMethod._BACKBONES["given"] = lambda method: network
    model = METHODS["simclr"](config).to(memory_format=torch.channels_last)
    views = build_transform_pipeline("cifar10", OmegaConf.create(SOLO_LEARN_VIEWS))
    transform = FullTransformPipeline([NCropAugmentation(views, 2)])
    pictures = dataset_with_index(LabeledPictures)(images, labels, transform)
    batch_size = config.optimizer.batch_size

    def after_step(images_seen: int) -> None:
        if on_optimizer is not None:
            on_optimizer(model.optimizers().optimizer)
        on_step(network, images_seen)

    loader = loader_of(pictures, batch_size, workers)
    _fit(model, loader, epochs, batch_size, on_start, after_step)


def train_stable_pretraining(
    network: "Backbone",
    images: "np.ndarray[Any, Any]",
    labels: "torch.Tensor",
    *,
    epochs: int,
    workers: int,
    on_step: OnStep,
    on_start: OnStart = nothing,
) -> None:
    """Train SimCLR as stable-pretraining's benchmarks/cifar10/simclr-resnet18.py, not probed."""
    import stable_pretraining as spt  # type: ignore[import-not-found]
    from stable_pretraining.data import transforms  # type: ignore[import-not-found]
    from stable_pretraining.forward import simclr  # type: ignore[import-not-found]
    from torch import nn

    batch_size = 256
    view = transforms.Compose(
        transforms.RGB(),
        transforms.RandomResizedCrop((SIZE, SIZE)),
        transforms.RandomHorizontalFlip(p=0.5),
        transforms.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1, p=0.8),
        transforms.RandomGrayscale(p=0.2),
        transforms.ToImage(**spt.data.static.CIFAR10),
    )
    pictures = spt.data.FromTorchDataset(
        LabeledPictures(images, labels),
        names=["image", "label"],
        transform=transforms.MultiViewTransform([view, view]),
    )
    projector = nn.Sequential(
        nn.Linear(network.dim, 2048),
        nn.BatchNorm1d(2048),
        nn.ReLU(inplace=True),
        nn.Linear(2048, 2048),
        nn.BatchNorm1d(2048),
        nn.ReLU(inplace=True),
        nn.Linear(2048, 256),
    )
    model = spt.Module(
        backbone=network,
        projector=projector,
        forward=simclr,
        simclr_loss=spt.losses.NTXEntLoss(temperature=0.5),
        optim={
            "optimizer": {"type": "LARS", "lr": 5, "weight_decay": 1e-6},
            "scheduler": {"type": "LinearWarmupCosineAnnealing"},
            "interval": "epoch",
        },
    )
    loader = loader_of(pictures, batch_size, workers)
    _fit(model, loader, epochs, batch_size, on_start, lambda seen: on_step(network, seen))


def _fit(
    model: Any,
    loader: Any,
    epochs: int,
    batch_size: int,
    on_start: OnStart,
    after_step: Callable[[int], None],
) -> None:
    """Train a module of Lightning with its Trainer, without checkpoints and logs."""
    import lightning as L

    class AfterStep(L.Callback):
        step = 0

        def on_train_start(self, *args: Any) -> None:
            on_start()

        def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
            self.step += 1
            after_step(self.step * batch_size)

    with tempfile.TemporaryDirectory() as folder:
        trainer = L.Trainer(
            accelerator="cpu",
            max_epochs=epochs,
            callbacks=[AfterStep()],
            default_root_dir=folder,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )
        # Where stable-pretraining is installed, it adds its callbacks to all Trainers.
        library = type(model).__module__.partition(".")[0]
        trainer.callbacks = [
            callback
            for callback in trainer.callbacks
            if type(callback).__module__.partition(".")[0] in (__name__, "lightning", library)
        ]
        trainer.fit(model, loader)
