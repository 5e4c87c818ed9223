"""What a study found: a table for the terminal, a page, and a file for spreadsheets."""

import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from amcl.results.table import Table
from amcl.search.plots import Axis, told
from amcl.search.records import ENDINGS, Record
from amcl.search.verdict import Verdict

REASON = 48  # characters of a reason in a table


def table(
    records: Sequence[Record], objective_label: str, share: bool, limit: int | None = None
) -> Table:
    """Return trials, the best first, then those without a value; at most `limit`."""
    shown = _ranked(records)[:limit]
    fields = _fields(records)
    rows = [_row(record, fields, share) for record in shown]
    value = objective_label + (" (%)" if share else "")
    fewer = len(shown) < len(records)
    caption = f"{len(shown)} of {len(records)} trials" if fewer else ""
    return Table(["trial", value, "ending", *fields], rows, caption, left=3)


def markdown(
    records: Sequence[Record],
    axes: Mapping[str, Axis],
    objective_label: str,
    share: bool,
    best_file: str,
    plots: Sequence[str],
    verdict: Verdict | None,
) -> str:
    """A page: what was searched, what to train with, how trials ended, pictures, and all trials."""
    trials = "1 trial" if len(records) == 1 else f"{len(records)} trials"
    space = [[f"`{name}`", _told_axis(axis)] for name, axis in axes.items()]
    parts = [
        "# Hyper-parameter search",
        f"{trials} for the greatest {objective_label}.",
        "## What was searched",
        _grid(["field", "values"], space),
        "## What to train with",
        _chosen(verdict, best_file),
        "## How the trials ended",
        _grid(["ending", "trials", "reasons"], _endings(records)),
        *(["## Pictures"] if plots else []),
        *(f"![{PurePath(plot).stem.replace('_', ' ')}]({quote(plot)})" for plot in plots),
        "## All trials",
        table(records, objective_label, share).to_markdown().rstrip() if records else "None.",
    ]
    return "\n\n".join(parts) + "\n"


def csv_text(records: Sequence[Record]) -> str:
    """A row for each trial in order, with numbers in full; a field it does not have is empty.

    >>> print(
    ...     csv_text([Record(number=0, ending="complete", point={"eta": 0.5}, value=0.25)]), end=""
    ... )
    number,ending,value,reason,run,eta
    0,complete,0.25,,,0.5
    """
    fields = _fields(records)
    rows = []
    for r in sorted(records, key=lambda r: r.number):
        value = "" if r.value is None else str(r.value)
        point = ["" if name not in r.point else _exact(r.point[name]) for name in fields]
        rows.append([str(r.number), r.ending, value, r.reason, r.run, *point])
    return Table(["number", "ending", "value", "reason", "run", *fields], rows).to_csv()


def _exact(value: Any) -> str:
    """Texts and numbers as they are, all else as JSON: true, null, [2048, 128]."""
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value) if plain else json.dumps(value)


def _ranked(records: Sequence[Record]) -> list[Record]:
    """The complete from the greatest value down, then the others by ending and number."""

    def rank(record: Record) -> tuple[int, float, int]:
        known = record.value is not None and math.isfinite(record.value)
        worth = record.value if known and record.value is not None else -math.inf
        return ENDINGS.index(record.ending), -worth, record.number

    return sorted(records, key=rank)


def _fields(records: Sequence[Record]) -> list[str]:
    """All fields that occur, in the order of the trials."""
    return list(dict.fromkeys(name for record in records for name in record.point))


def _row(record: Record, fields: Sequence[str], share: bool) -> list[str]:
    point = [told(record.point[name]) if name in record.point else "–" for name in fields]
    return [str(record.number), _number(record.value, share), _ending(record), *point]


def _number(value: float | None, share: bool) -> str:
    """A value with three digits, shares in per cent."""
    if value is None:
        return "–"
    value = 100 * value if share else value
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def _ending(record: Record) -> str:
    reason = _first_line(record)
    short = reason if len(reason) <= REASON else reason[: REASON - 1].rstrip() + "…"
    return f"{record.ending}: {short}" if short else record.ending


def _first_line(record: Record) -> str:
    """A reason without what follows its first line, such as where an error was raised."""
    return next(iter(record.reason.strip().splitlines()), "")


def _told_axis(axis: Axis) -> str:
    if axis.choices is not None:
        return " · ".join(map(told, axis.choices))
    return f"{told(axis.low)} to {told(axis.high)}" + (", on a log scale" if axis.log else "")


def _chosen(verdict: Verdict | None, best_file: str) -> str:
    """What the trials say, and the settings to train with."""
    if verdict is None:
        return "No trial came to its end with a value, so there is none to train with."
    chosen = verdict.chosen
    where = f" (`{chosen.run}`)" if chosen.run else ""
    return "\n\n".join(
        [
            " ".join(verdict.sentences()),
            f"The settings of trial {chosen.number}{where}:",
            _grid(["field", "value"], [[f"`{k}`", told(v)] for k, v in chosen.point.items()]),
            f"To train with them (`{best_file}` has the values in full):",
            f"```bash\namcl pretrain --config {shlex.quote(best_file)}\n```",
        ]
    )


def _endings(records: Sequence[Record]) -> list[list[str]]:
    """How many ended how, with the number of times of each reason."""
    rows = []
    for ending in ENDINGS:
        ended = [r for r in records if r.ending == ending]
        reasons = Counter(_first_line(r) for r in ended if _first_line(r)).most_common()
        if ended:
            told_reasons = "; ".join(f"{reason} ({count}×)" for reason, count in reasons)
            rows.append([ending, str(len(ended)), told_reasons])
    return rows


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in Markdown; "None." without any."""
    return Table(header, rows, left=len(header)).to_markdown().rstrip() if rows else "None."
