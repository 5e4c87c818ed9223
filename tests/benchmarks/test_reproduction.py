"""docs/reproduction.md: the rule of its verdicts, the records behind it, and the page from them."""

import json
import re
import shutil
import sys
from functools import cache
from pathlib import Path

import pytest

from amcl.errors import Interrupted
from amcl.experiments import ENTRIES, SCALES
from amcl.experiments.filled_table import FilledTable
from amcl.experiments.specs import AMCL, SIDE
from amcl.results import Measurement
from tiny_runs import interrupt_at

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import reproduction  # noqa: E402
import reproduction_claims as rules  # noqa: E402
import reproduction_page  # noqa: E402


@pytest.fixture(scope="module")
def paper():
    """The tables without numbers of ours."""
    return rules.Tables(filled(lambda cell: {}))


def filled(values):
    """Return the tables of all entries, with numbers by seed from a function of the cell."""
    return {
        name: [
            FilledTable(spec, tuple(Measurement.of(values(cell)) for cell in spec.cells))
            for spec in reproduction.specs_of(name)
        ]
        for name in ENTRIES
    }


@pytest.mark.parametrize(
    ("interval", "paper", "expected"),
    [
        ((0.1, 3.0), 2.0, "holds"),
        ((0.1, 0.3), 2.0, "holds"),  # a smaller gain than the paper's is one
        ((-3.0, -0.1), 2.0, "does not hold"),
        ((-3.0, -0.1), None, "does not hold"),
        ((-1.0, 1.9), 2.0, "does not hold"),
        ((-1.0, 2.1), 2.0, "cannot be told"),
        ((-1.0, 1.9), None, "cannot be told"),
        (None, 2.0, "cannot be told"),  # one seed
        ((0.0, 0.0), 2.0, "does not hold"),
    ],
)
def test_the_rule(interval, paper, expected):
    assert rules.verdict(interval, paper) == expected


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((-2.2, 2.2), "holds"),
        ((-2.4, 1.0), "cannot be told"),
        ((2.4, 3.0), "does not hold"),
        ((-9.0, -2.4), "does not hold"),
        (None, "cannot be told"),
    ],
)
def test_the_rule_for_what_is_level(interval, expected):
    assert rules.verdict(interval, None, level=True) == expected


def test_numbers_of_the_paper_are_those_of_its_tables(paper):
    expected = {
        "table-3": [2.3, 2.5, 2.3, 2.6, 1.7, 1.1, 2.425, 2.425],
        "table-4": [0.9, 0.8],
        "table-5": [10.1, 3.1, 7.0, 4.583, 3.633],
        "table-6": [4.575, 3.9],  # the paper says 4.59
        "table-7": [2.2, 1.6, 2.1, 2.2],
    }
    for entry, numbers in expected.items():
        found = [claim.paper for claim in rules.claims(paper) if claim.entry == entry]
        assert found == pytest.approx(numbers, abs=1e-3)


def test_every_claim_is_measured_by_the_tables(paper):
    """Where AMCL is above by the same in every cell, its gains are that, and differences zero."""

    def values(cell):
        gain = 0.01 if AMCL in cell.labels.values() else 0.0
        return {seed: 0.4 + seed / 100 + gain for seed in range(3)}

    tables = rules.Tables(filled(values))
    findings = [rules.find(claim, tables) for claim in rules.claims(paper)]
    assert all(len(finding.by_seed) == 3 for finding in findings)
    gains = [f for f in findings if re.search("AMCL improves|\\+ AMCL have", f.claim.text)]
    assert len(gains) > 12
    assert all(f.difference.mean == pytest.approx(1.0) for f in gains)
    assert all(f.verdict == "holds" for f in gains)
    more = [f for f in findings if "gains more" in f.claim.text or "than with one" in f.claim.text]
    assert all(f.difference.mean == pytest.approx(0.0, abs=1e-9) for f in more)


def test_differences_are_paired_by_seed(paper):
    def values(cell):
        if cell.labels.get(SIDE) == AMCL:
            return {1: 0.5, 0: 0.4}
        return {0: 0.38, 1: 0.49, 2: 0.1}

    [first, *_] = rules.claims(paper)
    finding = rules.find(first, rules.Tables(filled(values)))
    assert finding.by_seed == pytest.approx({0: 2.0, 1: 1.0})


def test_costs_are_held_against_the_most_that_the_paper_has():
    step, parameters = "GFLOPs an image, forward and backward", "parameters in training, M"
    rows = [["A", step, "10", "10.9", ""], ["B", step, "10", "10", ""]]
    computation, weights = rules.cost_findings([*rows, ["A", parameters, "10", "10.5", ""]])
    assert computation.increases == pytest.approx({"A": 9.0, "B": 0.0})
    assert computation.claim.paper_words.endswith("+5.8 to +9.8% by its table")
    assert weights.claim.paper_words.endswith("+1.1 to +4.3% by its table")
    assert (computation.verdict, weights.verdict) == ("holds", "does not hold")
    assert {f.verdict for f in rules.cost_findings([])} == {"not carried out yet"}


def test_one_seed_tells_nothing_and_no_seed_is_not_carried_out(paper):
    claim = rules.claims(paper)[0]
    one = rules.find(claim, rules.Tables(filled(lambda cell: {0: 0.4})))
    assert one.verdict == "cannot be told"
    assert rules.find(claim, paper).verdict == "not carried out yet"


def test_a_page_without_records_fills_nothing(tmp_path):
    text = reproduction_page.page(reproduction.Records(tmp_path / "none.json"))
    for name, entry in ENTRIES.items():
        section = text.split(f"\n## {name.replace('-', ' ').capitalize()}\n")[1].split("\n## ")[0]
        if entry.make is not None:
            runs = len(reproduction.runs_of([name]))
            assert f"**Not carried out yet** at scale `night`: {runs} of {runs} runs." in section
            assert f"amcl reproduce {name} --scale night" in section
            assert (name == "table-7") == ("|" in section)  # which was recorded at another scale
    rows = [line for line in text.splitlines() if line.endswith("| not carried out yet |")]
    assert len(rows) == sum("have been carried out" not in row for row in rows) > 30
    assert "0 of 393 runs have been carried out" in text


def test_a_page_shows_the_records_it_has(tmp_path):
    records = reproduction.Records(tmp_path / "records.json")
    every = reproduction.runs_of(ENTRIES)
    for name in reproduction.runs_of(["table-4"]):
        run = every[name]
        amcl = run.config.method.name != "mae" and run.config.method.heads == 3
        value = 0.4 + run.seed / 50 + 0.03 * amcl
        records.runs[name] = record_of(run, value)
    text = reproduction_page.page(records)
    assert "15 of 393 runs have been carried out" in text
    [row] = [line for line in text.splitlines() if line.startswith("| AMCL improves MoCo v3")]
    assert "| +0.9 (paper: ImageNet, ViT-B) | +3.0 ± 0.0 [+3.0, +3.0] | 3 | holds |" in row
    section = text.split("\n## Table 4\n")[1].split("\n## ")[0]
    assert "Not carried out" not in section
    assert "45.0 ± 2.0" in section
    pictures = reproduction_page.pictures(reproduction_page.tables_of(records))
    assert "reproduction-table-4-finetuned.png" in pictures
    assert "reproduction-claims.png" in pictures


def record_of(run, value):
    return {
        "name": run.name,
        "values": {"method": run.config.method.name},
        "status": "complete",
        "reason": "",
        "metrics": dict.fromkeys(run.metrics, value),
        "images": {},
        "images_per_second": 1000.0,
        "packages": {"torch": "2"},
        "threads": 1,
    }


def test_records_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "records.json"
    records = reproduction.Records(path)
    every = reproduction.runs_of(ENTRIES)
    names = list(every)[:2]
    for name in names:
        records.runs[name] = record_of(every[name], 0.5)
    records.write(every)
    again = reproduction.Records(path)
    assert again.runs == records.runs
    assert not again.lacks(every[names[0]])
    assert again.lacks(every[list(every)[2]])
    del again.runs[names[0]]["metrics"]["knn top1"]
    assert again.lacks(every[names[0]])


def test_records_of_other_settings_are_refused(tmp_path):
    path = tmp_path / "records.json"
    records = reproduction.Records(path)
    every = reproduction.runs_of(ENTRIES)
    name = next(iter(every))
    records.runs[name] = record_of(every[name], 0.5)
    records.write(every)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("epochs = 12", "epochs = 13"), encoding="utf-8")
    with pytest.raises(SystemExit, match="runs of simclr with another epochs than scale night"):
        reproduction.Records(path)
    content = json.loads(text)
    content["protocols"]["knn"]["k"] = 5
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(SystemExit, match="numbers by knn with other settings than scale night"):
        reproduction.Records(path)


def test_runs_are_carried_out_in_groups_of_the_same_protocols():
    runs = list(reproduction.runs_of(["table-3", "table-4", "figure-3"]).values())
    groups = list(reproduction.batches(runs))
    assert sorted(run.name for group in groups for run in group) == sorted(r.name for r in runs)
    for group in groups:
        assert len({run.protocols for run in group}) == 1
        assert len(group) <= reproduction.BATCH


@pytest.fixture
def smoke(tmp_path, monkeypatch):
    """The smoke scale in place of the one of the page, and a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduction, "SCALE", SCALES["smoke"])
    monkeypatch.setattr(reproduction, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(reproduction, "RECORDS", tmp_path / "kept.json")
    for name in ("specs_of", "name_of", "_shared"):
        without_cache = getattr(reproduction, name).__wrapped__
        monkeypatch.setattr(reproduction, name, cache(without_cache))
    return tmp_path


@pytest.mark.usefixtures("few_images")
def test_a_run_with_a_record_is_not_carried_out_again(smoke, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)  # the first of two runs has ended
        with pytest.raises(Interrupted, match="the same command resumes"):
            reproduction.carry_out(["figure-3"], jobs=1)
    assert len(reproduction.Records().runs) == 1
    reproduction.carry_out(["figure-3"], jobs=1)
    records = reproduction.Records()
    runs = reproduction.runs_of(["figure-3"])
    assert records.runs.keys() == runs.keys()
    [first, second] = records.runs.values()
    assert 0 <= first["metrics"]["pairs overlap_heads"] <= 1
    assert first["values"] == {"data": "builtin", "method": "simclr", "seed": "0"}
    assert second["values"]["heads"] == "3"
    assert "knn top1" in first["metrics"]  # which other entries take from the same run
    shutil.rmtree(smoke / "runs")  # as on another machine
    monkeypatch.setattr("amcl.sweep.runs.train_or_resume", None)
    reproduction.carry_out(["figure-3"], jobs=1)
    assert "2 runs, 0 of them without a record" in capsys.readouterr().out


def test_the_page_is_made_from_the_records():
    text = reproduction_page.PAGE.read_text(encoding="utf-8")
    assert text == reproduction_page.page(reproduction.Records())


def test_pictures_show_the_records():
    filled_tables = reproduction_page.tables_of(reproduction.Records())
    pictures = reproduction_page.pictures(filled_tables)
    text = reproduction_page.PAGE.read_text(encoding="utf-8")
    for name, (source, _) in pictures.items():
        assert f"images/{name}" in text
        assert reproduction_page.source_of(reproduction_page.PICTURES / name) == source
    for kept in reproduction_page.counts().values():
        for name in kept["pictures"]:
            assert (reproduction_page.PICTURES / f"{name}.png").exists()
