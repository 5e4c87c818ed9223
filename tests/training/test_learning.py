"""Every method, as published and with AMCL, learns the built-in set in seconds."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression

from amcl import recipes
from amcl.backbones import Backbone
from amcl.checkpoints import read_metrics
from amcl.data import builtin as module
from amcl.data.builtin import CLASSES, SIZE, builtin
from amcl.metrics import extract, knn_accuracy
from amcl.training import pretrain
from amcl.views import Views

K = 20


def pixels(images) -> torch.Tensor:
    return images[torch.arange(len(images))]


def knn_of(bank_features, query_features) -> float:
    """Accuracy of the probe that training uses."""
    probe = builtin().probe
    labels, truth = probe.bank.labels, probe.queries.labels
    return knn_accuracy(bank_features, labels, query_features, truth, k=K)


@pytest.fixture(scope="module")
def by_pixels() -> float:
    bank, queries = builtin().probe.bank, builtin().probe.queries
    center = pixels(bank.images).float().mean(0)
    return knn_of(*((pixels(p.images).float() - center).flatten(1) for p in (bank, queries)))


def untrained(recipe: str) -> float:
    """Accuracy of the recipe's backbone with random weights."""
    data = builtin()
    backbone = Backbone(recipes.recipe(recipe).backbone, data.image_size)
    views = Views(data.image_size, mean=data.mean, std=data.std)
    parts = data.probe.bank, data.probe.queries
    return knn_of(*(extract(backbone, pixels(p.images).split(256), views.plain) for p in parts))


def cases():
    """SimCLR + AMCL in every run of the tests, the others in `make test-all`."""
    methods = ("simclr", "moco", "simsiam", "barlow", "byol", "nnclr", "supcon", "vicreg", "dino")
    for method in methods:
        for suffix in ("", "-amcl"):
            slow = not suffix or method != "simclr"
            marks = [pytest.mark.slow] if slow else []
            yield pytest.param(method, suffix, marks=marks, id=f"{method}{suffix}")


@pytest.mark.parametrize(("method", "suffix"), list(cases()))
def test_it_learns(tmp_path, by_pixels, method, suffix):
    config = recipes.recipe(f"builtin-{method}{suffix}")
    # Without negatives, or with other images for positives, it learns more slowly.
    slower = {"simsiam": 14, "nnclr": 14, "byol": 20, "dino": 20}
    epochs = {"simclr": 2, "supcon": 4, **slower}.get(method, 8)
    batch_size = {"simclr": 100}.get(method, config.run.batch_size)
    run = replace(config.run, epochs=epochs, probe_every=epochs, batch_size=batch_size)
    pretrain(replace(config, run=run), tmp_path / "run")
    learned = read_metrics(tmp_path / "run")[-1]["knn_validation"]
    assert learned > max(by_pixels, untrained("builtin-simclr")) + 0.08


def train(name: str, out: Path, epochs: int, **method: object) -> list[dict[str, Any]]:
    """Metrics of a short run of a recipe."""
    config = recipes.recipe(name)
    run = replace(config.run, epochs=epochs, probe_every=epochs, log_every=1)
    pretrain(replace(config, run=run, method=replace(config.method, **method)), out)
    return read_metrics(out)


@pytest.mark.slow
def test_mae_learns_to_reconstruct(tmp_path):
    losses = [r["loss"] for r in train("builtin-mae", tmp_path / "run", 1) if r["kind"] == "step"]
    assert sum(losses[-5:]) / 5 < losses[0] / 2


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", "-amcl"])
def test_can_learns_by_all_its_terms(tmp_path, by_pixels, suffix):
    rows = train(f"builtin-can{suffix}", tmp_path / "run", 2)
    epochs = [row for row in rows if row["kind"] == "epoch"]
    assert epochs[-1]["term/reconstruction"] < 1.0  # the error of each patch's own mean
    assert rows[-1]["knn_validation"] > max(by_pixels, untrained("builtin-can")) + 0.04


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["", "-amcl"])
def test_lgp_learns_in_both_stages(tmp_path, by_pixels, suffix):
    rows = train(f"builtin-lgp{suffix}", tmp_path / "run", 6)
    errors = [r["loss"] for r in read_metrics(tmp_path / "run/mae") if r["kind"] == "step"]
    assert sum(errors[-5:]) / 5 < errors[0] / 2
    assert rows[-1]["knn_validation"] > by_pixels


def test_the_built_in_set_is_hard_for_pixels():
    data = builtin()
    bank, queries = data.probe.bank, data.probe.queries
    assert pixels(data.train).shape == (2000, 3, SIZE, SIZE)
    assert queries.labels.bincount().tolist() == [50] * len(CLASSES)
    small = [F.avg_pool2d(pixels(p.images).float() / 255, 2).flatten(1) for p in (bank, queries)]
    linear = LogisticRegression(C=0.1, max_iter=2000).fit(small[0].numpy(), bank.labels.numpy())
    assert linear.score(small[1].numpy(), queries.labels.numpy()) < 0.4


def test_the_built_in_set_is_the_same_every_time(monkeypatch):
    # The images that other tests have drawn are not taken here.
    monkeypatch.setattr(module, "_draw", inspect.unwrap(module._draw))
    monkeypatch.setattr(module, "_TRAIN", 200)
    torch.manual_seed(1)
    first = pixels(builtin().train)
    torch.manual_seed(2)
    assert torch.equal(first, pixels(builtin().train))
