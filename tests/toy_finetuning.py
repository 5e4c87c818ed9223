"""Colored images, small networks and settings for fine-tuning."""

from dataclasses import replace

import torch
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.data import Labeled, MemoryImages
from amcl.evaluation.finetuning import FinetuneSettings
from amcl.evaluation.finetuning.task import FinetuningTask
from amcl.metrics.features import Transform

SIZE = 16
TRANSFORM = Transform(image_size=SIZE, mean=(0.5,) * 3, std=(0.25,) * 3)
COLORS = torch.tensor(
    [(200, 60, 60), (60, 200, 60), (60, 60, 200), (200, 200, 60), (60, 200, 200), (200, 60, 200)]
)
PLAIN = FinetuneSettings(
    epochs=4,
    warmup_epochs=1,
    batch_size=16,
    min_steps=0,
    lr=0.02,
    scratch_lr=0.02,
    layer_decay=1,
    drop_path=0,
    mixup=0,
    cutmix=0,
    erase=0,
)
EVERYTHING = replace(
    PLAIN,
    epochs=3,
    layer_decay=0.8,
    drop_path=0.2,
    mixup=0.8,
    cutmix=1.0,
    erase=0.5,
    views="abcdes",
)


def colors(n, classes=3, seed=0):
    """Noisy images whose class is their color."""
    labels = torch.arange(n) % classes
    noise = torch.randint(
        -50, 50, (n, 3, SIZE, SIZE), generator=torch.Generator().manual_seed(seed)
    )
    pixels = (COLORS[labels].view(n, 3, 1, 1) + noise).clamp(0, 255).to(torch.uint8)
    return Labeled(MemoryImages(pixels), labels)


def resnet(**changes):
    settings = BackboneSettings(**{"name": "resnet10t", "width": 0.125} | changes)
    return Backbone(settings, image_size=SIZE)


def module():
    return nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(48, 8), nn.BatchNorm1d(8))


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def spy_on_steps(monkeypatch, before=lambda step: None):
    """The numbers of the steps that are taken; `before` is called with each."""
    steps, loss = [], FinetuningTask.loss

    def spy(self, model, batch, step, part, watch):
        steps.append(step)
        before(step)
        return loss(self, model, batch, step, part, watch)

    monkeypatch.setattr(FinetuningTask, "loss", spy)
    return steps
