"""Tables of what runs came to, beside the paper's numbers."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from amcl.experiments.cases import NONE, Case, Metric, Part
from amcl.experiments.pool import Number
from amcl.report.blocks import Cell, Table

Key = tuple[str, ...]


@dataclass(frozen=True)
class Gain:
    """What a case has over the one it is compared with."""

    labels: Mapping[str, str]
    number: Number
    metric: Metric
    paper: float | None


@dataclass(frozen=True)
class Filled:
    """A part with its numbers, one for each case."""

    part: Part
    numbers: tuple[Number, ...]

    def pairs(self) -> list[tuple[Case, Number]]:
        """Cases with their numbers."""
        return list(zip(self.part.cases, self.numbers, strict=True))

    def bad(self) -> list[str]:
        """What went wrong, run by run."""
        return [
            f"{', '.join(case.labels.values())}, {reason}"
            for case, number in self.pairs()
            for reason in number.bad
        ]

    def gains(self) -> list[Gain]:
        """What each case has over the first value of the label that is compared."""
        label = self.part.compared
        if label is None:
            return []
        first = self.part.labels(label)[0]
        known = {tuple(case.labels.values()): (case, number) for case, number in self.pairs()}
        found = []
        for case, number in self.pairs():
            key = tuple({**case.labels, label: first}.values())
            if case.labels[label] == first or key not in known:
                continue
            other, base = known[key]
            both = case.paper is not None and other.paper is not None
            paper = case.paper - other.paper if both else None  # type: ignore[operator]
            found.append(Gain(case.labels, number.minus(base), case.metric, paper))
        return found

    def table(self) -> Table:
        """Rows and columns as the part asks, with rows or columns of gains."""
        part = self.part
        names = [n for n in part.cases[0].labels if n != part.columns]
        columns = part.labels(part.columns) if part.columns else [part.cases[0].metric.label]
        cells: dict[Key, dict[str, Cell]] = {}
        for case, number in self.pairs():
            column = case.labels.get(part.columns, columns[0])
            entry = _cell(number, case.metric, case.paper)
            cells.setdefault(_row(case.labels, names), {})[column] = entry
        across = part.compared in (part.columns, None) or not part.columns
        for gain in self.gains():
            value, entry = gain.labels[part.compared or ""], _cell_of_gain(gain)
            if across:
                column = "gain" if not part.columns else f"gain of {value}"
                columns += [column] * (column not in columns)
                cells[_row(gain.labels, names)][column] = entry
            else:
                named = {**gain.labels, part.compared or "": f"gain of {value}"}
                column = gain.labels.get(part.columns, columns[0])
                cells.setdefault(_row(named, names), {})[column] = entry
        keys = list(cells) if across else self._with_gains_behind(list(cells), names)
        rows: list[list[str | Cell]]
        rows = [[*key, *(cells[key].get(column, Cell("")) for column in columns)] for key in keys]
        metrics = dict.fromkeys(case.metric.label for case in part.cases)
        caption = next(iter(metrics)) if part.columns and len(metrics) == 1 else ""
        shown = [_heading(part.columns, column) for column in columns]
        return Table([*names, *shown], rows, caption=caption, left=len(names))

    def _with_gains_behind(self, keys: list[Key], names: Sequence[str]) -> list[Key]:
        """Rows of gains right behind what they belong to."""
        place = list(names).index(self.part.compared or "")

        def group(key: Key) -> Key:
            return key[:place] + key[place + 1 :]

        groups = dict.fromkeys(group(key) for key in keys)
        return [key for wanted in groups for key in keys if group(key) == wanted]


def markdown(table: Table) -> str:
    """A table as Markdown, the paper's numbers in brackets."""

    def spelled(cell: Cell) -> str:
        small = f" ({cell.small})" if cell.small else ""
        return (f"**{cell.text}**" if cell.strong else cell.text).replace("|", "\\|") + small

    lines = [list(table.header), ["---"] * table.left + ["---:"] * (len(table.header) - table.left)]
    lines += [[spelled(cell) for cell in row] for row in table.cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def csv_text(filled: Sequence[Filled]) -> str:
    """Every number in full: a line for each case and each gain."""
    names = list(dict.fromkeys(n for f in filled for c in f.part.cases for n in c.labels))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = ["part", *names, "what", "metric", "runs", "mean", "std", "paper", "values"]
    head += ["images", "low", "high"]
    writer.writerow(head)

    def line(
        part: str, labels: Mapping[str, str], what: str, m: Metric, n: Number, paper: float | None
    ) -> None:
        scale = 100 if m.share else 1
        values = " ".join(f"{seed}:{value * scale!r}" for seed, value in n.values.items())
        numbers = ["" if v is None else v * scale for v in (n.mean, n.std)]
        said = [labels.get(name, "") for name in names]
        shown = "" if paper is None else paper
        ends = ["", ""] if n.interval is None else [end * scale for end in n.interval]
        row = [part, *said, what, m.label, len(n.values), *numbers, shown, values]
        writer.writerow([*row, "" if n.images is None else n.images, *ends])

    for each in filled:
        for case, number in each.pairs():
            line(each.part.name, case.labels, "value", case.metric, number, case.paper)
        for gain in each.gains():
            line(each.part.name, gain.labels, "gain", gain.metric, gain.number, gain.paper)
    return out.getvalue()


def _heading(label: str, value: str) -> str:
    """The name of a column: a number alone says nothing.

    >>> _heading("heads", "3"), _heading("heads", NONE), _heading("method", "MoCo")
    ('heads = 3', 'reference', 'MoCo')
    """
    if value == NONE:
        return "reference"
    return f"{label} = {value}" if value[:1].isdigit() else value


def _row(labels: Mapping[str, str], names: Sequence[str]) -> Key:
    return tuple(labels[name] for name in names)


def _cell(number: Number, metric: Metric, paper: float | None, sign: bool = False) -> Cell:
    if number.mean is None:
        text = "–" if number.bad else ""
    else:
        text = metric.spelled(number.mean, sign)
        if number.std is not None:
            text += f" ± {metric.spelled(number.std)}"
        elif number.interval is not None and not sign:
            low, high = (metric.spelled(end) for end in number.interval)
            text += f" [{low}, {high}]"
    small = "" if paper is None else f"paper {paper:{'+' if sign else ''}.1f}"
    return Cell(text, small, strong=sign and bool(text))


def _cell_of_gain(gain: Gain) -> Cell:
    cell = _cell(gain.number, gain.metric, gain.paper, sign=True)
    verdict = gain.number.verdict()
    small = ", ".join(filter(None, [cell.small, verdict]))
    return replace(cell, small=small, strong=cell.strong and not verdict)
