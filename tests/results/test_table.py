"""One table in its four forms."""

import csv
import io

import pytest
from rich.console import Console

from amcl.results import Cell, Table

TABLE = Table(
    ("run", "top 1", "note"),
    [
        ("my [bold]photos[/x]", Cell("41.0", "paper 42.3", strong=True), "a | b"),
        ("<b>", "50.0", "two\nlines"),
    ],
    caption="Numbers.",
)


def printed(table: Table, width: int, **options) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(table.to_terminal(width, **options))
    return out.getvalue()


def test_markdown_is_one_line_a_row():
    assert TABLE.to_markdown().splitlines() == [
        "| run | top 1 | note |",
        "| --- | ---: | ---: |",
        r"| my [bold]photos[/x] | **41.0** (paper 42.3) | a \| b |",
        "| <b> | 50.0 | two lines |",
    ]


def test_csv_has_the_texts():
    assert list(csv.reader(io.StringIO(TABLE.to_csv()))) == [
        ["run", "top 1", "note"],
        ["my [bold]photos[/x]", "41.0", "a | b"],
        ["<b>", "50.0", "two\nlines"],
    ]


def test_html_escapes_and_marks_labels():
    text = TABLE.to_html()
    assert '<th scope="row" class="left short">&lt;b&gt;</th>' in text
    assert "<td><strong>41.0</strong> <small>paper 42.3</small></td>" in text
    assert '<th scope="col" class="left">run</th><th scope="col">top 1</th>' in text


def test_brackets_are_no_markup_in_a_terminal():
    text = printed(TABLE, 200)
    assert "my [bold]photos[/x]" in text
    assert "41.0 (paper 42.3)" in text
    assert "Numbers." in text


def test_a_wide_table_is_shown_in_parts_that_begin_with_the_labels():
    names = [f"metric_number_{i}" for i in range(9)]
    wide = Table(["run", "base", *names], [["first", "0", *(f"value {i}" for i in range(9))]])
    text = printed(wide, 60, repeat=2)
    assert max(map(len, text.splitlines())) <= 60
    assert text.count("first") == text.count("base") == text.count("run") > 1
    assert all(text.count(f"value {i}") == 1 for i in range(9))
    assert printed(wide, 300).count("first") == 1


def test_a_column_that_is_wider_than_the_terminal_is_folded():
    assert max(map(len, printed(Table(("a", "b"), [("x", "y" * 90)]), 40).splitlines())) <= 40


def test_rows_are_as_long_as_the_header():
    with pytest.raises(ValueError, match="2 entries"):
        Table(("a", "b"), [("1",)])
