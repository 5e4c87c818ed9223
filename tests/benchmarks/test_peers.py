"""benchmarks/results/peers.md and docs/results.md show what benchmarks/peers.py measured."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def peers():
    spec = importlib.util.spec_from_file_location("peers", ROOT / "peers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_amcl_is_measured_against_lightly(peers):
    arms = {
        "lightly": {"images_per_second": 100.0, "peak_gb": 2.0, "knn": 0.30},
        "amcl": {"images_per_second": 250.0, "peak_gb": 1.5, "knn": 0.29},
    }
    found = peers.ratios(arms)
    assert found == {
        "amcl": {
            "images_per_second": pytest.approx(2.5),
            "peak_gb": pytest.approx(0.75),
            "knn": pytest.approx(0.29 / 0.30),
        }
    }
    lines = peers.table({"simclr": arms}).splitlines()
    assert lines[2] == "| SimCLR | lightly | 100 |  | 2.00 GB |  | 30.0% |  |"
    assert lines[3] == "| SimCLR | amcl | 250 | 2.50 | 1.50 GB | 0.75 | 29.0% | -1.0 points |"


def test_the_pages_show_what_was_measured(peers):
    kept = json.loads((ROOT / "results" / "peers.json").read_text(encoding="utf-8"))
    page = (ROOT / "results" / "peers.md").read_text(encoding="utf-8")
    results = (ROOT.parent / "docs" / "results.md").read_text(encoding="utf-8")
    assert peers.table(kept["results"]) in page
    assert peers.table(kept["results"]) in results
    for method, arms in kept["results"].items():
        assert kept["ours_over_lightly"][method] == peers.ratios(arms)
        assert len({arm["steps"] for arm in arms.values()}) == 1
