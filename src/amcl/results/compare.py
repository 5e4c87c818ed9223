"""Evaluated runs side by side: a column for each group of seeds, differences from a baseline."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amcl.checkpoints.evaluations import Result
from amcl.results.comparable import (
    ComparableResults,
    RunResult,
    notes_of,
    split_into_comparable,
)
from amcl.results.formatting import (
    MISSING,
    format_number,
    format_spread,
    is_accuracy,
    is_share,
    plural,
)
from amcl.results.group_names import names_of, unnamed_settings
from amcl.results.groups import Difference, Group, Measurement, group_by_seed
from amcl.results.read import newest, read_run, require_results, run_folders
from amcl.results.record import Record
from amcl.results.table import Table

ALL = "all"
"""Word of `--metrics` for every metric."""
BEST = "▲"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One metric of one protocol, under the same settings on the same images.

    Args:
        source: The results of the row.
        metric: Name of the metric.
        cells: A measurement for each group.
        differences: Differences from the first group; None for that group, and where no seed has
            both numbers.
        best: Index of the group of the highest accuracy, if it is distinguishable from all others.
    """

    source: ComparableResults
    metric: str
    cells: tuple[Measurement, ...]
    differences: tuple[Difference | None, ...]
    best: int | None = None

    @property
    def label(self) -> str:
        """Protocol, data, split and metric."""
        return f"{self.source.label} {self.metric}"

    @property
    def result(self) -> Result:
        """First of the results."""
        return self.source.results[0].result

    @property
    def images(self) -> dict[str, Any]:
        """Counts and checksum of the images; of held-out images one checksum for each seed."""
        if self.source.same_images:
            return self.result.images
        by_seed = {str(each.record.seed): each.sha256 for each in self.source.results}
        return self.result.images | {"sha256": by_seed}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        result = self.result
        return {
            "label": self.label,
            "protocol": result.protocol,
            "data": result.data,
            "split": result.split,
            "metric": self.metric,
            "model": result.checkpoint or None,
            "settings": result.settings,
            "images": self.images,
            "share": is_share(self.metric),
            "cells": [cell.to_dict() for cell in self.cells],
            "differences": [d and d.to_dict() for d in self.differences],
            "best": self.best,
        }

    def lines(self) -> list[list[str]]:
        """Return the row of numbers and, if there is one, that of differences."""
        images = next((cell.images for cell in self.cells if cell.images), None)
        label = self.label if images is None else f"{self.label} ({images:,} images)"
        lines = [[label, *(self._cell(i) for i in range(len(self.cells)))]]
        if any(self.differences):
            unit = "  difference, points" if is_share(self.metric) else "  difference"
            lines.append([unit, "", *map(self._difference, self.differences[1:])])
        return lines

    def _cell(self, index: int) -> str:
        cell = self.cells[index]
        share = is_share(self.metric)
        count = "" if cell.std is None else f" (n={len(cell.numbers)})"
        best = f" {BEST}" if self.best == index else ""
        return cell.format(share, "%" * share) + count + best

    def _difference(self, difference: Difference | None) -> str:
        if difference is None:
            return MISSING
        share = is_share(self.metric)
        interval = difference.interval
        decimals = 1 if interval is None else 2
        spread = format_spread(difference.mean, difference.std, share, sign=True, decimals=decimals)
        lines = [f"{spread} (n={len(difference.by_seed)})"]
        if interval is not None:
            low, high = (format_number(end, share, sign=True, decimals=2) for end in interval)
            lines.append(f"[{low}, {high}]")
        return "\n".join(filter(None, [*lines, difference.verdict]))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Groups of runs side by side.

    Args:
        groups: The groups, the baseline first.
        names: Name of each group.
        rows: Rows of numbers.
        notes: Sentences on the groups and rows.
    """

    groups: tuple[Group, ...]
    names: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Return a column for each group, with differences below the numbers."""
        return Table(("", *self.names), [line for row in self.rows for line in row.lines()])

    def describe(self) -> list[str]:
        """Return a line for each group: its name, epochs, runs and seeds."""
        lines = []
        for name, group in zip(self.names, self.groups, strict=True):
            epochs = group.records[0].settings.get("run.epochs")
            trained = "" if epochs is None else f"{plural(epochs, 'epoch')}; "
            runs = ", ".join(f"{record.path} (seed {record.seed})" for record in group.records)
            lines.append(f"{name}: {trained}{runs}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: shares from 0 to 1, and so their differences."""
        groups = [
            {
                "name": name,
                "runs": [str(record.path) for record in group.records],
                "seeds": list(group.seeds),
                "settings": group.records[0].settings,
            }
            for name, group in zip(self.names, self.groups, strict=True)
        ]
        return {
            "baseline": self.names[0],
            "groups": groups,
            "rows": [row.to_dict() for row in self.rows],
            "notes": list(self.notes),
        }


def compare(
    runs: Sequence[str | Path],
    *,
    baseline: str | Path | None = None,
    metrics: Sequence[str] = (),
) -> Comparison:
    """Compare the results of evaluations in run folders.

    Runs whose configurations differ in their seeds, and in what changes nothing that is learned,
    are one group. A row holds numbers of one protocol, data set and split, and of the same settings
    and images; only images held out of training may differ, by seed. Where a run has results that
    differ in the seed of the protocol alone, their mean counts. Of several weights of a run the
    newest count; checkpoints (.pt) have rows of their own.

    Args:
        runs: Folders of runs that `amcl evaluate` has judged.
        baseline: A run of the group to compare with; the default is the first run.
        metrics: The metrics to show; the default is accuracies, and where there are none all
            metrics. ``["all"]`` shows accuracies first, then everything else.

    Returns:
        Groups, rows and notes.

    Example:
        >>> comparison = compare(["runs/simclr-0", "runs/amcl-0"])  # doctest: +SKIP
        >>> print(comparison.table().to_markdown())  # doctest: +SKIP
    """
    notes: list[str] = []
    results: dict[Path, list[Result]] = {}
    records = []
    for path in run_folders(runs, "amcl compare"):
        records.append(read_run(path))
        every = require_results(path)
        results[path] = newest(every)
        if older := [result for result in every if result not in results[path]]:
            weights = ", ".join(dict.fromkeys(str(r.model.get("sha256"))[:8] for r in older))
            count = plural(len(older), "result")
            notes.append(f"{path}: {count} of older weights left out ({weights}).")
    groups = _groups(records, baseline)
    names = _names(groups)
    run_results = [
        RunResult(index, record, result)
        for index, group in enumerate(groups)
        for record in group.records
        for result in results[record.path]  # type: ignore[index]
    ]
    visible, hidden = _choose(run_results, metrics)
    parts = split_into_comparable(run_results, visible)
    rows = [_row(groups, part, metric) for part in parts for metric in part.metrics]
    rows.sort(key=lambda row: not is_accuracy(row.metric))
    notes += [*_notes_of_groups(groups, names), *notes_of(parts)]
    if any(d is not None and len(d.by_seed) == 1 for row in rows for d in row.differences):
        notes.append("A difference of one seed (n=1) is no evidence that settings differ.")
    if hidden:
        notes.append(f"Not shown: {', '.join(hidden)}. --metrics all shows them too.")
    return Comparison(groups=groups, names=names, rows=tuple(rows), notes=tuple(notes))


def _groups(records: Sequence[Record], baseline: str | Path | None) -> tuple[Group, ...]:
    """Return groups of the same settings, each sorted by seed; that of the baseline first."""
    groups = group_by_seed(records, key=lambda record: record.settings)
    if baseline is not None:
        folder = Path(baseline).resolve()

        def without(group: Group) -> bool:
            return all(r.path is None or r.path.resolve() != folder for r in group.records)

        if all(map(without, groups)):
            runs = ", ".join(str(record.path) for record in records)
            raise ValueError(f"--baseline {baseline} is none of the runs: choose from {runs}.")
        groups.sort(key=without)
    return tuple(Group(tuple(sorted(g.records, key=lambda r: r.seed or 0))) for g in groups)


def _names(groups: Sequence[Group]) -> tuple[str, ...]:
    """Return short names, with those of folders where settings do not distinguish groups."""
    folders = [group.records[0].name for group in groups]
    if len(groups) == 1:
        more = len(groups[0].records) - 1
        return (folders[0] + (f" and {more} more" if more else ""),)
    names = names_of([group.records[0].settings for group in groups])
    if len(set(names)) < len(names):
        names = [f"{name} ({folder})" for name, folder in zip(names, folders, strict=True)]
    # A folder of results without a run has no settings, and so no name by them.
    return tuple(name.strip() or folder for name, folder in zip(names, folders, strict=True))


def _choose(
    results: Sequence[RunResult], metrics: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """Return the metrics to show, and those that are hidden unless they are requested."""
    names = list(dict.fromkeys(name for each in results for name in each.result.metrics))
    accuracies = [name for name in names if is_accuracy(name)]
    if list(metrics) == [ALL]:
        return (), ()
    if metrics or not accuracies:
        return metrics, ()
    return accuracies, [name for name in names if name not in accuracies]


def _row(groups: Sequence[Group], part: ComparableResults, metric: str) -> Row:
    images = part.images(metric)
    cells = tuple(
        Measurement(tuple(part.value(record, metric) for record in g.records), g.seeds, images)
        for g in groups
    )
    return Row(
        source=part,
        metric=metric,
        cells=cells,
        differences=(None, *(cell.minus(cells[0]) for cell in cells[1:])),
        best=_best(cells) if is_accuracy(metric) else None,
    )


def _best(cells: Sequence[Measurement]) -> int | None:
    """Return the group whose mean is the highest and distinguishable from all other groups."""
    means = {i: cell.mean for i, cell in enumerate(cells) if cell.mean is not None}
    if len(means) < 2:
        return None
    best = max(means, key=lambda i: means[i])
    others = [cells[best].minus(cells[i]) for i in means if i != best]
    return best if all(d is not None and d.distinguishable for d in others) else None


def _notes_of_groups(groups: Sequence[Group], names: Sequence[str]) -> list[str]:
    """Return notes on settings that names leave out, and on runs that cannot be paired."""
    notes = []
    if unnamed := unnamed_settings([group.records[0].settings for group in groups]):
        notes.append(f"The groups differ in more than their names say: {'; '.join(unnamed)}.")
    counts = [Counter(group.seeds) for group in groups]
    for name, group, count in zip(names, groups, counts, strict=True):
        for seed in (seed for seed, n in count.items() if n > 1):
            runs = [str(record.path) for record in group.records if record.seed == seed]
            notes.append(
                f"{name}: seed {seed} appears {len(runs)} times ({', '.join(runs)}). All "
                "count in the mean, none is paired."
            )
    single = [{seed for seed, n in count.items() if n == 1} for count in counts]
    return notes + [
        f"{name} shares no seed with {names[0]} that could be paired: no differences."
        for name, seeds in zip(names[1:], single[1:], strict=True)
        if not seeds & single[0]
    ]
