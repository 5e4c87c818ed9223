"""Runs of a second: pictures of noise, a tiny vision transformer, stops, what a command takes."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from amcl import recipes, signals
from amcl.backbones import BackboneSettings
from amcl.checkpoints import read_metrics
from amcl.checkpoints.files import load_checkpoint
from amcl.config import Config
from amcl.methods import HeadSettings, Method
from amcl.methods.masked import MaskedSettings
from factories import change

TIMES = ("images_per_second", "data_wait")
"""Metrics that depend on how fast the machine is."""


def picture_folder(path: Path, count: int = 40, size: int = 32) -> Path:
    path.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    for i in range(count):
        pixels = torch.randint(256, (size, size, 3), dtype=torch.uint8, generator=generator)
        Image.fromarray(pixels.numpy()).save(path / f"{i:03d}.png")
    return path


def tiny_vit(method: str, folder: Path, **run: Any) -> Config:
    """The AMCL form of a method, if it has heads: two epochs, in each a step for every 8 images."""
    config = recipes.default(str(folder), method)
    changed: dict[str, Any] = {}
    if isinstance(config.method, HeadSettings):
        changed |= {"heads": 2, "temperature": "adaptive", "projector": (16, 8)}
    if isinstance(config.method, MaskedSettings):
        changed |= {"decoder_dim": 8, "decoder_depth": 1, "decoder_heads": 2}
    if hasattr(config.method, "predictor"):
        changed["predictor"] = 16
    if hasattr(config.method, "prototypes"):
        changed |= {"prototypes": 32, "teacher_tau_warmup": 2, "prototype_freeze": 1.0}
    if method == "lgp":
        changed |= {"mae_epochs": 2, "mae_lr": 1e-3, "pull": 1e-4}
    settings = {"epochs": 2, "batch_size": 8, "probe_every": 1, "log_every": 1, **run}
    return replace(
        config,
        backbone=BackboneSettings(name="test_vit", pool="mean"),
        data=replace(config.data, workers=0, image_size=16),
        method=change(config.method, **changed),
        optimizer=replace(config.optimizer, warmup_epochs=0.0, lr_scaling="none", lr=1e-3),
        run=replace(config.run, **settings),
    )


def interrupt_at(monkeypatch: pytest.MonkeyPatch, step: int, number: int = signal.SIGINT) -> None:
    """Send this process a signal during a step, as Ctrl-C would."""
    seen = {"steps": 0}
    plain = Method.__call__

    def call(self, *args, **kwargs):
        seen["steps"] += 1
        if seen["steps"] == step:
            os.kill(os.getpid(), number)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Method, "__call__", call)


@contextmanager
def process_kept() -> Iterator[dict[int, Any]]:
    """Restore streams and handlers of signals after a command that takes them; yields handlers."""
    handlers = {number: signal.getsignal(number) for number in (*signals.STOP, *signals.SAVE)}
    streams = sys.stdin, sys.stdout, sys.stderr
    try:
        yield handlers
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, handler in handlers.items():
            signal.signal(number, handler)


def assert_same_run(first: Path, second: Path) -> None:
    """Weights, queue, φ, optimizer, backbone and metrics are equal, bit for bit."""

    def flat(value, name=""):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from flat(inner, f"{name}/{key}")
        elif isinstance(value, list | tuple):
            for key, inner in enumerate(value):
                yield from flat(inner, f"{name}/{key}")
        else:
            yield name, value

    a, b = (dict(flat(load_checkpoint(run / "checkpoints/last.pt"))) for run in (first, second))
    assert a.keys() == b.keys()
    for name, value in a.items():
        equal = torch.equal(value, b[name]) if torch.is_tensor(value) else value == b[name]
        assert equal, name
    assert (first / "backbone.safetensors").read_bytes() == (
        second / "backbone.safetensors"
    ).read_bytes()

    def rows(run):
        return [{k: v for k, v in r.items() if k not in TIMES} for r in read_metrics(run)]

    assert rows(first) == rows(second)


def quiet(line: str) -> None:
    """Take a line of progress and show it to nobody."""
