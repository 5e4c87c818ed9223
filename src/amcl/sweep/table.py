"""The records of a sweep as tables: groups of seeds for people, every run for spreadsheets."""

from collections.abc import Sequence

from amcl.results.formatting import MISSING, format_metric, is_detail, is_share
from amcl.results.groups import MEASURED, SEED, group_by_seed
from amcl.results.record import Record
from amcl.results.table import Table


def table(records: Sequence[Record]) -> Table:
    """Return a row for each group of seeds: mean ± standard deviation of the runs that ended.

    Example:
        >>> runs = [Record(name=s, values={"tau": "1", "seed": s}, seed=int(s)) for s in "01"]
        >>> print(table(runs).to_markdown(), end="")
        | tau | runs |
        | --- | --- |
        | 1 | 2 |
    """
    fields = [name for name in field_names(records) if name != SEED]
    metrics = _main_metrics(records)
    rows = []
    for group in group_by_seed(records):
        values = [str(group.values.get(name, MISSING)) for name in fields]
        measured = [(name, group.measurement(name)) for name in metrics]
        numbers = [format_metric(name, m.mean, m.std) if m.numbers else "" for name, m in measured]
        rows.append([*values, group.count, *numbers])
    return Table([*fields, "runs", *metrics], rows, left=len(fields) + 1)


def runs_table(records: Sequence[Record]) -> Table:
    """Return a row for each run, with every number in full.

    Example:
        >>> print(runs_table([Record(name="a", metrics={"spread": 1 / 3})]).to_csv(), end="")
        run,status,reason,epoch,spread
        a,complete,,,0.3333333333333333
    """
    fields = field_names(records)
    metrics = _metrics(records)
    rows = []
    for r in records:
        values = [r.values.get(name) for name in fields]
        numbers = [r.metrics.get(name) for name in metrics]
        entries = [r.name, *values, r.status, r.reason, r.epoch, *numbers]
        rows.append(["" if entry is None else str(entry) for entry in entries])
    return Table(["run", *fields, "status", "reason", "epoch", *metrics], rows)


def line(record: Record) -> str:
    """Return a run in one line.

    Example:
        >>> line(Record(name="tau=0.1", metrics={"knn_validation": 0.5}))
        'tau=0.1  knn_validation 50.0%'
    """
    if record.status not in MEASURED:
        return f"{record.name}  {record.status}: {record.reason}"
    numbers = [f"{n} {format_metric(n, record.metrics[n])}" for n in _main_metrics([record])]
    status = [f"({record.status})"] if record.status != "complete" else []
    return "  ".join([record.name, *numbers, *status])


def field_names(records: Sequence[Record]) -> list[str]:
    """Return all fields in which runs differ, in the order in which they appear."""
    return list(dict.fromkeys(name for record in records for name in record.values))


def _metrics(records: Sequence[Record]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record.metrics))


def _main_metrics(records: Sequence[Record]) -> list[str]:
    """Return accuracies and mean average precisions; where there are none, every metric."""
    names = _metrics(records)
    return [name for name in names if is_share(name) and not is_detail(name)] or names
