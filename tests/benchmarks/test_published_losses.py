"""benchmarks/results/published_losses.md shows what benchmarks/published_losses.py measured."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    spec = importlib.util.spec_from_file_location("published_losses", ROOT / "published_losses.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "published_losses", module)  # where dataclasses look it up
    spec.loader.exec_module(module)
    return module


def test_every_loss_is_that_of_lightly(benchmark):
    kept = json.loads((ROOT / "results" / "published_losses.json").read_text(encoding="utf-8"))
    page = (ROOT / "results" / "published_losses.md").read_text(encoding="utf-8")
    assert kept["differences"].keys() == {case.name for case in benchmark.CASES}
    assert benchmark.table(kept["differences"]) in page
    for case in benchmark.CASES:
        assert max(kept["differences"][case.name].values()) < case.bound, case.name


def test_differences_are_shares_of_value_and_gradient(benchmark):
    ours = benchmark.contrastive(0.5)
    case = benchmark.Case(
        "scaled", "none", lambda: benchmark.Both(ours, lambda *z: 1.25 * ours(*z))
    )
    assert benchmark.greatest(case, seeds=2) == pytest.approx({"value": 0.2, "gradient": 0.2})
    shifted = benchmark.Case(
        "shifted", "none", lambda: benchmark.Both(ours, lambda *z: ours(*z) + torch.ones(()))
    )
    found = benchmark.greatest(shifted, seeds=2)
    assert found["value"] > 0.1
    assert found["gradient"] < 1e-12


@pytest.mark.parametrize("name", ["DCL, τ = 0.1", "NT-Xent, τ = 0.5"])
def test_losses_are_compared_with_lightly_where_it_is_installed(benchmark, name):
    pytest.importorskip("lightly", reason="lightly comes with the extra `bench`")
    (case,) = (case for case in benchmark.CASES if case.name == name)
    assert max(benchmark.greatest(case, seeds=2).values()) < benchmark.BOUND
