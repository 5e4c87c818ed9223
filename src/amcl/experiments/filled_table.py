"""Tables filled with the numbers of runs, beside those of the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from amcl.experiments.specs import NONE, CellSpec, Metric, TableSpec
from amcl.results import Cell, Difference, Measurement, Table
from amcl.results.formatting import format_spread

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Gain:
    """Difference of a cell from the one that it is compared with.

    Args:
        labels: Labels of the cell.
        difference: The difference, seed by seed.
        metric: The metric of both.
        paper: The gain in the paper, in points.
    """

    labels: Mapping[str, str]
    difference: Difference
    metric: Metric
    paper: float | None

    @property
    def cell(self) -> Cell:
        """The gain beside the paper's, with a note where it is no evidence."""
        difference = self.difference
        text = format_spread(difference.mean, difference.std, self.metric.share, sign=True)
        paper = "" if self.paper is None else f"paper {self.paper:+.1f}"
        notes = ", ".join(filter(None, [paper, difference.verdict]))
        return Cell(text, notes, strong=not difference.verdict)


@dataclass(frozen=True)
class FilledTable:
    """A table with its numbers.

    Args:
        spec: The specification of the table.
        measurements: A measurement for each of its cells.
        problems: Runs that failed or collapsed, with the reasons.
    """

    spec: TableSpec
    measurements: tuple[Measurement, ...]
    problems: tuple[str, ...] = ()

    def pairs(self, panel: str = "") -> list[tuple[CellSpec, Measurement]]:
        """Return the cells that have numbers, with these; with `panel`, those of one panel."""
        return [
            (cell, measurement)
            for cell, measurement in zip(self.spec.cells, self.measurements, strict=True)
            if measurement.numbers and (not panel or cell.labels[self.spec.panels or ""] == panel)
        ]

    def panels(self) -> list[str]:
        """Return the names of the panels; one panel without a name has the name ""."""
        return self.spec.labels(self.spec.panels) or [""]

    def gains(self) -> list[Gain]:
        """Return the difference of each cell from the first value of the compared label."""
        label = self.spec.compared
        if label is None:
            return []
        first = self.spec.labels(label)[0]
        by_labels = {tuple(cell.labels.values()): (cell, m) for cell, m in self.pairs()}
        gains = []
        for cell, measurement in self.pairs():
            reference = by_labels.get(tuple({**cell.labels, label: first}.values()))
            if reference is None or cell.labels[label] == first:
                continue
            other, base = reference
            paper = None
            if cell.paper is not None and other.paper is not None:
                paper = cell.paper - other.paper
            if (difference := measurement.minus(base)) is not None:
                gains.append(Gain(cell.labels, difference, cell.metric, paper))
        return gains

    def table(self) -> Table:
        """Return rows and columns as the specification has them, with rows or columns of gains."""
        spec = self.spec
        along = spec.columns or ""
        names = [name for name in spec.cells[0].labels if name != along]
        columns = spec.labels(along) or [spec.cells[0].metric.label]
        rows: dict[Labels, dict[str, Cell]] = {}

        def put(labels: Mapping[str, str], cell: Cell, column: str = "") -> None:
            row = rows.setdefault(tuple(labels[name] for name in names), {})
            row[column or labels.get(along, columns[0])] = cell

        for cell, measurement in zip(spec.cells, self.measurements, strict=True):
            paper = "" if cell.paper is None else f"paper {cell.paper:.1f}"
            put(cell.labels, Cell(measurement.format(cell.metric.share), paper))
        gains_in_columns = spec.compared in (along, None) or not along
        for gain in self.gains():
            name = f"gain of {gain.labels[spec.compared or '']}"
            if gains_in_columns:
                name = name if along else "gain"
                columns += [name] * (name not in columns)
                put(gain.labels, gain.cell, name)
            else:
                put({**gain.labels, spec.compared or "": name}, gain.cell)
        order = list(rows) if gains_in_columns else self._with_gains_behind(list(rows), names)
        body: list[list[str | Cell]] = [
            [*key, *(rows[key].get(column, Cell("")) for column in columns)] for key in order
        ]
        metrics = {cell.metric.label for cell in spec.cells}
        caption = metrics.pop() if along and len(metrics) == 1 else ""
        header = [*names, *(_heading(along, column) for column in columns)]
        return Table(header, body, caption, left=len(names))

    def _with_gains_behind(self, rows: list[Labels], names: Sequence[str]) -> list[Labels]:
        """Return rows with those of gains right behind the rows that they belong to."""
        index = list(names).index(self.spec.compared or "")
        groups = list(dict.fromkeys(row[:index] + row[index + 1 :] for row in rows))
        return sorted(rows, key=lambda row: groups.index(row[:index] + row[index + 1 :]))


def numbers_table(tables: Sequence[FilledTable]) -> Table:
    """Return every number in full: a row for each cell and each gain."""
    names = list(dict.fromkeys(n for t in tables for c in t.spec.cells for n in c.labels))
    header = ["part", *names, "what", "metric", "runs", "mean", "std", "paper", "values"]

    def row(
        table: FilledTable,
        kind: str,
        source: CellSpec | Gain,
        number: Measurement,
        images: int | None = None,
    ) -> list[str]:
        scale = source.metric.scale
        interval = number.interval
        if interval is None and isinstance(number, Difference):
            interval = number.of_images
        scaled = [number.mean, number.std, *(interval or (None, None))]
        mean, std, low, high = (None if v is None else v * scale for v in scaled)
        by_seed = " ".join(f"{seed}:{value * scale!r}" for seed, value in number.by_seed.items())
        labels = [source.labels.get(name, "") for name in names]
        count = len(number.by_seed)
        entries = [kind, source.metric.label, count, mean, std, source.paper, by_seed, images]
        entries = [table.spec.name, *labels, *entries, low, high]
        return ["" if entry is None else str(entry) for entry in entries]

    rows = []
    for table in tables:
        for cell, m in zip(table.spec.cells, table.measurements, strict=True):
            rows.append(row(table, "value", cell, m, m.images))
        rows += [row(table, "gain", gain, gain.difference) for gain in table.gains()]
    return Table([*header, "images", "low", "high"], rows)


def _heading(label: str, value: str) -> str:
    """Return the name of a column: a number alone says nothing.

    >>> _heading("heads", "3"), _heading("heads", NONE), _heading("method", "MoCo")
    ('heads = 3', 'reference', 'MoCo')
    """
    if value == NONE:
        return "reference"
    return f"{label} = {value}" if value[:1].isdigit() else value
