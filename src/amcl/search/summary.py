"""Tables of the trials of a study: for the terminal, for a page, and for spreadsheets."""

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from amcl.results import STATUSES, Record, Table
from amcl.results.formatting import MISSING, plural
from amcl.search.folder import Definition
from amcl.search.objective import LABELS, Objective, is_share, ranked, score
from amcl.search.space import Choice, Range
from amcl.search.verdict import Verdict
from amcl.sweep.table import field_names

_REASON_LENGTH = 48  # characters of a reason in a table


def table(records: Sequence[Record], objective: Objective) -> Table:
    """Return a row for each trial, the best first, then those without a value."""
    fields = field_names(records)
    share = is_share(objective)
    rows = []
    for record in ranked(objective, records):
        point = [format_value(record.values[n]) if n in record.values else MISSING for n in fields]
        value = _three_digits(score(objective, record), share)
        rows.append([str(int(record.name)), value, _ending(record), *point])
    return Table(["trial", LABELS[objective] + " (%)" * share, "ending", *fields], rows, left=3)


def trials_csv(records: Sequence[Record], objective: Objective) -> str:
    """Return a row for each trial in order, with numbers in full; a missing field is empty.

    >>> record = Record(name="0000", values={"eta": 0.5}, metrics={"knn_validation": 0.25})
    >>> print(trials_csv([record], "knn"), end="")
    number,ending,value,reason,run,eta
    0,complete,0.25,,trials/0000,0.5
    """
    fields = field_names(records)
    rows = []
    for r in sorted(records, key=lambda r: int(r.name)):
        value = score(objective, r)
        point = [_in_full(r.values[name]) if name in r.values else "" for name in fields]
        score_text = "" if value is None else str(value)
        rows.append([str(int(r.name)), r.status, score_text, r.reason, f"trials/{r.name}", *point])
    return Table(["number", "ending", "value", "reason", "run", *fields], rows).to_csv()


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
    objective = definition.objective
    space = [[f"`{name}`", _format_axis(axis)] for name, axis in definition.space.items()]
    paragraphs = [
        "# Hyper-parameter search",
        f"{plural(len(records), 'trial')} for the greatest {LABELS[objective]}.",
        "## What was searched",
        _markdown_table(["field", "values"], space),
        "## What to train with",
        *_chosen(verdict, best_file),
        "## How the trials ended",
        _markdown_table(["ending", "trials", "reasons"], _endings(records)),
        *(["## Pictures"] if plots or missing else []),
        *(f"![{PurePath(plot).stem.replace('_', ' ')}]({quote(plot)})" for plot in plots),
        *(f"`{name}` is not drawn: {reason}." for name, reason in missing.items()),
        "## All trials",
        table(records, objective).to_markdown().rstrip() if records else "None.",
    ]
    return "\n\n".join(paragraphs) + "\n"


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


def _in_full(value: Any) -> str:
    """Return texts and numbers as they are, other values as JSON: true, null, [2048, 128]."""
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value) if plain else json.dumps(value)


def _three_digits(value: float | None, share: bool) -> str:
    """Return a value with three digits, shares in percent."""
    if value is None:
        return MISSING
    value = 100 * value if share else value
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def _ending(record: Record) -> str:
    reason = _first_line(record)
    if len(reason) > _REASON_LENGTH:
        reason = reason[: _REASON_LENGTH - 1].rstrip() + "…"
    return f"{record.status}: {reason}" if reason else record.status


def _first_line(record: Record) -> str:
    """Return the first line of a reason: those behind it are the traceback of an error."""
    return next(iter(record.reason.strip().splitlines()), "")


def _format_axis(axis: Range | Choice) -> str:
    if isinstance(axis, Choice):
        return " · ".join(map(format_value, axis.values))
    scale = ", on a log scale" if axis.log else ""
    return f"{format_value(axis.low)} to {format_value(axis.high)}{scale}"


def _chosen(verdict: Verdict | None, best_file: str) -> list[str]:
    """Return paragraphs on the verdict and the settings to train with."""
    if verdict is None:
        return ["No trial came to its end with a value, so there is none to train with."]
    chosen = verdict.chosen
    values = [[f"`{name}`", format_value(value)] for name, value in chosen.values.items()]
    return [
        " ".join(verdict.sentences()),
        f"The settings of trial {int(chosen.name)} (`trials/{chosen.name}`):",
        _markdown_table(["field", "value"], values),
        f"To train with them (`{best_file}` has the values in full):",
        f"```bash\namcl pretrain --config {shlex.quote(best_file)}\n```",
    ]


def _endings(records: Sequence[Record]) -> list[list[str]]:
    """Return the number of trials of each status, with the count of each reason."""
    rows = []
    for status in STATUSES:
        if reasons := [_first_line(r) for r in records if r.status == status]:
            counts = Counter(filter(None, reasons)).most_common()
            text = "; ".join(f"{reason} ({count}×)" for reason, count in counts)
            rows.append([status, str(len(reasons)), text])
    return rows


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in Markdown; "None." without any."""
    return Table(header, rows, left=len(header)).to_markdown().rstrip() if rows else "None."
