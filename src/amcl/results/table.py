"""One table, shown in a terminal, as Markdown, as CSV and as HTML."""

import csv
import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from amcl.printable import printable_lines

if TYPE_CHECKING:
    import rich.console
    import rich.table

NARROWEST = 14
"""Characters below which a column of a terminal is not wrapped, so that numbers stay whole."""
_GAP = 2  # characters between two columns of a terminal
_SHORT = 28  # characters up to which a label is not wrapped on a page


@dataclass(frozen=True)
class Cell:
    """Entry of a table.

    Args:
        text: The text.
        small: A second, quieter text behind the first.
        strong: Whether to emphasize it.

    Example:
        >>> Cell("41.0", "paper 42.3").with_small
        '41.0 (paper 42.3)'
    """

    text: str
    small: str = ""
    strong: bool = False

    @property
    def with_small(self) -> str:
        """Both texts, for where there is one size of letters."""
        return f"{self.text} ({self.small})" if self.small else self.text


@dataclass(frozen=True)
class Table:
    """Rows of cells below a header.

    Args:
        header: Names of the columns.
        rows: Rows of cells, or of plain text.
        caption: A sentence below the table.
        left: Number of columns that hold labels, which are aligned to the left; the others hold
            numbers.

    Example:
        >>> table = Table(("head", "τ"), [("1", "0.20"), ("2", Cell("0.31", strong=True))])
        >>> print(table.to_markdown(), end="")
        | head | τ |
        | --- | ---: |
        | 1 | 0.20 |
        | 2 | **0.31** |
    """

    kind: ClassVar = "table"
    header: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    caption: str = ""
    left: int = 1

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(
                    f"A row of a table must have {len(self.header)} entries, one for each of "
                    f"{tuple(self.header)}, got {len(row)}: {tuple(row)}."
                )

    @property
    def cells(self) -> list[list[Cell]]:
        """Rows of cells."""
        cells = [[c if isinstance(c, Cell) else Cell(c) for c in row] for row in self.rows]
        return [
            [replace(c, text=printable_lines(c.text), small=printable_lines(c.small)) for c in row]
            for row in cells
        ]

    def to_terminal(self, width: int, repeat: int | None = None) -> "rich.console.Group":
        """Return the table as `rich` prints it.

        A table that is too wide is split into several, one below the other.

        Args:
            width: Characters of a line.
            repeat: Number of columns that each part begins with; the default is `left`.
        """
        from rich.console import Group

        repeat = self.left if repeat is None else repeat
        return Group(*(self._rich(part) for part in self._parts(width, repeat)))

    def to_markdown(self) -> str:
        """Return the table in Markdown, without its caption."""

        def format_cell(cell: Cell) -> str:
            strong = replace(cell, text=f"**{cell.text}**") if cell.strong else cell
            return " ".join(strong.with_small.split()).replace("|", r"\|")

        rule = ["---"] * self.left + ["---:"] * (len(self.header) - self.left)
        lines = [[format_cell(Cell(name)) for name in self.header], rule]
        lines += [[format_cell(cell) for cell in row] for row in self.cells]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def to_csv(self) -> str:
        """Return the header and the texts of the cells, separated by commas."""
        out = io.StringIO()
        rows = [[cell.text for cell in row] for row in self.cells]
        csv.writer(out, lineterminator="\n").writerows([self.header, *rows])
        return out.getvalue()

    def to_html(self, explanations: Mapping[str, str] | None = None) -> str:
        """Return a `<table>` element, without the caption.

        Args:
            explanations: Explanations of columns by their names, as `data-explanation`.
        """
        explanations = explanations or {}
        names = "".join(
            f'<th scope="col"{_classes(i < self.left)}>{_explained(name, explanations)}</th>'
            for i, name in enumerate(self.header)
        )
        rows = [
            "<tr>" + "".join(self._html(cell, i) for i, cell in enumerate(row)) + "</tr>\n"
            for row in self.cells
        ]
        head = f"<thead><tr>{names}</tr></thead>"
        return f"<table>\n{head}\n<tbody>\n{''.join(rows)}</tbody></table>"

    def _html(self, cell: Cell, column: int) -> str:
        label = column < self.left
        is_row_header = column == 0 and label
        tag, scope = ("th", ' scope="row"') if is_row_header else ("td", "")
        text = html.escape(cell.text)
        text = f"<strong>{text}</strong>" if cell.strong else text
        small = f" <small>{html.escape(cell.small)}</small>" if cell.small else ""
        classes = _classes(label, len(cell.text) <= _SHORT)
        return f"<{tag}{scope}{classes}>{text}{small}</{tag}>"

    def _parts(self, width: int, repeat: int) -> list["Table"]:
        """Split the table into parts that fit, each with the first `repeat` columns."""
        if sum(self._widths(0)) + _GAP * (len(self.header) - 1) <= width:
            return [self]
        broken = replace(self, header=[_broken(name) for name in self.header])
        widths = [least + _GAP for least in broken._widths(NARROWEST)]
        labels = list(range(repeat))
        parts = [labels]
        room = width + _GAP - sum(widths[:repeat])
        free = room
        for column in range(repeat, len(widths)):
            if widths[column] > free and len(parts[-1]) > repeat:
                parts.append(labels)
                free = room
            parts[-1] = [*parts[-1], column]
            free -= widths[column]
        return [broken._columns(part) for part in parts]

    def _columns(self, columns: Sequence[int]) -> "Table":
        return replace(
            self,
            header=[self.header[i] for i in columns],
            rows=[[row[i] for i in columns] for row in self.rows],
            left=sum(i < self.left for i in columns),
        )

    def _widths(self, narrowest: int) -> list[int]:
        """Return the width of each column; with `narrowest`, where its text is wrapped."""
        columns = zip(self.header, *([c.with_small for c in r] for r in self.cells), strict=True)
        widths = []
        for texts in columns:
            longest = max(len(line) for text in texts for line in text.split("\n"))
            word = max(len(word) for text in texts for word in text.split() or [""])
            widths.append(min(longest, max(word, narrowest)) if narrowest else longest)
        return widths

    def _rich(self, part: "Table") -> "rich.table.Table":
        from rich.box import SIMPLE_HEAD
        from rich.table import Table as RichTable
        from rich.text import Text  # brackets in the name of a folder are no markup

        out = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for i, (name, least) in enumerate(zip(part.header, part._widths(NARROWEST), strict=True)):
            justify: rich.console.JustifyMethod = "left" if i < part.left else "right"
            out.add_column(Text(name), overflow="fold", min_width=least, justify=justify)
        for row in part.cells:
            out.add_row(*(Text(cell.with_small) for cell in row))
        if self.caption:
            out.caption = self.caption
            out.caption_justify = "left"
        return out


def _classes(label: bool, short: bool = False) -> str:
    return f' class="left{" short" if short else ""}"' if label else ""


def _explained(name: str, explanations: Mapping[str, str]) -> str:
    """Return a name in HTML, with its explanation if it has one."""
    if name not in explanations:
        return html.escape(name)
    explanation = html.escape(explanations[name])
    return f'<span tabindex="0" data-explanation="{explanation}">{html.escape(name)}</span>'


def _broken(name: str) -> str:
    """Return a header on several lines, broken at blanks, behind underscores, and at "=".

    >>> _broken("linear_top1 temperature=adaptive")
    'linear_\\ntop1\\ntemperature=\\nadaptive'
    """
    words = [w if len(w) <= NARROWEST else w.replace("=", "=\n") for w in name.split()]
    return re.sub(r"_(?=.)", "_\n", "\n".join(words))
