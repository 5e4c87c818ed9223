"""One short run that all tests of this folder look at."""

import shutil
from dataclasses import replace

import pytest

from amcl import recipes
from amcl.training import pretrain


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """MoCo with AMCL, one epoch of two steps. Do not write into it: take `run`."""
    config = recipes.recipe("builtin-moco-amcl")
    config = replace(
        config,
        run=replace(config.run, epochs=1, batch_size=1000, keep_every=1),
        backbone=replace(config.backbone, width=0.125),
        method=replace(config.method, queue=2000),
    )
    path = tmp_path_factory.mktemp("runs") / "first"
    pretrain(config, path)
    return path


@pytest.fixture
def run(trained, tmp_path):
    """A copy of the run that a test may change."""
    return shutil.copytree(trained, tmp_path / "run")
