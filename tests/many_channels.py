"""Data sets of images of any number of channels, in memory, in the place of those in files."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch

from amcl import recipes
from amcl.config import Config
from amcl.config.fields import with_values
from amcl.data import DataSet, Labeled, MemoryImages
from amcl.data.images import Probe
from amcl.data.load import AllImages
from amcl.views.channels import FITTED

SIZE = 16


def striped(
    channels: int, dtype: torch.dtype = torch.uint16, n: int = 40, seed: int = 0, first: int = 0
) -> Labeled:
    """Noise with stripes along one side or the other, its class, in a part of the range."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 2
    values = 0.1 * torch.rand(n, channels, SIZE, SIZE, generator=generator)
    phase = torch.randint(8, (n, 1), generator=generator)
    stripes = ((torch.arange(SIZE) + phase) // 4 % 2).float()[:, None].expand(-1, SIZE, -1)
    pattern = torch.where(labels.bool()[:, None, None], stripes, stripes.mT)
    strength = torch.linspace(1, 2, channels) * (torch.arange(channels) >= first)
    values += 0.1 * pattern[:, None] * strength[:, None, None]
    if dtype != torch.float32:
        values = (values * torch.iinfo(dtype).max).to(dtype)
    return Labeled(MemoryImages(values), labels)


def data_set(
    channels: int, dtype: torch.dtype = torch.uint16, n: int = 40, first: int = 0
) -> DataSet:
    """Striped images, and as many to probe with; channels before the `first` have no stripes."""
    train, test = (striped(channels, dtype, n, seed, first) for seed in (0, 1))
    top = 1 if dtype == torch.float32 else torch.iinfo(dtype).max
    values = train.images[torch.arange(n)].float() / top
    return DataSet(
        name="stripes",
        train=train.images,
        labels=train.labels,
        probe=Probe(train, test, ("along", "across"), "validation"),
        image_size=SIZE,
        mean=tuple(values.mean((0, 2, 3)).tolist()),
        std=tuple(values.std((0, 2, 3)).tolist()),
    )


@contextmanager
def in_place_of_files(data: DataSet) -> Iterator[None]:
    """Every command reads these images, whatever `--data` names."""
    names = [f"images/{index}" for index in range(len(data.train))]
    everything = AllImages(data.train, names, [], [])
    with pytest.MonkeyPatch.context() as patch:
        for module in ("training.pretrain", "analysis.run", "analysis.cost.count"):
            patch.setattr(import_module(f"amcl.{module}"), "load_data", lambda *args: data)
        build = import_module("amcl.evaluation.build")
        patch.setattr(build, "load_dataset", lambda *args, **more: data)
        for module in (
            "evaluation.embed",
            "evaluation.predict",
            "curation.curate",
            "report.curation.page",
        ):
            reads = import_module(f"amcl.{module}")
            patch.setattr(reads, "load_all_images", lambda *args, **more: everything)
        yield


def config_of(method: str = "simclr", **values: Any) -> Config:
    """A small run on the images, whose settings are as a command line has them."""
    more: dict[str, Any] = {"queue": 40} if method in ("moco", "nnclr") else {}
    if method == "dino":
        more = {"local_crops": 2, "prototypes": 32}
    config = recipes.default("builtin", method)
    config = replace(config, run=replace(config.run, fit=FITTED))
    small = {"epochs": 1, "batch_size": 20, "width": 0.125, "probe_every": 1, "warmup_epochs": 0.0}
    return with_values(config, small | more | values)
