"""What a study found, in words and numbers."""

import csv
import io
import json
import math

import pytest
from rich.console import Console

from amcl.results import Record
from amcl.search.folder import Definition
from amcl.search.space import Choice, Range
from amcl.search.summary import markdown, table, trials_csv
from amcl.search.verdict import Verdict
from search.studies import base

AXES = {
    "eta": Range(1e-5, 2),
    "beta": Range(1e-5, 10, log=True),
    "form": Choice(("softmax", "top_k")),
    "top_k": Range(1, 254, log=True),
    "projector": Choice(((2048, 128), None)),
}


def record(number, status="complete", value=None, reason="", **values) -> Record:
    metrics = {} if value is None else {"knn_validation": value, "effective_rank": value}
    return Record(
        name=f"{number:04d}", status=status, values=values, metrics=metrics, reason=reason
    )


RECORDS = [
    record(0, "failed", eta=0.5, reason="out of memory\n  at line 3"),
    record(1, value=0.61234, eta=0.123456, beta=1e-5, form="softmax", projector=(2048, 128)),
    record(2, "collapsed", eta=1.0, reason="rank 1.0 | below 2"),
    record(3, value=0.7, eta=1.5, beta=2.0, form="top_k", top_k=128, projector=None),
    record(4, "collapsed", eta=1.1, reason="rank 1.0 | below 2"),
    record(5, "pruned", eta=0.2, reason="worse than the median " * 9),
    record(6, value=math.nan, eta=0.3),
]


def cells(out):
    return [[cell.text for cell in column] for column in zip(*out.cells, strict=True)]


def verdict(records, share=True):
    """The last of the complete trials is chosen, and not the one of the highest value."""
    done = [r for r in records if math.isfinite(r.metrics.get("knn_validation", math.nan))]
    if not done:
        return None
    kind, images = ("knn", 50) if share else ("effective-rank", None)
    best = max(done, key=lambda r: r.metrics["knn_validation"])
    return Verdict(objective=kind, images=images, best=best, tied=tuple(done), chosen=done[0])


def page(records=RECORDS, share=True, plots=(), best_file="best.toml"):
    objective = "knn" if share else "effective-rank"
    definition = Definition(config=base(), space=AXES, objective=objective)
    missing = {"importance.png": "too few trials"} if plots else {}
    return markdown(records, definition, best_file, plots, missing, verdict(records, share))


def grid_below(text, heading):
    """The rows of the table below a heading."""
    part = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ") for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.replace(r"\|", "¦").split("|")] for row in rows]


def test_table_is_ranked_and_has_three_digits():
    out = table(RECORDS, "knn")
    assert out.header == [
        "trial", "kNN accuracy (%)", "ending", "eta", "beta", "form", "projector", "top_k"
    ]  # fmt: skip
    assert not table([], "knn").rows
    trial, value, ending, eta, beta, form, projector, top_k = cells(out)
    assert trial == ["3", "1", "6", "5", "2", "4", "0"]
    assert value == ["70.0", "61.2", "–", "–", "–", "–", "–"]
    assert ending[:3] == ["complete"] * 3
    assert ending[4:] == ["collapsed: rank 1.0 | below 2"] * 2 + ["failed: out of memory"]
    assert ending[3].startswith("pruned: worse than the median")
    assert len(ending[3]) < 60
    assert ending[3].endswith("…")
    assert eta == ["1.5", "0.123", "0.3", "0.2", "1", "1.1", "0.5"]
    assert beta[:3] == ["2", "1e-05", "–"]
    assert form[:3] == ["top_k", "softmax", "–"]
    assert projector[:3] == ["none", "2048, 128", "–"]
    assert top_k[:3] == ["128", "–", "–"]


@pytest.mark.parametrize(
    ("value", "share", "told"),
    [
        (0.9999, True, "100"),
        (1.0, True, "100"),
        (0.05, True, "5.00"),
        (123.4, False, "123"),
        (12345.6, False, "12346"),
        (7.126, False, "7.13"),
        (0.0, False, "0.00"),
    ],
)
def test_values_have_three_digits(value, share, told):
    objective = "knn" if share else "effective-rank"
    assert cells(table([record(0, value=value)], objective))[1] == [told]


@pytest.mark.parametrize("fields", [3, 20])
def test_no_number_is_cut_on_a_narrow_terminal(fields):
    point = {f"f{i}": 0.00101 + i / 1e3 for i in range(fields)}
    failed = record(0, "failed", reason="[red]no[/red] " * 3, **point)
    screen = Console(width=80, file=io.StringIO())
    screen.print(table([failed], "knn").to_terminal(80))
    lines = screen.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    words = screen.file.getvalue().split()
    assert all(f"{value:.3g}" in words for value in point.values())
    if fields == 3:
        assert "[red]no[/red]" in " ".join(lines)  # a reason is text, not markup


def test_page_tells_what_was_searched():
    assert grid_below(page(), "What was searched")[2:] == [
        ["`eta`", "1e-05 to 2"],
        ["`beta`", "1e-05 to 10, on a log scale"],
        ["`form`", "softmax · top_k"],
        ["`top_k`", "1 to 254, on a log scale"],
        ["`projector`", "2048, 128 · none"],
    ]


def test_page_has_the_chosen_trial_and_how_to_train_with_it():
    text = page(best_file="my study/best.toml")
    assert "Trial 3 has the highest kNN accuracy, 70.0 % on 50 validation images" in text
    assert "cannot be told apart from 1 other: trial 1 " in text
    assert "Trial 1 is chosen" in text
    assert "The settings of trial 1 (`trials/0001`):" in text
    assert "```bash\namcl pretrain --config 'my study/best.toml'\n```" in text
    assert grid_below(text, "What to train with")[2:] == [
        ["`eta`", "0.123"], ["`beta`", "1e-05"], ["`form`", "softmax"],
        ["`projector`", "2048, 128"],
    ]  # fmt: skip
    assert "the highest effective rank, 0.7." in page(share=False)


def test_page_counts_endings_and_reasons():
    rows = grid_below(page(), "How the trials ended")[2:]
    assert [row[:2] for row in rows] == [
        ["complete", "3"], ["pruned", "1"], ["collapsed", "2"], ["failed", "1"]
    ]  # fmt: skip
    assert rows[2][2] == "rank 1.0 ¦ below 2 (2×)"
    assert rows[3][2] == "out of memory (1×)"


def test_page_has_all_trials_as_the_table_has():
    rows = grid_below(page(), "All trials")[2:]
    expected = zip(*cells(table(RECORDS, "knn")), strict=True)
    assert rows == [[cell.replace("|", "¦") for cell in row] for row in expected]


def test_page_has_the_pictures():
    text = page(plots=["plots/history.png", "plots/heads_and_top_k.png"])
    assert "![history](plots/history.png)" in text
    assert "![heads and top k](plots/heads_and_top_k.png)" in text
    assert "`importance.png` is not drawn: too few trials." in text
    assert "Pictures" not in page()


@pytest.mark.parametrize("records", [[], [r for r in RECORDS if r.status != "complete"]])
def test_page_without_a_complete_trial_names_no_command(records):
    text = page(records)
    assert "No trial came to its end with a value" in text
    assert "amcl pretrain" not in text
    assert f"{len(records)} trials for the greatest kNN accuracy." in text


def test_csv_has_all_in_full():
    rows = list(csv.DictReader(io.StringIO(trials_csv(RECORDS[::-1], "knn"))))
    assert [row["number"] for row in rows] == [str(int(r.name)) for r in RECORDS]
    for row, record in zip(rows, RECORDS, strict=True):
        assert (row["ending"], row["reason"], row["run"]) == (
            record.status, record.reason, f"trials/{record.name}"
        )  # fmt: skip
        assert row["value"] == str(record.metrics.get("knn_validation", "")).replace("nan", "")
        assert {name for name in AXES if row[name] != ""} == set(record.values)
        assert float(row["eta"]) == record.values["eta"]
    assert json.loads(rows[1]["projector"]) == [2048, 128]
    assert rows[3]["projector"] == "null"
    assert rows[3]["form"] == "top_k"


def test_csv_tells_true_from_one():
    records = [record(i, value=1.0, flag=flag) for i, flag in enumerate([True, 1, False])]
    assert [row["flag"] for row in csv.DictReader(io.StringIO(trials_csv(records, "knn")))] == [
        "true", "1", "false"
    ]  # fmt: skip
    assert trials_csv([], "knn") == "number,ending,value,reason,run\n"
