"""What a sweep found, in tables."""

import csv
import io
import statistics

from rich.console import Console

from amcl.results import Record
from amcl.sweep.table import csv_text, groups, line, markdown, table

SHARES = {"0.1": (0.5, 0.7, 0.6), "0.2": (0.25, 0.375, 0.25)}


def record(status="complete", metrics=None, **values) -> Record:
    name = ",".join(f"{n}={v}" for n, v in values.items())
    rest = {"metrics": metrics or {}, "epoch": 3}
    return Record(name=name, values=values, status=status, reason="why, though", **rest)


def seeds() -> list[Record]:
    return [
        record(metrics={"knn_validation": share, "spread": 0.9}, tau=tau, seed=str(seed))
        for tau, shares in SHARES.items()
        for seed, share in enumerate(shares)
    ]


def cells(text: str) -> list[list[str]]:
    rows = [[c.strip() for c in row.strip("|").split("|")] for row in text.splitlines()]
    return [rows[0], *rows[2:]]


def test_runs_are_taken_together_over_seeds():
    header, *rows = cells(markdown(seeds()))
    assert header == ["tau", "runs", "knn_validation"]
    for row, (tau, shares) in zip(rows, SHARES.items(), strict=True):
        mean = sum(shares) / 3
        std = (sum((s - mean) ** 2 for s in shares) / 2) ** 0.5
        assert row == [tau, "3", f"{100 * mean:.1f} % ± {100 * std:.1f} %"]


def test_runs_that_ended_badly_are_counted_and_no_more():
    """What a run had found before it diverged is no result of its settings."""
    early = {"knn_validation": 0.01}
    bad = [record("diverged", early, tau="0.1", seed="7"), record("failed", tau="0.1", seed="8")]
    (group, _) = groups([*seeds(), *bad])
    assert group.runs == "5, 1 diverged, 1 failed"
    assert group.metric("knn_validation").startswith(f"{100 * statistics.mean(SHARES['0.1']):.1f}")
    (alone,) = groups([record("collapsed", {"knn_validation": 0.5}, tau="1")])
    assert (alone.runs, alone.metric("knn_validation")) == ("1, 1 collapsed", "50.0 %")
    assert alone.metric("other") == ""


def test_fields_that_some_runs_have():
    found = [record(form="softmax"), record(form="top_k", top_k="5")]
    assert cells(markdown(found)) == [
        ["form", "top_k", "runs"],
        ["softmax", "–", "1"],
        ["top_k", "5", "1"],
    ]


def test_every_number_is_in_the_csv():
    metrics = {"linear_top1_test": 1 / 3, "few-labels_n=1_validation": 0.1}
    found = [*seeds(), record("failed", seed="9"), record(metrics=metrics, tau="a,b")]
    rows = list(csv.DictReader(io.StringIO(csv_text(found))))
    assert [row["run"] for row in rows] == [f.name for f in found]
    assert float(rows[0]["knn_validation"]) == SHARES["0.1"][0]
    assert (rows[0]["spread"], rows[0]["epoch"], rows[0]["ending"]) == ("0.9", "3", "complete")
    assert (rows[6]["ending"], rows[6]["reason"], rows[6]["tau"]) == ("failed", "why, though", "")
    assert float(rows[7]["linear_top1_test"]) == 1 / 3
    assert float(rows[7]["few-labels_n=1_validation"]) == 0.1


def test_a_line_for_people():
    metrics = {"linear_top1_validation": 0.5, "linear_seconds_validation": 12.3456}
    assert line(record(metrics=metrics, tau="1")) == "tau=1  linear_top1_validation 50.0 %"
    assert line(record(metrics={"spread": 0.51239}, tau="1")) == "tau=1  spread 0.512"
    assert line(record("diverged", tau="1")) == "tau=1  diverged: why, though"
    assert line(record("collapsed", {"knn_test": 0.1}, tau="1")).endswith("10.0 %  (collapsed)")


def test_names_with_brackets_are_shown_as_they_are():
    out = io.StringIO()
    Console(file=out, width=200).print(table([record(data="my [bold]photos[/x]")]))
    assert "my [bold]photos[/x]" in out.getvalue()
    assert "runs" in out.getvalue()


def test_nothing_found_is_no_error():
    assert csv_text([]).startswith("run,ending")
    assert cells(markdown([])) == [["runs"]]


def test_no_header_is_broken_within_a_word_on_a_narrow_terminal():
    metrics = {
        f"{protocol}_{name}_validation": value
        for protocol in ("knn", "linear", "few-labels", "finetune")
        for name, value in (("top1", 0.5), ("top5", 0.75))
    }
    few = [
        record(metrics={"knn_validation": 0.1} | metrics, tau=tau, batch_size=size, seed=seed)
        for tau in ("0.1", "0.2")
        for size in ("64", "128")
        for seed in ("0", "1")
    ]
    for width in (60, 80, 120, 200):
        out = io.StringIO()
        Console(file=out, width=width).print(table(few, width))
        lines = out.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        rule = next(i for i, text in enumerate(lines) if "─" in text)
        words = {word.rstrip("_") for text in lines[:rule] for word in text.split()}
        known = {"tau", "batch", "size", "runs", "knn", "linear", "few-labels", "finetune"}
        assert words <= known | {"top1", "top5", "validation"}
        below = " ".join(" ".join(lines[rule:]).split())
        assert ("left out for want of room" in below) == (width < 200)
    assert "50.0 % ± 0.0 %" in below
