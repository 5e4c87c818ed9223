"""benchmarks/step_parts.py divides a training step into its parts."""

import json
import statistics

import pytest

from amcl.training import pretrain
from benchmark_scripts import BENCHMARKS, load_script
from factories import small_config


@pytest.fixture
def script(monkeypatch):
    return load_script(monkeypatch, "step_parts")


@pytest.mark.parametrize("recipe", ["builtin-simclr", "builtin-simclr-amcl"])
def test_the_parts_of_a_step_are_told_apart(script, tmp_path, recipe):
    options = {"subset": 32, "batch_size": 16, "epochs": 2, "probe": "none"}
    parts = script.Parts()
    with parts.timing():
        pretrain(small_config(recipe, **options), tmp_path / "run")
    assert {len(values) for values in parts.milliseconds.values()} == {4}
    for name, values in parts.milliseconds.items():
        assert min(values) > 0, name
    heaviest = max(parts.NAMES, key=lambda name: statistics.median(parts.milliseconds[name]))
    assert heaviest.startswith(("backbone", "views"))


def test_variants_are_compared_with_the_first(script):
    speeds = {"base": [100.0, 50.0, 100.0], "twice": [200.0, 100.0, 200.0]}
    lines = script.speeds_table(speeds).splitlines()
    assert lines[2].strip("| ").split(" | ") == ["base", "100", "1.00 (1.00–1.00)"]
    assert lines[3].strip("| ").split(" | ") == ["twice", "200", "2.00 (2.00–2.00)"]
    sides = {"plain": {name: [1.0] for name in script.Parts.NAMES}}
    assert "| in all | 9.0 ms |" in script.parts_table(sides)


def test_the_variants_are_what_their_names_say(script):
    hardware = {name: script.configuration(o).hardware for name, o in script.VARIANTS.items()}
    assert hardware["with --compile"].compile
    assert not hardware["with --no-channels-last"].channels_last
    assert [h.threads for h in hardware.values()] == [2, 2, 2, 2, 2, 1, 2, 1]
    assert script.configuration(script.VARIANTS["with AMCL"]).method.heads == 3


def test_the_page_shows_what_is_kept(script):
    kept = json.loads((BENCHMARKS / "results" / "step_parts.json").read_text(encoding="utf-8"))
    page = (BENCHMARKS / "results" / "step_parts.md").read_text(encoding="utf-8")
    assert script.page(kept) in page
