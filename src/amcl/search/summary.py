"""What a study found: a table for the terminal, a page, and a file for spreadsheets."""

import csv
import io
import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from rich.box import SIMPLE_HEAD
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from amcl.search.plots import Axis, told
from amcl.search.records import ENDINGS, Record
from amcl.search.verdict import Verdict

REASON = 48  # signs of a reason in a table
WHOLE = 13  # signs of the longest value that is broken last, such as top_k_softmax
TERMINAL = 80  # columns of a narrow one
ENDING = 2  # the place of the column that has reasons


def table(
    records: Sequence[Record], objective_label: str, share: bool, limit: int | None = None
) -> Table:
    """Trials for the terminal, the best first, then those without a value; at most `limit`."""
    shown = _ranked(records)[:limit]
    rows = [_row(record, _fields(records), share) for record in shown]
    out = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    names = _columns(records, objective_label, share)
    whole = _kept_whole([name.split() for name in names], rows)
    for place, name in enumerate(names):
        side: JustifyMethod = "left" if name == "ending" else "right"
        header = Text(name.replace(" ", "\n"))
        out.add_column(header, justify=side, overflow="fold", no_wrap=place in whole)
    for row in rows:
        out.add_row(*map(Text, row))
    if len(shown) < len(records):
        out.caption = f"{len(shown)} of {len(records)} trials"
    return out


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
    every = [_row(record, _fields(records), share) for record in _ranked(records)]
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
        _grid(_columns(records, objective_label, share), every),
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
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fields = _fields(records)
    writer.writerow(["number", "ending", "value", "reason", "run", *fields])
    for r in sorted(records, key=lambda r: r.number):
        point = ["" if name not in r.point else _exact(r.point[name]) for name in fields]
        writer.writerow([r.number, r.ending, r.value, r.reason, r.run, *point])
    return out.getvalue()


def _exact(value: Any) -> Any:
    """Texts and numbers as they are, all else as JSON: true, null, [2048, 128]."""
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return value if plain else json.dumps(value)


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


def _columns(records: Sequence[Record], objective_label: str, share: bool) -> list[str]:
    value = objective_label + (" (%)" if share else "")
    return ["trial", value, "ending", *_fields(records)]


def _kept_whole(headers: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> set[int]:
    """Columns to break last: all but the longest texts, if a terminal has room for them."""
    columns = [
        max(len(text) for text in [*header, *(row[place] for row in rows)])
        for place, header in enumerate(headers)
    ]
    whole = {place for place, width in enumerate(columns) if width <= WHOLE and place != ENDING}
    others = 10 * (len(columns) - len(whole))
    # A column that may not be broken would be cut where even these do not fit.
    fits = sum(columns[place] for place in whole) + others + len(columns) - 1 <= TERMINAL
    return whole if fits else set()


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
    """A table in Markdown; "None." without rows."""
    if not rows:
        return "None."
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
