"""What the runs of a sweep came to, for people and for spreadsheets."""

import csv
import io
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from amcl.evaluation.results import SHARES
from amcl.results import Record

SEED = "seed"
BAD = ("diverged", "failed")
PADDING = 3  # columns of a terminal between two columns of a table


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs that differ in their seeds alone."""

    values: dict[str, str]
    records: tuple[Record, ...]

    def metric(self, name: str) -> str:
        """Mean ± standard deviation over the seeds, of runs that came to their end."""
        ended = [f.metrics for f in self.records if f.status not in BAD]
        found = [metrics[name] for metrics in ended if name in metrics]
        if not found:
            return ""
        mean = number(name, statistics.fmean(found))
        if len(found) == 1:
            return mean
        return f"{mean} ± {number(name, statistics.stdev(found))}"

    @property
    def runs(self) -> str:
        """How many runs, and how many of them did not end well."""
        count = str(len(self.records))
        for status in ("collapsed", *BAD):
            if bad := sum(f.status == status for f in self.records):
                count += f", {bad} {status}"
        return count


def groups(records: Sequence[Record]) -> list[Group]:
    """Runs by what they have in common but for the seed, in the order of the sweep."""
    found: dict[tuple[tuple[str, str], ...], list[Record]] = {}
    for record in records:
        key = tuple((n, v) for n, v in record.values.items() if n != SEED)
        found.setdefault(key, []).append(record)
    return [Group(values=dict(key), records=tuple(runs)) for key, runs in found.items()]


def table(records: Sequence[Record], width: int = 80) -> Table:
    """A row for each group of runs, with as many columns as `width` has room for.

    Headers are broken at blanks and underscores alone; the caption says what is left out.
    """
    header, rows = _cells(records)
    names = [re.sub(r"[_ ](?=.)", lambda at: at[0].strip() + "\n", name) for name in header]
    least = [
        max(len(word) for text in (name, *cells) for word in text.split() or [""])
        for name, *cells in zip(names, *rows, strict=True)
    ]
    fit, room = 0, width - 1
    while fit < len(header) and (room := room - least[fit] - PADDING) >= 0:
        fit += 1
    fit = max(fit, 1)
    out = Table(box=SIMPLE_HEAD)
    for name, words in zip(names[:fit], least, strict=False):
        out.add_column(Text(name), overflow="fold", min_width=words)
    for row in rows:
        out.add_row(*map(Text, row[:fit]))  # brackets in the name of a folder are no mark-up
    if fit < len(header):
        out.caption = f"left out for want of room: {', '.join(header[fit:])}"
    return out


def markdown(records: Sequence[Record]) -> str:
    """The same for a page."""
    header, rows = _cells(records)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines) + "\n"


def csv_text(records: Sequence[Record]) -> str:
    """A row for each run, with every number in full."""
    fields = list(dict.fromkeys(name for f in records for name in f.values))
    metrics = list(dict.fromkeys(name for f in records for name in f.metrics))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["run", *fields, "ending", "reason", "epoch", *metrics])
    for f in records:
        values = [f.values.get(name, "") for name in fields]
        numbers = [f.metrics.get(name, "") for name in metrics]
        writer.writerow([f.name, *values, f.status, f.reason, f.epoch, *numbers])
    return out.getvalue()


def line(record: Record) -> str:
    """Return a record as a line for people.

    >>> line(Record(name="tau=0.1", metrics={"knn_validation": 0.5}))
    'tau=0.1  knn_validation 50.0 %'
    """
    if record.status in BAD:
        return f"{record.name}  {record.status}: {record.reason}"
    numbers = [f"{n} {number(n, record.metrics[n])}" for n in _shown([record])]
    bad = [f"({record.status})"] if record.status != "complete" else []
    return "  ".join([record.name, *numbers, *bad])


def number(name: str, value: float) -> str:
    """A metric for people: accuracies in per cent."""
    return f"{100 * value:.1f} %" if _is_share(name) else f"{value:.3g}"


def _cells(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    fields = list(dict.fromkeys(n for f in records for n in f.values if n != SEED))
    metrics = _shown(records)
    rows = [
        [
            *(group.values.get(name, "–") for name in fields),
            group.runs,
            *(group.metric(name) for name in metrics),
        ]
        for group in groups(records)
    ]
    return [*fields, "runs", *metrics], rows


def _shown(records: Sequence[Record]) -> list[str]:
    """Accuracies; where there are none, every metric."""
    names = list(dict.fromkeys(n for f in records for n in f.metrics))
    return [n for n in names if _is_share(n)] or names


def _is_share(name: str) -> bool:
    return name.startswith("knn") or any(part in name for part in SHARES)
