"""The records of a sweep, in tables."""

import csv
import io
import statistics

from rich.console import Console

from amcl.results import Record
from amcl.sweep.table import line, runs_table, table

SHARES = {"0.1": (0.5, 0.7, 0.6), "0.2": (0.25, 0.375, 0.25)}


def record(status="complete", metrics=None, **values) -> Record:
    name = ",".join(f"{n}={v}" for n, v in values.items())
    about = {"status": status, "reason": "why, though", "epoch": 3}
    seed = int(values["seed"]) if "seed" in values else None
    return Record(name=name, values=values, metrics=metrics or {}, seed=seed, **about)


def seeds() -> list[Record]:
    return [
        record(metrics={"knn_validation": share, "spread": 0.9}, tau=tau, seed=str(seed))
        for tau, shares in SHARES.items()
        for seed, share in enumerate(shares)
    ]


def cells(records: list[Record]) -> list[list[str]]:
    made = table(records)
    return [list(made.header), *([cell.text for cell in row] for row in made.cells)]


def test_runs_are_taken_together_over_seeds():
    header, *rows = cells(seeds())
    assert header == ["tau", "runs", "knn_validation"]
    for row, (tau, shares) in zip(rows, SHARES.items(), strict=True):
        mean = sum(shares) / 3
        std = (sum((s - mean) ** 2 for s in shares) / 2) ** 0.5
        assert row == [tau, "3", f"{100 * mean:.1f} ± {100 * std:.1f}%"]


def test_runs_that_ended_badly_are_counted_and_no_more():
    """What a run had found before it diverged is no result of its settings."""
    early = {"knn_validation": 0.01}
    bad = [record("diverged", early, tau="0.1", seed="7"), record("failed", tau="0.1", seed="8")]
    _, first, _ = cells([*seeds(), *bad])
    assert first[1] == "5, 1 diverged, 1 failed"
    assert first[2].startswith(f"{100 * statistics.mean(SHARES['0.1']):.1f}")
    _, alone, other = cells(
        [record("collapsed", {"knn_validation": 0.5}, tau="1"), record("failed", tau="2")]
    )
    assert alone == ["1", "1, 1 collapsed", "50.0%"]
    assert other == ["2", "1, 1 failed", ""]


def test_fields_that_some_runs_have():
    assert cells([record(form="softmax"), record(form="top_k", top_k="5")]) == [
        ["form", "top_k", "runs"],
        ["softmax", "–", "1"],
        ["top_k", "5", "1"],
    ]


def test_every_number_is_in_the_csv():
    metrics = {"linear_top1_test": 1 / 3, "few-labels_n=1_validation": 0.1}
    found = [*seeds(), record("failed", seed="9"), record(metrics=metrics, tau="a,b")]
    rows = list(csv.DictReader(io.StringIO(runs_table(found).to_csv())))
    assert [row["run"] for row in rows] == [r.name for r in found]
    assert float(rows[0]["knn_validation"]) == SHARES["0.1"][0]
    assert (rows[0]["spread"], rows[0]["epoch"], rows[0]["status"]) == ("0.9", "3", "complete")
    assert (rows[6]["status"], rows[6]["reason"], rows[6]["tau"]) == ("failed", "why, though", "")
    assert float(rows[7]["linear_top1_test"]) == 1 / 3
    assert float(rows[7]["few-labels_n=1_validation"]) == 0.1


def test_a_line_for_people():
    metrics = {"linear_top1_validation": 0.5, "linear_seconds_validation": 12.3456}
    assert line(record(metrics=metrics, tau="1")) == "tau=1  linear_top1_validation 50.0%"
    assert line(record(metrics={"spread": 0.51239}, tau="1")) == "tau=1  spread 0.5124"
    assert line(record("diverged", tau="1")) == "tau=1  diverged: why, though"
    assert line(record("collapsed", {"knn_test": 0.1}, tau="1")).endswith("10.0%  (collapsed)")


def test_nothing_found_is_no_error():
    assert runs_table([]).to_csv().startswith("run,status")
    assert cells([]) == [["runs"]]


def test_every_column_is_shown_on_a_narrow_terminal():
    metrics = {
        f"{protocol}_{top}_validation": 0.5
        for protocol in ("knn", "linear", "few-labels", "finetune")
        for top in ("top1", "top5")
    }
    few = [
        record(metrics=metrics, tau=tau, batch_size=size, seed=seed)
        for tau in ("0.1", "0.2")
        for size in ("64", "128")
        for seed in ("0", "1")
    ]
    for width in (60, 80, 120, 200):
        out = io.StringIO()
        Console(file=out, width=width).print(table(few).to_terminal(width))
        lines = out.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert out.getvalue().count("finetune") == 2
        assert out.getvalue().count("50.0 ± 0.0%") == 4 * 8
        rule = next(i for i, text in enumerate(lines) if "─" in text)
        assert "tau" in lines[0] + lines[rule - 1]
