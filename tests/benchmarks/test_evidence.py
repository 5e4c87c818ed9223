"""docs/results.md and docs/tuning.md show what benchmarks/evidence holds."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from PIL import Image

from amcl.results import Measurement

ROOT = Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def evidence():
    return load("evidence")


@pytest.fixture(scope="module")
def recorded(evidence):  # its folder is on the path since that was loaded
    import evidence_studies

    return evidence_studies


@pytest.fixture(scope="module")
def text(evidence):
    """Both pages, one after the other."""
    return "".join(page.read_text(encoding="utf-8") for page in evidence.PAGES)


def test_pictures_show_what_is_kept(text):
    """Each carries the checksum of the numbers it was drawn from."""
    pictures = load("evidence_pictures")
    for name, (studies, _) in pictures.PICTURES.items():
        assert f"images/{name}.png" in text
        with Image.open(pictures.FOLDER / f"{name}.png") as picture:
            assert picture.info["Source"] == pictures.source(studies)


def test_pages_are_made_from_what_is_kept(evidence, text):
    assert evidence.page(text) == text


def test_a_table_in_a_page_is_made_anew(evidence, text):
    blocks = re.compile(r"<!-- [\w-]+ -->\n.*?<!-- end -->", re.DOTALL)
    changed = blocks.sub(lambda block: re.sub(r"\| \d\d\.\d ", "| 99.9 ", block[0]), text)
    assert changed != text
    assert evidence.page(changed) == text


def test_all_that_is_kept_is_of_a_study_and_in_a_page(recorded, text):
    studies = recorded.studies()
    kept = sorted(path.stem for path in recorded.FOLDER.glob("*.json"))
    assert kept
    for name in kept:
        assert f"<!-- {name} -->" in text
        held = json.loads(studies[name].records_file.read_text(encoding="utf-8"))
        assert held["command"] == studies[name].command
        for run in held["runs"]:
            assert run["ending"] == "complete"
            assert set(studies[name].metrics) <= run["metrics"].keys()


def test_accuracies_are_means_over_seeds(evidence):
    assert evidence.spread(Measurement.of({0: 0.40, 1: 0.42})) == "41.0 ± 1.4"
    assert evidence.spread(Measurement.of({0: 0.4})) == "40.0"


def test_gains_are_paired_by_seed(evidence):
    ours, theirs = Measurement.of({0: 0.41, 1: 0.44, 2: 0.5}), Measurement.of({1: 0.42, 0: 0.40})
    assert evidence.spread(ours.minus(theirs), sign=True) == "+1.5 ± 0.7"
    assert evidence.spread(Measurement.of({0: 0.41}).minus(theirs), sign=True) == "+1.0"
    assert evidence.spread(Measurement.of({7: 0.41}).minus(theirs), sign=True) == ""


def test_the_rise_of_gains_is_that_of_lines_fitted_seed_by_seed(evidence, monkeypatch):
    gains = {"a": {"0": 1.0, "1": 0.0}, "ab": {"0": 2.0, "1": 0.0}, "abc": {"0": 3.0, "1": 0.0}}
    monkeypatch.setattr(evidence, "gains_by_views", lambda known: gains)
    told = evidence.trend({})
    assert "changes by +0.50 points" in told
    assert "over 2 seeds 0.50; it rises in 1 of them" in told


def test_a_slow_turn_does_not_move_the_time_of_a_step(evidence):
    seconds = {"baseline": [1.0] * 41, "+ AMCL": [1.04] * 40 + [9.0]}
    assert evidence.format_slowdown({"seconds": seconds}) == "× 1.04 (1.04–1.04)"
    seconds["+ AMCL"] = [1 + turn / 100 for turn in range(41)]
    assert evidence.format_slowdown({"seconds": seconds}) == "× 1.20 (1.14–1.26)"


def kept(study, values, command=None):
    text = json.dumps({"command": command or study.command, "runs": [{"values": values}]})
    study.records_file.write_text(text, encoding="utf-8")


def test_records_of_a_part_of_a_grid_join_those_of_the_same_command(
    recorded, monkeypatch, tmp_path
):
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    study = recorded.Study(
        name="x", about="", options="--tau 0.1", protocol="", grid=["seed=0,1,2", "lr=0.1,0.2"]
    )
    assert study.part(["seed=2"]) == ["seed=2", "lr=0.1,0.2"]
    assert "--grid seed=2 lr=0.1,0.2 --out" in study.command_of(study.part(["seed=2"]))
    for wrong in ("seed=3", "tau=0.1"):
        with pytest.raises(SystemExit, match=f"--grid {wrong}: .*seed=0,1,2"):
            study.part([wrong])
    assert recorded.kept_runs(study) == []
    kept(study, {"seed": "0"}, command=study.command.replace("seed=0,1,2", "seed=0,1"))
    assert recorded.kept_runs(study) == [{"values": {"seed": "0"}}]
    kept(study, {"seed": "0"}, command=study.command.replace("--tau 0.1", "--tau 0.2"))
    assert recorded.kept_runs(study) == []


def test_of_two_records_with_the_same_values_the_newer_counts(recorded):
    old = [{"values": {"seed": "0"}, "was": 1}, {"values": {"seed": "1"}, "was": 1}]
    new = [{"values": {"seed": "1"}, "was": 2}, {"values": {"seed": "2"}, "was": 2}]
    assert recorded.joined(old, new) == [old[0], *new]
    assert recorded.joined(old, new[1:] + new[:1]) == [old[0], *new]  # in the order of the old ones
