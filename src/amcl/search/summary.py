"""Tables of the trials of a study: for the terminal, for a page, and for spreadsheets."""

import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from amcl.results import STATUSES, Record, Table
from amcl.search.folder import Definition
from amcl.search.objective import LABELS, Objective, is_share, score
from amcl.search.space import Choice, Range
from amcl.search.verdict import Verdict

REASON = 48  # characters of a reason in a table


def table(records: Sequence[Record], objective: Objective, limit: int | None = None) -> Table:
    """Return trials, the best first, then those without a value; at most `limit`."""
    shown = _ranked(records, objective)[:limit]
    rows = [_row(record, _fields(records), objective) for record in shown]
    value = LABELS[objective] + (" (%)" if is_share(objective) else "")
    fewer = len(shown) < len(records)
    caption = f"{len(shown)} of {len(records)} trials" if fewer else ""
    return Table(["trial", value, "ending", *_fields(records)], rows, caption, left=3)


def markdown(
    records: Sequence[Record],
    definition: Definition,
    best_file: str,
    plots: Sequence[str],
    missing: Mapping[str, str],
    verdict: Verdict | None,
) -> str:
    """Return a page: the space, the settings to train with, pictures, and all trials.

    Args:
        records: Trials that have ended.
        definition: Definition of the study.
        best_file: File of the chosen settings.
        plots: Files of pictures.
        missing: Reasons why other pictures are not drawn.
        verdict: Verdict on the trials, if one is complete.
    """
    trials = "1 trial" if len(records) == 1 else f"{len(records)} trials"
    objective = definition.objective
    space = [[f"`{name}`", _format_axis(axis)] for name, axis in definition.space.items()]
    parts = [
        "# Hyper-parameter search",
        f"{trials} for the greatest {LABELS[objective]}.",
        "## What was searched",
        _grid(["field", "values"], space),
        "## What to train with",
        _chosen(verdict, best_file),
        "## How the trials ended",
        _grid(["ending", "trials", "reasons"], _endings(records)),
        *(["## Pictures"] if plots or missing else []),
        *(f"![{PurePath(plot).stem.replace('_', ' ')}]({quote(plot)})" for plot in plots),
        *(f"`{name}` is not drawn: {reason}." for name, reason in missing.items()),
        "## All trials",
        table(records, objective).to_markdown().rstrip() if records else "None.",
    ]
    return "\n\n".join(parts) + "\n"


def csv_text(records: Sequence[Record], objective: Objective) -> str:
    """Return a row for each trial in order, with numbers in full; a missing field is empty.

    >>> record = Record(name="0000", values={"eta": 0.5}, metrics={"knn_validation": 0.25})
    >>> print(csv_text([record], "knn"), end="")
    number,ending,value,reason,run,eta
    0,complete,0.25,,trials/0000,0.5
    """
    fields, rows = _fields(records), []
    for r in sorted(records, key=lambda r: int(r.name)):
        value = score(objective, r)
        point = ["" if name not in r.values else _exact(r.values[name]) for name in fields]
        number, run = str(int(r.name)), f"trials/{r.name}"
        rows.append([number, r.status, "" if value is None else str(value), r.reason, run, *point])
    return Table(["number", "ending", "value", "reason", "run", *fields], rows).to_csv()


def _exact(value: Any) -> str:
    """Return texts and numbers as they are, all else as JSON: true, null, [2048, 128]."""
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value) if plain else json.dumps(value)


def _ranked(records: Sequence[Record], objective: Objective) -> list[Record]:
    """Return the complete from the greatest value down, then the others by status and number."""

    def rank(record: Record) -> tuple[int, float, int]:
        value = score(objective, record)
        worth = -math.inf if value is None else value
        return STATUSES.index(record.status), -worth, int(record.name)

    return sorted(records, key=rank)


def _fields(records: Sequence[Record]) -> list[str]:
    """Return all fields that occur, in the order of the trials."""
    return list(dict.fromkeys(name for record in records for name in record.values))


def _row(record: Record, fields: Sequence[str], objective: Objective) -> list[str]:
    point = [format_value(record.values[n]) if n in record.values else "–" for n in fields]
    value = score(objective, record)
    return [str(int(record.name)), _number(value, is_share(objective)), _ending(record), *point]


def _number(value: float | None, share: bool) -> str:
    """Return a value with three digits, shares in percent."""
    if value is None:
        return "–"
    value = 100 * value if share else value
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def format_value(value: Any) -> str:
    """Return a value of a field in few characters: three digits of a fraction.

    >>> [format_value(v) for v in (0.123456, 1e-5, 65536, 4.0, True, None, (2048, 128), "top_k")]
    ['0.123', '1e-05', '65536', '4', 'true', 'none', '2048, 128', 'top_k']
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
    if isinstance(value, tuple | list):
        return ", ".join(map(format_value, value)) or "()"
    return str(value)


def _ending(record: Record) -> str:
    reason = _first_line(record)
    short = reason if len(reason) <= REASON else reason[: REASON - 1].rstrip() + "…"
    return f"{record.status}: {short}" if short else record.status


def _first_line(record: Record) -> str:
    """A reason without what follows its first line, such as where an error was raised."""
    return next(iter(record.reason.strip().splitlines()), "")


def _format_axis(axis: Range | Choice) -> str:
    if isinstance(axis, Choice):
        return " · ".join(map(format_value, axis.values))
    scale = ", on a log scale" if axis.log else ""
    return f"{format_value(axis.low)} to {format_value(axis.high)}{scale}"


def _chosen(verdict: Verdict | None, best_file: str) -> str:
    """Return the verdict, and the settings to train with."""
    if verdict is None:
        return "No trial came to its end with a value, so there is none to train with."
    chosen = verdict.chosen
    values = [[f"`{name}`", format_value(value)] for name, value in chosen.values.items()]
    return "\n\n".join(
        [
            " ".join(verdict.sentences()),
            f"The settings of trial {int(chosen.name)} (`trials/{chosen.name}`):",
            _grid(["field", "value"], values),
            f"To train with them (`{best_file}` has the values in full):",
            f"```bash\namcl pretrain --config {shlex.quote(best_file)}\n```",
        ]
    )


def _endings(records: Sequence[Record]) -> list[list[str]]:
    """Return the number of trials of each status, with the number of times of each reason."""
    rows = []
    for status in STATUSES:
        ended = [r for r in records if r.status == status]
        counts = Counter(_first_line(r) for r in ended if _first_line(r)).most_common()
        if ended:
            reasons = "; ".join(f"{reason} ({count}×)" for reason, count in counts)
            rows.append([status, str(len(ended)), reasons])
    return rows


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in Markdown; "None." without any."""
    return Table(header, rows, left=len(header)).to_markdown().rstrip() if rows else "None."
