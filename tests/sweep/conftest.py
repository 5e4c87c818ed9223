"""Sweeps of runs that take a moment."""

import pytest

from amcl.config import Config
from amcl.results import Record
from amcl.sweep import runs as module
from factories import small_config


@pytest.fixture
def tiny(few_images) -> Config:
    """One epoch of two steps of a tiny network."""
    options = {"projector": (16, 8), "epochs": 1, "batch_size": 80, "knn_k": 20}
    return small_config("builtin-simclr", **options)


@pytest.fixture
def trained(monkeypatch) -> list[str]:
    """The names of the runs that were trained, which takes no time here."""
    names = []

    def train_or_resume(config, folder):
        names.append(folder.name)
        folder.mkdir(parents=True, exist_ok=True)
        return Record(name=folder.name, metrics={"knn_validation": 0.5}, epoch=1)

    monkeypatch.setattr(module, "train_or_resume", train_or_resume)
    return names
