"""benchmarks/known_curves.py compares learning curves of the same settings."""

import json
from types import SimpleNamespace

import pytest
import torch

from benchmark_scripts import BENCHMARKS, load_script

ARGS = SimpleNamespace(data="cifar10", images=512, epochs=20, queries=100, split="test")


@pytest.fixture
def script(monkeypatch):
    return load_script(monkeypatch, "known_curves")


def test_both_ways_of_reporting_are_paired_by_seed(script):
    runs = {
        "lightly": {
            "theirs": {"0": {"knn": [0.3, 0.5, 0.4]}, "1": {"knn": [0.3, 0.4, 0.44]}},
            "amcl": {"0": {"knn": [0.3, 0.4, 0.42]}, "1": {"knn": [0.3, 0.4, 0.46]}},
        }
    }
    lines = [line.strip("| ").split(" | ") for line in script.table(runs).splitlines()[2:]]
    assert lines[0] == ["lightly, last epoch", "2 and 2", "42.0 ± 2.8", "44.0 ± 2.8", "+2.0 ± 0.0"]
    assert lines[1][0] == "lightly, best epoch on test"
    assert lines[1][2:4] == ["47.0 ± 4.2", "44.0 ± 2.8"]


def test_a_network_is_judged_after_each_epoch(script, monkeypatch):
    monkeypatch.setattr(script, "knn_of", lambda network, data, normalization: network)
    curve = script.Curve(None, ((0,), (1,)), per_epoch=6)
    for images in range(2, 19, 2):
        curve(images / 100, images)
    assert curve.values == [0.06, 0.12, 0.18]


def test_layers_with_small_gradients_are_clipped(script):
    weights = [torch.nn.Parameter(torch.ones(2, 2)) for _ in range(2)]
    for weight, size in zip(weights, (1e-3, 10.0), strict=True):
        weight.grad = torch.full((2, 2), size)
    bias = torch.nn.Parameter(torch.ones(2))
    group = {"params": [*weights, bias], "eta": 0.02, "lr": 0.4, "weight_decay": 1e-4}
    clipped = script.Clipped()
    for _ in range(20):
        clipped(SimpleNamespace(param_groups=[group]))
    assert clipped.shares == [0.5, 0.5]


def test_amcl_has_the_settings_of_the_libraries(script, monkeypatch):
    peers = load_script(monkeypatch, "peer_training")
    ours = script.configuration(ARGS, "lightly", 1)
    theirs = peers.LIGHTLY_BENCHMARK
    assert ours.optimizer.lr == theirs.lr
    assert ours.optimizer.sgd_momentum == theirs.momentum
    assert ours.optimizer.weight_decay == theirs.weight_decay
    assert ours.run.batch_size == theirs.batch_size
    assert ours.method.temperature.tau == theirs.temperature
    assert (ours.run.seed, ours.method.heads, ours.views.operations) == (1, 1, "acde")
    ours = script.configuration(ARGS, "solo-learn", 0)
    theirs = peers.SOLO_LEARN
    assert ours.optimizer.lr == theirs["optimizer"]["lr"]
    assert ours.optimizer.weight_decay == theirs["optimizer"]["weight_decay"]
    assert ours.method.temperature.tau == theirs["method_kwargs"]["temperature"]
    assert ours.method.projector == (2048, 256)
    assert ours.optimizer.warmup_epochs == 2


def test_the_pages_show_what_was_measured(script):
    results = BENCHMARKS / "results"
    kept = json.loads((results / "known_curves.json").read_text(encoding="utf-8"))
    shown = script.table(kept["runs"])
    assert shown in (results / "known_curves.md").read_text(encoding="utf-8")
    docs = BENCHMARKS.parent / "docs" / "results.md"
    assert shown in docs.read_text(encoding="utf-8")
    assert script.PICTURE.exists()
