"""From run folders to rows of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from amcl.evaluation.compare.groups import Group, grouped, named, notes_of_groups
from amcl.evaluation.compare.parts import Entry, make_parts, notes_of_parts
from amcl.evaluation.compare.rows import Row, is_accuracy, make_row, notes_of_rows
from amcl.evaluation.compare.runs import read_runs
from amcl.evaluation.compare.table import columns_that_fit, make_table

ALL = "all"
"""In place of metrics: every metric that there is."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Groups of runs, the baseline first; rows of numbers; what to know of them."""

    groups: tuple[Group, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def table(self, columns: Sequence[int] | None = None) -> Table:
        """A column for each group, or for those in `columns`; differences below the numbers."""
        columns = range(len(self.groups)) if columns is None else columns
        return make_table(self.groups, self.rows, columns)

    def tables(self, width: int) -> list[Table]:
        """The table in parts that a terminal can show, each with the baseline first."""
        return [self.table(columns) for columns in columns_that_fit(len(self.groups), width)]

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values: shares from 0 to 1, and so their differences."""
        return {
            "baseline": self.groups[0].name,
            "groups": [group.to_dict() for group in self.groups],
            "rows": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
        }


def compare(
    runs: Sequence[str | Path],
    *,
    baseline: str | Path | None = None,
    metrics: Sequence[str] = (),
) -> Comparison:
    """Compare what evaluations found in run folders.

    - Runs whose configurations differ in their seeds, and in what changes nothing that is learned,
      are one group. `baseline`: a run of the group to compare with; else that of the first run.
    - A row holds numbers of one protocol, data set, split, and of the same settings and images.
      Only images held out of training may differ, by seed: that is noted.
    - The seed of a protocol makes no rows: where a run has results that differ in it alone, their
      mean is the run's number.
    - Of several models of a run the newest counts. Checkpoints (.pt) have rows of their own.
    - `metrics`: only these; none: accuracies, and where there are none everything; "all":
      accuracies first, then everything else.
    """
    read = read_runs(runs)
    together = grouped(read, baseline)
    groups = named(together)
    entries = [
        Entry(g, run.path, run.seed, result)
        for g, members in enumerate(together)
        for run in members
        for result in run.results
    ]
    shown, hidden = _metrics_shown(entries, metrics)
    parts = make_parts(entries, shown)
    made = [make_row(groups, part, metric) for part in parts for metric in part.metrics]
    rows = tuple(sorted(made, key=lambda row: not is_accuracy(row.metric)))
    notes = [note for run in read for note in run.notes]
    notes += [*notes_of_groups(groups), *notes_of_parts(parts), *notes_of_rows(rows)]
    if hidden:
        notes.append(f"Not shown: {', '.join(hidden)}. --metrics all shows them too.")
    return Comparison(groups=groups, rows=rows, notes=tuple(notes))


def _metrics_shown(
    entries: Sequence[Entry], asked: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """The metrics to show, and those that are left out unless they are asked for."""
    known = list(dict.fromkeys(name for entry in entries for name in entry.result.metrics))
    accuracies = [name for name in known if is_accuracy(name)]
    if list(asked) == [ALL]:
        return (), ()
    if asked or not accuracies:
        return asked, ()
    return accuracies, [name for name in known if name not in accuracies]
