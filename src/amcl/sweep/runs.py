"""Sweeps: many runs, each once, whatever interrupts them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amcl.errors import Interrupted
from amcl.evaluation import PROTOCOLS
from amcl.files import write_text
from amcl.results import Record
from amcl.results.groups import MEASURED
from amcl.settings import choose, whole_number
from amcl.sweep.engine import Runs, Trials, work_in_processes
from amcl.sweep.evaluate import (
    SPLITS,
    Split,
    check_split,
    evaluate_run,
    metrics_of,
    splits_for,
)
from amcl.sweep.folder import DEFINITION, SweepFolder
from amcl.sweep.grid import Point
from amcl.sweep.single_run import error_line, train_or_resume
from amcl.sweep.storage import resume_command
from amcl.sweep.table import line, runs_table, table
from amcl.sweep.workers import Tell, for_workers

if TYPE_CHECKING:
    import optuna

RequiredMetrics = Mapping[str, Sequence[str]]


def sweep(
    points: Sequence[Point],
    out: str | Path,
    *,
    jobs: int = 1,
    protocols: Sequence[str] = (),
    split: Split = "validation",
    settings: Mapping[str, Any] | None = None,
    required_metrics: RequiredMetrics | None = None,
    again: bool = False,
    others: bool = True,
    storage: str = "",
    study: str | None = None,
    tell: Tell = print,
) -> list[Record]:
    """Carry out runs, each once, and evaluate each of them.

    The same call resumes an interrupted sweep, and new points join those of the folder. A script
    with several jobs needs `if __name__ == "__main__":` around its call.

    Args:
        points: Runs to carry out.
        out: Folder of the sweep, new or of the same sweep.
        jobs: Number of processes that share the work.
        protocols: Protocols that evaluate each run at its end; none for its last probe alone.
        split: Images that protocols evaluate on.
        settings: Settings of protocols by name; None for those of `amcl evaluate`.
        required_metrics: Metrics that a protocol must have measured, else it evaluates again.
        again: Whether to repeat runs that diverged or failed.
        others: Whether to carry out the other runs of the folder, too.
        storage: Any database that Optuna takes, or path of a journal, for several machines; "" for
            a file in `out`.
        study: Name of the study in the database; None for the name of the folder.
        tell: Function that shows a line to people.

    Returns:
        The records of the runs that have ended, in their order.

    Example:
        >>> from amcl.recipes import recipe
        >>> from amcl.sweep import grid
        >>> points = grid(recipe("builtin-simclr"), {"tau": ["0.1", "0.5"], "seed": ["0", "1"]})
        >>> records = sweep(points, "sweeps/tau", jobs=2)  # doctest: +SKIP
        >>> [record.metrics["knn_validation"] for record in records]  # doctest: +SKIP
    """
    whole_number("jobs", jobs)
    choose("split", split, SPLITS)
    for protocol in protocols:
        PROTOCOLS[protocol].check((settings or {}).get(protocol))
    points = [Point(values=p.values, config=for_workers(p.config)) for p in points]
    for point in points if protocols else ():
        check_split(point.config, split)
    folder = SweepFolder(Path(out), storage, study)
    stored = folder.add(points, protocols, split)
    requested_names = {point.name for point in points}
    points = [point for point in stored if others or point.name in requested_names]
    trials = Trials(folder.study)
    runs = SweepRuns(
        names=tuple(point.name for point in points),
        folder=SweepFolder(folder.path, *folder.address),
        first=trials.count,
        points={point.name: point for point in points},
        protocols=tuple(protocols),
        split=split,
        settings=settings,
        required_metrics=required_metrics or {},
        again=again,
    )
    try:
        work_in_processes(runs, trials, jobs, tell, folder.path / "logs")
    except Interrupted as interrupted:
        missing = len(points) - len(folder.records(points))
        command = resume_command("sweep", folder.path, folder.address[0], *["--again"] * again)
        raise interrupted.with_message(
            f"stopped with {missing} of {len(points)} runs to go, everything is saved. Resume "
            f"with: {command}"
        ) from interrupted
    finally:
        all_records = folder.records(stored)
        write_text(folder.path / "runs.csv", runs_table(all_records).to_csv())
        write_text(folder.path / "table.md", table(all_records).to_markdown())
    records = [record for record in all_records if record.name in runs.names]
    if missing := len(points) - len(records):
        tell(
            f"{missing} of {len(points)} runs are with another process: the table is without them."
        )
    return records


@dataclass(frozen=True, kw_only=True)
class SweepRuns(Runs):
    """The runs of a sweep, with the protocols that evaluate them.

    The arguments are those of `sweep`.
    """

    points: Mapping[str, Point]
    protocols: tuple[str, ...] = ()
    split: Split = "validation"
    settings: Mapping[str, Any] | None = None
    required_metrics: RequiredMetrics
    again: bool = False

    def open(self) -> "optuna.Study":
        return self.folder.open(DEFINITION, checked=True)

    def is_done(self, record: Record) -> bool:
        if record.status not in MEASURED:
            return not self.again
        return not self._missing(record)

    def carry_out(
        self, trial: "optuna.Trial", name: str, previous: Record | None
    ) -> tuple[Record, float]:
        """Train, unless that is done, and evaluate by the protocols that are missing."""
        config = self.points[name].config
        run = self.folder.run(name)
        record = train_or_resume(config, run)
        if previous is not None:
            record = replace(record, metrics=previous.metrics | record.metrics)
        if record.status in MEASURED:
            protocols = self._missing(previous)
            try:
                metrics = evaluate_run(config, run, protocols, self.split, self.settings)
                record = replace(record, metrics=record.metrics | metrics)
            except (RuntimeError, MemoryError) as error:
                record = replace(record, status="failed", reason=f"judging: {error_line(error)}")
        # A sweep has no objective: the first metric is for the dashboards of Optuna alone.
        return record, next((v for v in record.metrics.values() if math.isfinite(v)), 0.0)

    def on_end(
        self, record: Record, records: dict[str, Record], seconds: float, tell: Tell
    ) -> None:
        count = sum(name in records for name in self.names)
        tell(f"{count}/{len(self.names)}  {line(record)}")

    def _missing(self, record: Record | None) -> list[str]:
        """Return the protocols that have not measured what they should."""
        return [p for p in self.protocols if record is None or not self._has_evaluated(p, record)]

    def _has_evaluated(self, protocol: str, record: Record) -> bool:
        if PROTOCOLS[protocol].own_images:
            # The metrics may be of other images or settings: the protocol keeps a result of each,
            # and returns it at once.
            return False
        splits = splits_for(protocol, self.split)
        measured = [metrics_of(record.metrics, protocol, split) for split in splits]
        required = {*self.required_metrics.get(protocol, ())}
        return any(metrics and required <= metrics.keys() for metrics in measured)
