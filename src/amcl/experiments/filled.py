"""Tables filled with the numbers of runs, beside those of the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from amcl.experiments.cases import NONE, Case, Metric, Part
from amcl.results import Cell, Difference, Measurement, Table
from amcl.results.formatting import format_spread

Key = tuple[str, ...]


@dataclass(frozen=True)
class Gain:
    """Difference of a case from the one that it is compared with."""

    labels: Mapping[str, str]
    difference: Difference
    metric: Metric
    paper: float | None

    @property
    def cell(self) -> Cell:
        """The gain with the paper's, and a word where it is no evidence."""
        d = self.difference
        text = format_spread(d.mean, d.std, self.metric.share, sign=True)
        paper = "" if self.paper is None else f"paper {self.paper:+.1f}"
        return Cell(text, ", ".join(filter(None, [paper, d.verdict])), strong=not d.verdict)


@dataclass(frozen=True)
class Filled:
    """A part with its numbers.

    Args:
        part: The declaration of the table.
        measurements: A measurement for each of its cases.
        problems: Runs that failed or collapsed, and why.
    """

    part: Part
    measurements: tuple[Measurement, ...]
    problems: tuple[str, ...] = ()

    def pairs(self, panel: str = "") -> list[tuple[Case, Measurement]]:
        """Return the cases that have numbers, with these; with `panel`, those of one panel."""
        return [
            (case, measurement)
            for case, measurement in zip(self.part.cases, self.measurements, strict=True)
            if measurement.numbers and (not panel or case.labels[self.part.panels or ""] == panel)
        ]

    def panels(self) -> list[str]:
        """Return the values that have a panel each; one without a name where there are none."""
        return self.part.labels(self.part.panels) or [""]

    def gains(self) -> list[Gain]:
        """Return what each case has over the first value of the label that is compared."""
        label = self.part.compared
        if label is None:
            return []
        first = self.part.labels(label)[0]
        filled = {tuple(case.labels.values()): (case, m) for case, m in self.pairs()}
        gains = []
        for case, measurement in self.pairs():
            reference = filled.get(tuple({**case.labels, label: first}.values()))
            if reference is None or case.labels[label] == first:
                continue
            other, base = reference
            paper = None
            if case.paper is not None and other.paper is not None:
                paper = case.paper - other.paper
            if (difference := measurement.minus(base)) is not None:
                gains.append(Gain(case.labels, difference, case.metric, paper))
        return gains

    def table(self) -> Table:
        """Return rows and columns as the part declares them, with rows or columns of gains."""
        part, along = self.part, self.part.columns or ""
        names = [name for name in part.cases[0].labels if name != along]
        columns = part.labels(along) or [part.cases[0].metric.label]
        cells: dict[Key, dict[str, Cell]] = {}

        def put(labels: Mapping[str, str], cell: Cell, column: str = "") -> None:
            row = cells.setdefault(tuple(labels[name] for name in names), {})
            row[column or labels.get(along, columns[0])] = cell

        for case, measurement in zip(part.cases, self.measurements, strict=True):
            paper = "" if case.paper is None else f"paper {case.paper:.1f}"
            put(case.labels, Cell(measurement.format(case.metric.share), paper))
        in_columns = part.compared in (along, None) or not along
        for gain in self.gains():
            name = f"gain of {gain.labels[part.compared or '']}"
            if in_columns:
                name = name if along else "gain"
                columns += [name] * (name not in columns)
                put(gain.labels, gain.cell, name)
            else:
                put({**gain.labels, part.compared or "": name}, gain.cell)
        rows: list[list[str | Cell]] = [
            [*key, *(cells[key].get(column, Cell("")) for column in columns)]
            for key in (cells if in_columns else self._gains_behind(list(cells), names))
        ]
        metrics = list(dict.fromkeys(case.metric.label for case in part.cases))
        caption = metrics[0] if along and len(metrics) == 1 else ""
        header = [*names, *(_heading(along, column) for column in columns)]
        return Table(header, rows, caption, left=len(names))

    def _gains_behind(self, keys: list[Key], names: Sequence[str]) -> list[Key]:
        """Rows of gains right behind the rows that they belong to."""
        index = list(names).index(self.part.compared or "")
        groups = dict.fromkeys(key[:index] + key[index + 1 :] for key in keys)
        return [k for group in groups for k in keys if k[:index] + k[index + 1 :] == group]


def numbers_table(filled: Sequence[Filled]) -> Table:
    """Return every number in full: a row for each case and each gain."""
    names = list(dict.fromkeys(n for f in filled for c in f.part.cases for n in c.labels))
    header = ["part", *names, "what", "metric", "runs", "mean", "std", "paper", "values"]

    def row(
        part: Part,
        kind: str,
        of: Case | Gain,
        number: Measurement | Difference,
        images: int | None = None,
    ) -> list[str]:
        scale = of.metric.scale
        interval = number.interval
        if interval is None and isinstance(number, Difference):
            interval = number.of_images
        shown = [number.mean, number.std, *(interval or (None, None))]
        mean, std, low, high = ("" if v is None else str(v * scale) for v in shown)
        values = " ".join(f"{seed}:{value * scale!r}" for seed, value in number.by_seed.items())
        labels = [of.labels.get(name, "") for name in names]
        count = str(len(number.by_seed))
        beside = ["" if v is None else str(v) for v in (of.paper, values, images)]
        return [part.name, *labels, kind, of.metric.label, count, mean, std, *beside, low, high]

    rows = []
    for each in filled:
        for case, m in zip(each.part.cases, each.measurements, strict=True):
            rows.append(row(each.part, "value", case, m, m.images))
        rows += [row(each.part, "gain", gain, gain.difference) for gain in each.gains()]
    return Table([*header, "images", "low", "high"], rows)


def _heading(label: str, value: str) -> str:
    """Return the name of a column: a number alone says nothing.

    >>> _heading("heads", "3"), _heading("heads", NONE), _heading("method", "MoCo")
    ('heads = 3', 'reference', 'MoCo')
    """
    if value == NONE:
        return "reference"
    return f"{label} = {value}" if value[:1].isdigit() else value
