"""Every method, as published and with AMCL, learns the built-in set in seconds."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from amcl import recipes
from amcl.backbones import Backbone
from amcl.data.builtin import CLASSES, SIZE, builtin
from amcl.evaluation import extract, knn_accuracy
from amcl.training import pretrain, read_metrics
from amcl.views import Views

K = 20


def pixels(images) -> torch.Tensor:
    return images[torch.arange(len(images))]


@pytest.fixture(scope="module")
def floor() -> float:
    """The better of raw pixels and an untrained backbone, by the probe that training uses."""
    data = builtin()
    bank, queries = data.probe.bank, data.probe.queries
    centre = pixels(bank.images).float().mean(0)
    raw = [(pixels(part.images).float() - centre).flatten(1) for part in (bank, queries)]
    by_pixels = knn_accuracy(raw[0], bank.labels, raw[1], queries.labels, k=K)
    backbone = Backbone(recipes.builtin("simclr").backbone, data.image_size)
    views = Views(data.image_size, mean=data.mean, std=data.std)
    untrained = [
        extract(backbone, pixels(part.images).split(256), views.plain) for part in (bank, queries)
    ]
    by_untrained = knn_accuracy(untrained[0], bank.labels, untrained[1], queries.labels, k=K)
    return max(by_pixels, by_untrained)


def cases():
    """The AMCL forms in every run of the tests; the others, and the slowest, in `make test-all`."""
    for method in ("simclr", "moco", "simsiam", "barlow"):
        for suffix in ("", "-amcl"):
            slow = not suffix or method == "simsiam"
            marks = [pytest.mark.slow] if slow else []
            yield pytest.param(method, suffix, marks=marks, id=f"{method}{suffix}")


@pytest.mark.parametrize(("method", "suffix"), list(cases()))
def test_it_learns(tmp_path, floor, method, suffix):
    config = recipes.recipe(f"builtin-{method}{suffix}")
    epochs = 14 if method == "simsiam" else 8  # without negatives it learns more slowly
    run = replace(config.run, epochs=epochs, probe_every=epochs)
    pretrain(replace(config, run=run), tmp_path / "run")
    learned = read_metrics(tmp_path / "run")[-1]["knn_validation"]
    assert learned > floor + 0.08


def test_the_built_in_set_is_hard_for_pixels():
    data = builtin()
    bank, queries = data.probe.bank, data.probe.queries
    assert pixels(data.train).shape == (2000, 3, SIZE, SIZE)
    assert queries.labels.bincount().tolist() == [50] * len(CLASSES)
    small = [F.avg_pool2d(pixels(p.images).float() / 255, 2).flatten(1) for p in (bank, queries)]
    linear = LogisticRegression(C=0.1, max_iter=2000).fit(small[0].numpy(), bank.labels.numpy())
    assert linear.score(small[1].numpy(), queries.labels.numpy()) < 0.4


def test_the_built_in_set_is_the_same_every_time():
    torch.manual_seed(1)
    first = pixels(builtin().train)
    torch.manual_seed(2)
    assert torch.equal(first, pixels(builtin().train))
