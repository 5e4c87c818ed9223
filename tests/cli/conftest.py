"""Runs and pictures for commands."""

import shutil

import numpy as np
import pytest
from PIL import Image

from amcl.cli import main
from evaluations import QUICK
from factories import few_builtin_images


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Two seeds of a tiny run on the images of `few_images`. Do not write into them."""
    folder = tmp_path_factory.mktemp("runs")
    with few_builtin_images():
        for seed in ("0", "1"):
            args = ["--seed", seed, "--out", str(folder / f"seed-{seed}")]
            assert main(["pretrain", "--data", "builtin", *QUICK, *args]) == 0
    return folder


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    """A copy of the first run, as `run` in the working folder."""
    shutil.copytree(trained / "seed-0", tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


@pytest.fixture
def pictures(tmp_path):
    """Two classes of pictures in train/ and test/, dark and light."""
    generator = np.random.default_rng(0)
    for split, n in (("train", 12), ("test", 4)):
        for number, name in enumerate(("dark", "light")):
            folder = tmp_path / "pictures" / split / name
            folder.mkdir(parents=True)
            for i in range(n):
                pixels = generator.integers(100, size=(40, 50, 3)) + 150 * number
                Image.fromarray(pixels.astype("uint8")).save(folder / f"{i}.png")
    return tmp_path / "pictures"
