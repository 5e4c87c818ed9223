"""Trained weights are a better start than random ones, and are not forgotten at once."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from amcl import recipes
from amcl.checkpoints import RunFolder, read_metrics
from amcl.config import Config
from amcl.config.fields import with_values
from amcl.training import pretrain
from amcl.training.pretrain import load_data
from amcl.training.start import first_weights, method_to_train
from amcl.training.watch import Watch

STEPS = 12  # of an epoch


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    """Bright digits on dark grounds of random colors, in a folder for each."""
    folder = tmp_path_factory.mktemp("digits")
    source = load_digits()
    generator = np.random.default_rng(0)
    for i, (digit, label) in enumerate(zip(source.images, source.target, strict=True)):
        image = Image.fromarray((digit * 255 / 16).astype("uint8"))
        ink = np.asarray(image.resize((32, 32), Image.Resampling.BICUBIC))[..., None] / 255
        dark, bright = generator.random((2, 3)) / 2
        pixels = ink * (bright + 0.5) + (1 - ink) * dark
        path = folder / str(label) / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray((pixels * 255).astype("uint8")).save(path)
    return folder


def config_on(folder: Path) -> Config:
    """The built-in set's recipe of SimCLR with AMCL, on the digits."""
    config = recipes.recipe("builtin-simclr-amcl")
    config = replace(config, data=replace(config.data, source=str(folder), image_size=32))
    return with_values(config, {"epochs": 9, "probe_every": 1, "workers": 0, "flip_p": 0.0})


def accuracies(config: Config, out: Path) -> dict[int, float]:
    """kNN on images held out of training, by step; 0 is before the first."""
    data = load_data(config)
    method = method_to_train(config, 32, first_weights(config, RunFolder(out), 32))
    before = Watch(data, config.run.knn_k).probe(method.trained_backbone, torch.device("cpu"))
    pretrain(config, out)
    rows = [row for row in read_metrics(out) if row["kind"] == "probe"]
    return {0: before["knn_validation"], **{row["step"]: row["knn_validation"] for row in rows}}


@pytest.mark.slow
def test_a_trained_start_is_better_than_none_and_not_forgotten(digits, tmp_path):
    source = recipes.recipe("builtin-simclr-amcl")
    run = replace(source.run, epochs=8, probe_every=8)
    pretrain(replace(source, run=run), tmp_path / "source")
    config = config_on(digits)
    nothing = accuracies(config, tmp_path / "nothing")
    start = with_values(config, {"init": str(tmp_path / "source")})
    trained = accuracies(recipes.continued(start), tmp_path / "trained")
    end = 9 * STEPS
    assert list(trained) == list(nothing) == [STEPS * epoch for epoch in range(10)]
    assert trained[0] > nothing[0] + 0.1
    assert min(trained.values()) > trained[0] - 0.05  # at no step is the start forgotten
    assert trained[8 * STEPS] > nothing[8 * STEPS] + 0.03  # about step 100
    assert trained[end] > nothing[end] + 0.03
    assert trained[end] > trained[0] + 0.1
