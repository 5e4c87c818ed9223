"""A folder of pictures with planted copies, a run of a second on it, and its curation."""

from pathlib import Path

import pytest

from amcl.curation import curate
from amcl.training import pretrain
from planted_copies import QUICK, plant
from tiny_runs import tiny_vit


@pytest.fixture(scope="session")
def planted(tmp_path_factory) -> Path:
    """The folder. Do not write into it."""
    return plant(tmp_path_factory.mktemp("planted") / "pictures")


@pytest.fixture(scope="session")
def trained(planted) -> Path:
    """A trained run. Do not write into it, but for its cache of features."""
    run = planted.parent / "run"
    pretrain(tiny_vit("simclr", planted, epochs=1), run)
    return run


@pytest.fixture(scope="session")
def curation(trained, planted):
    """A curation of the folder. Do not write into it."""
    out = planted.parent / "curation"
    return curate(trained, str(planted), out, QUICK, workers=0, accelerator="cpu")
