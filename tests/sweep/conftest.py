"""Sweeps of runs that take a moment."""

from dataclasses import replace

import pytest

from amcl import recipes
from amcl.backbones import BackboneSettings
from amcl.config import Config


@pytest.fixture
def tiny(few_images) -> Config:
    """One epoch of two steps of a tiny network."""
    config = recipes.recipe("builtin-simclr")
    return replace(
        config,
        backbone=BackboneSettings(name="resnet10t", width=0.25, stem="standard"),
        method=replace(config.method, projector=(16, 8)),
        run=replace(config.run, epochs=1, batch_size=80, knn_k=20),
    )
