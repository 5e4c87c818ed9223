"""Rows of numbers as tables for people."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from amcl.evaluation.compare.groups import Group
from amcl.evaluation.compare.rows import Row

BEST = "▲"
CELL = 16  # columns of a terminal that the names of rows need, and the numbers of each group


def make_table(groups: Sequence[Group], rows: Sequence[Row], columns: Sequence[int]) -> Table:
    """A column for each group in `columns`; differences below the numbers."""
    out = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    out.add_column("", overflow="fold")
    for column in columns:
        out.add_column(Text(_header(groups[column].name)), overflow="fold")
    for row in rows:
        out.add_row(Text(_label(row)), *(Text(_cell(row, column)) for column in columns))
        if any(row.differences[column] for column in columns):
            unit = "  difference, points" if row.share else "  difference"
            out.add_row(unit, *(Text(_difference(row, column)) for column in columns))
            out.add_section()
    return out


def columns_that_fit(groups: int, width: int) -> list[list[int]]:
    """The groups of each table that a terminal can show, always with the first of all.

    >>> columns_that_fit(groups=6, width=80)
    [[0, 1, 2, 3], [0, 4, 5]]
    >>> columns_that_fit(groups=1, width=80)
    [[0]]
    """
    fit = max(width // CELL - 2, 1)
    starts = range(1, max(groups, 2), fit)  # one even if there is nothing but the baseline
    return [[0, *range(start, min(start + fit, groups))] for start in starts]


def _header(name: str) -> str:
    """A name on lines that fit a narrow column."""
    words = [word if len(word) < CELL else word.replace("=", "=\n") for word in name.split(" ")]
    return "\n".join(words)


def _label(row: Row) -> str:
    """What a row is of, with the number of images that its accuracies are of."""
    images = next((cell.images for cell in row.cells if cell.images), None)
    return row.label if images is None else f"{row.label} ({images:,} images)"


def _cell(row: Row, column: int) -> str:
    cell, unit = row.cells[column], " %" if row.share else ""
    if cell.mean is None:
        return "–"
    best = f" {BEST}" if row.best == column else ""
    mean = _number(row, cell.mean, ".1f", ".4g")
    if cell.interval is not None:
        low, high = (_number(row, end, ".1f", ".4g") for end in cell.interval)
        return f"{mean}{unit} [{low}, {high}]{best}"
    if cell.std is None:
        return mean + unit + best
    return f"{mean} ± {_number(row, cell.std, '.1f', '.2g')}{unit} (n={len(cell.found)}){best}"


def _difference(row: Row, column: int) -> str:
    difference = row.differences[column]
    if difference is None:
        return "" if column == 0 else "–"
    if difference.std is None or difference.interval is None:
        return f"{_number(row, difference.mean, '+.1f', '+.2g')} (n=1)\n{difference.verdict}"
    mean, n = _number(row, difference.mean, "+.2f", "+.3g"), f"(n={len(difference.by_seed)})"
    low, high = (_number(row, end, "+.2f", "+.3g") for end in difference.interval)
    lines = [f"{mean} ± {_number(row, difference.std, '.2f', '.2g')} {n}", f"[{low}, {high}]"]
    return "\n".join(filter(None, [*lines, difference.verdict]))


def _number(row: Row, value: float, share: str, other: str) -> str:
    """Shares in per cent, each kind with a format of its own."""
    return f"{100 * value:{share}}" if row.share else f"{value:{other}}"
