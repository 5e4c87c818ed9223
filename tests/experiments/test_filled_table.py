"""Tables of runs: rows, columns, gains, the paper's numbers; Markdown, CSV and pictures."""

import csv
import io

import pytest
import torch

from amcl.config import Config
from amcl.experiments.charts import chart, gains_chart, histograms
from amcl.experiments.conclusions import conclusion_of
from amcl.experiments.filled_table import FilledTable, numbers_table
from amcl.experiments.page import topic_of
from amcl.experiments.specs import AMCL, BASELINE, KNN, LOSS, NONE, SIDE, CellSpec, TableSpec
from amcl.metrics import separation_of
from amcl.results import Measurement

of = Measurement.of


def spec(rows, columns="method", **settings):
    """A part of cases with these labels, each with what the paper has."""
    cells = tuple(
        CellSpec(labels=labels, config=Config(), metric=KNN, paper=paper) for labels, paper in rows
    )
    known = {"name": "part", "title": "Title", "how_to_read": "Told.", "x": columns}
    return TableSpec(**(known | {"cells": cells, "columns": columns} | settings))


@pytest.fixture
def methods():
    rows = [
        ({"views": views, SIDE: side, "method": method}, paper)
        for views, side, method, paper in (
            ("a", BASELINE, "SimCLR", 26.3),
            ("a", AMCL, "SimCLR", 27.0),
            ("a", BASELINE, "MoCo", None),
            ("a", AMCL, "MoCo", None),
            ("ab", BASELINE, "SimCLR", 28.0),
            ("ab", AMCL, "SimCLR", 29.0),
        )
    ]
    numbers = (
        of({0: 0.30, 1: 0.32}),
        of({0: 0.35, 1: 0.33}),
        of({0: 0.5}),
        of({}),
        of({0: 0.2, 1: 0.2}),
        of({0: 0.3, 2: 0.1}),
    )
    problems = ("a, + AMCL, MoCo, seed 0 diverged: the loss",)
    return FilledTable(spec(rows, compared=SIDE, panels="views"), numbers, problems)


def test_gains_are_paired_by_seed_and_stand_behind_what_they_belong_to(methods):
    table = methods.table()
    assert list(table.header) == ["views", SIDE, "SimCLR", "MoCo"]
    shown = [[cell.text for cell in row] for row in table.cells]
    assert shown == [
        ["a", BASELINE, "31.0 ± 1.4", "50.0"],
        ["a", AMCL, "34.0 ± 1.4", "–"],
        ["a", "gain of + AMCL", "+3.0 ± 2.8", ""],
        ["ab", BASELINE, "20.0 ± 0.0", ""],
        ["ab", AMCL, "20.0 ± 14.1", ""],
        ["ab", "gain of + AMCL", "+10.0", ""],  # seed 0 alone has both
    ]
    small = [[cell.small for cell in row] for row in table.cells]
    assert small[0][2:] == ["paper 26.3", ""]
    assert small[2][2] == "paper +0.7, cannot be told apart"
    assert small[5][2] == "paper +1.0, one seed: no evidence"


def test_markdown_has_both_numbers_in_a_cell(methods):
    lines = methods.table().to_markdown().splitlines()
    assert lines[0] == "| views | side | SimCLR | MoCo |"
    assert lines[1] == "| --- | --- | ---: | ---: |"
    assert lines[2] == "| a | baseline | 31.0 ± 1.4 (paper 26.3) | 50.0 |"
    assert lines[4] == "| a | gain of + AMCL | +3.0 ± 2.8 (paper +0.7, cannot be told apart) |  |"


def test_every_number_is_in_the_csv(methods):
    rows = list(csv.DictReader(io.StringIO(numbers_table([methods]).to_csv())))
    assert len(rows) == 6 + 2  # MoCo has no number with AMCL, and so no gain
    first, gain = rows[0], rows[6]
    assert (first["views"], first["what"], first["runs"]) == ("a", "value", "2")
    assert float(first["mean"]) == pytest.approx(31)
    assert first["values"] == "0:30.0 1:32.0"
    assert (gain["what"], gain["side"]) == ("gain", AMCL)
    assert float(gain["paper"]) == pytest.approx(0.7)


def test_gains_along_the_columns():
    rows = [
        ({"labels": n, SIDE: side}, None) for n in ("10", "50") for side in (BASELINE, AMCL, "TS")
    ]
    numbers = tuple(of({0: value}) for value in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7))
    table = FilledTable(spec(rows, SIDE, x="labels", compared=SIDE), numbers).table()
    assert list(table.header) == ["labels", BASELINE, AMCL, "TS", "gain of + AMCL", "gain of TS"]
    assert [cell.text for cell in table.cells[1]] == [
        "50",
        "40.0",
        "50.0",
        "70.0",
        "+10.0",
        "+30.0",
    ]


def test_a_single_column_is_the_metric_with_gains_beside():
    rows = [({"temperature": name}, None) for name in (BASELINE, "adaptive")]
    settings = {"x": "temperature", "compared": "temperature"}
    table = FilledTable(spec(rows, "", **settings), (of({0: 0.5}), of({0: 0.75}))).table()
    assert list(table.header) == ["temperature", "kNN accuracy (%)", "gain"]
    assert [cell.text for cell in table.cells[0]] == [BASELINE, "50.0", ""]
    assert [cell.text for cell in table.cells[1]] == ["adaptive", "75.0", "+25.0"]


def test_what_is_the_same_along_an_axis_is_a_dashed_line():
    rows = [({"C": c, SIDE: side}, None) for c, side in ((NONE, BASELINE), ("1", "a"), ("3", "a"))]
    filled = FilledTable(spec(rows, "C"), tuple(of({0: v}) for v in (0.5, 0.4, 0.6)))
    assert list(filled.table().header) == [SIDE, "reference", "C = 1", "C = 3"]
    [ax] = chart(filled).axes
    dashed = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert dashed[0].get_ydata()[0] == 50
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "3"]


def heads(*values: dict[int, float], images=None) -> FilledTable:
    rows = [
        ({"heads": c, SIDE: side}, None) for c, side in ((NONE, BASELINE), ("1", "a"), ("3", "a"))
    ]
    return FilledTable(spec(rows, "heads"), tuple(of(v, images) for v in values))


def line_styles(filled: FilledTable) -> set[str]:
    """Of the line through the dots."""
    [ax] = chart(filled).axes
    return {container[0].get_linestyle() for container in ax.containers}


def test_noise_is_told_in_words_and_is_no_rising_line():
    """14.3, 17.9 and 21.4% of 28 images, by one seed: nothing can be told apart."""
    filled = heads({0: 4 / 28}, {0: 5 / 28}, {0: 6 / 28}, images=28)
    text = conclusion_of(filled)
    assert "1 seed, 200 epochs, judged on 28 images. One image is 3.6 points." in text
    assert "One seed is no evidence" in text
    assert text in topic_of(filled).markdown()  # so it is on the page too
    assert "heads = 3, a has the highest kNN accuracy, 21.4%, but cannot be told apart" in text
    assert line_styles(filled) == {"None"}
    [row] = [[cell.text for cell in row] for row in filled.table().cells if row[0].text == "a"]
    assert row[2:] == ["17.9 [7.9, 35.6]", "21.4 [10.2, 39.5]"]
    [ax] = chart(filled).axes
    (_, high) = ax.containers[0][2][0].get_segments()[0][:, 1]
    assert high == pytest.approx(35.6, abs=0.1)  # bars are intervals


def test_what_is_apart_over_seeds_is_joined_by_a_line():
    filled = heads({0: 0.5, 1: 0.52}, {0: 0.5, 1: 0.51}, {0: 0.7, 1: 0.71}, images=1000)
    text = conclusion_of(filled)
    assert "2 seeds, 200 epochs, judged on 1,000 images." in text
    assert "± and bars are standard deviations over seeds." in text
    assert "heads = 3, a has the highest kNN accuracy, 70.5%, and is told apart from" in text
    assert line_styles(filled) == {"-"}
    far = heads({0: 0.1}, {0: 0.2}, {0: 0.9}, images=1000)
    assert "no evidence" in conclusion_of(far)
    assert "low,high" in numbers_table([far]).to_csv().splitlines()[0]


def test_pictures(methods):
    first, second = chart(methods).axes
    assert (first.get_title(), second.get_title()) == ("a", "ab")
    assert first.get_ylabel() == "kNN accuracy (%)"
    figure = gains_chart(methods)
    [ax] = figure.axes
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "ab"]  # what they differ in
    assert (
        gains_chart(FilledTable(spec([({"C": "1", SIDE: "a"}, None)], "C"), (of({0: 1.0}),)))
        is None
    )


def test_numbers_that_are_no_shares():
    cell = CellSpec(labels={"run": "a"}, config=Config(), metric=LOSS)
    one = TableSpec(name="p", title="T", how_to_read="", cells=(cell,), x="run", columns="")
    table = FilledTable(one, (of({0: 3.14159}),)).table()
    assert list(table.header) == ["run", "loss of the last epoch"]
    assert table.cells[0][1].text == "3.142"


def test_histograms_have_their_numbers_above_the_bars():
    similarity = torch.eye(8) + torch.rand(8, 8, generator=torch.Generator().manual_seed(0))
    apart = separation_of(similarity)
    [ax] = histograms({"+ AMCL": apart}).axes
    assert not ax.texts  # nothing is printed over the bars
    assert ax.get_title() == f"+ AMCL\noverlap {apart.overlap:.2f}, AUROC {apart.auroc:.3f}"
