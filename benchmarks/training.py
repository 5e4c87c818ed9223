"""Throughput of pre-training, end to end, against lightly and against the ceiling.

Run with `make bench`, or alone: `python benchmarks/training.py`. Everything is measured in one
process on the same images, network, batch, augmentations and precision, in turns (A B B A …), and
medians are reported, because other work on the machine comes and goes.
"""

import json
import logging
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from lightly.loss import NTXentLoss
from lightly.models.modules import SimCLRProjectionHead
from lightly.transforms import SimCLRTransform
from PIL import Image

from amcl import recipes
from amcl.backbones import Backbone, BackboneSettings
from amcl.checkpoints import read_metrics
from amcl.config import Config
from amcl.data.builtin import builtin
from amcl.methods import SimCLRSettings, make_method
from amcl.temperature import ConstantSettings
from amcl.training import pretrain

RESULTS = Path(__file__).parent / "results"
ROUNDS = 3


def configuration(folder: Path, width: float, batch_size: int, epochs: int) -> Config:
    """Return SimCLR on a folder of 32-pixel images, with all five augmentations."""
    config = recipes.recipe("cifar10-simclr")
    return replace(
        config,
        data=replace(config.data, source=str(folder), probe="none"),
        backbone=BackboneSettings(name="resnet18", width=width),
        run=replace(config.run, epochs=epochs, batch_size=batch_size, probe_every=10**6),
    )


def ours(config: Config) -> float:
    """Return images per second of `amcl pretrain`, from its metrics, without the first epoch."""
    with tempfile.TemporaryDirectory() as out:
        pretrain(config, Path(out) / "run")
        rows = [r for r in read_metrics(Path(out) / "run") if r["kind"] == "epoch"]
    return statistics.median(row["images_per_second"] for row in rows[1:])


class Pictures(torch.utils.data.Dataset):
    """Images in memory as torchvision's CIFAR-10 has them: PIL, made from an array."""

    def __init__(self, images: np.ndarray, transform: SimCLRTransform) -> None:
        self.images = images
        self.transform = transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int):
        return self.transform(Image.fromarray(self.images[index]))


def lightly(images: np.ndarray, width: float, batch_size: int, epochs: int) -> float:
    """Return images per second of lightly's SimCLR example, with 2 workers."""
    transform = SimCLRTransform(
        input_size=32, cj_strength=0.5, cj_bright=0.8, cj_contrast=0.8, cj_sat=0.8, cj_hue=0.2
    )
    loader = torch.utils.data.DataLoader(
        Pictures(images, transform),
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=2,
        persistent_workers=True,
    )
    settings = BackboneSettings(name="resnet18", width=width)
    backbone = Backbone(settings, image_size=32)
    head = SimCLRProjectionHead(backbone.dim, 512, 128)
    criterion = NTXentLoss()
    optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.06)
    rates = []
    for _ in range(epochs):
        start = time.perf_counter()
        for view0, view1 in loader:
            loss = criterion(head(backbone(view0)), head(backbone(view1)))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        seconds = time.perf_counter() - start
        rates.append(len(loader) * batch_size / seconds)
    return statistics.median(rates[1:])


def ceiling(width: float, batch_size: int, steps: int) -> float:
    """Return images per second of forward, backward and step alone, on one batch of noise."""
    torch.manual_seed(0)
    backbone = Backbone(BackboneSettings(name="resnet18", width=width), image_size=32)
    method = make_method(SimCLRSettings(temperature=ConstantSettings(tau=0.5)), backbone)
    method = method.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(method.parameters(), lr=0.06, momentum=0.9)
    views = torch.randn(2 * batch_size, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    rates = []
    for _ in range(steps):
        start = time.perf_counter()
        method(views.split(batch_size)).backward()
        optimizer.step()
        optimizer.zero_grad()
        rates.append(batch_size / (time.perf_counter() - start))
    return statistics.median(rates[1:])


def in_turns(first, second) -> dict[str, float | list[float]]:
    """Return the rates of both, measured in turns, and the ratio of their medians."""
    rates: dict[str, list[float]] = {"first": [], "second": []}
    for turn in range(ROUNDS):
        pair = [("first", first), ("second", second)]
        for name, measure in pair if turn % 2 == 0 else reversed(pair):
            rates[name].append(round(measure(), 1))
    one = statistics.median(rates["first"])
    two = statistics.median(rates["second"])
    return {**rates, "median_first": one, "median_second": two, "ratio": round(one / two, 3)}


def measure() -> dict:
    """Return all figures."""
    logging.disable(logging.INFO)
    train = builtin().train
    pixels = train[torch.arange(1024)].permute(0, 2, 3, 1).contiguous().numpy()
    with tempfile.TemporaryDirectory() as scratch:
        narrow = Path(scratch) / "narrow"
        full = Path(scratch) / "full"
        for folder, count in ((narrow, 1024), (full, 256)):
            folder.mkdir()
            for i in range(count):
                Image.fromarray(pixels[i]).save(folder / f"{i:05d}.png")
        quarter = configuration(narrow, 0.25, batch_size=256, epochs=4)
        whole = configuration(full, 1.0, batch_size=64, epochs=3)
        return {
            "threads": torch.get_num_threads(),
            "against lightly, ResNet-18 ×¼, batch 256": in_turns(
                lambda: ours(quarter), lambda: lightly(pixels, 0.25, 256, epochs=4)
            ),
            "against the ceiling, ResNet-18, batch 64": in_turns(
                lambda: ours(whole), lambda: ceiling(1.0, 64, steps=9)
            ),
        }


def write(figures: dict) -> None:
    """Write the figures as JSON and as a table."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "training.json").write_text(json.dumps(figures, indent=2) + "\n")
    lines = [
        "# Throughput of pre-training",
        "",
        f"SimCLR, 32 pixels, five augmentations, float32, a CPU with {figures['threads']} threads. "
        "Images per second (two views each), end to end; every turn is listed. Repeat with "
        "`python benchmarks/training.py`.",
        "",
        "| | amcl | other | ratio |",
        "|---|---|---|---|",
    ]
    for name, row in figures.items():
        if isinstance(row, dict):
            lines.append(
                f"| {name} | {row['median_first']} ({', '.join(map(str, row['first']))}) | "
                f"{row['median_second']} ({', '.join(map(str, row['second']))}) | "
                f"{row['ratio']} |"
            )
    (RESULTS / "training.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    write(measure())
