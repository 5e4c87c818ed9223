"""The trials of a search: suggested by a sampler, cut short by a pruner, scored by an objective."""

import math
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from amcl.config import Config
from amcl.config.fields import spelled, with_values
from amcl.errors import RunError
from amcl.progress import duration
from amcl.results import Record
from amcl.search.folder import Definition
from amcl.search.objective import LABELS, METRICS, Objective, format_score, probe_score, score
from amcl.search.space import suggest
from amcl.search.verdict import best_of, complete
from amcl.sweep.engine import Lost, Runs
from amcl.sweep.evaluate import evaluate_run
from amcl.sweep.single_run import (
    MetricsRow,
    StopRun,
    collapse_reason,
    error_line,
    read_probes,
    train_or_resume,
)
from amcl.sweep.workers import Tell
from amcl.training.watch import COLLAPSED

if TYPE_CHECKING:
    import optuna

_MAX_FAILURES = 3  # trials that fail at the start of a study: their common settings are at fault


@dataclass(frozen=True, kw_only=True)
class SearchRuns(Runs):
    """The trials of a search.

    Args:
        definition: Definition of the study.
        images: Number of validation images that the objective is an accuracy on, or None.
        jobs: Number of processes.
        complete: Number of trials that were complete before.
        keep_checkpoints: Whether to keep the checkpoints of trials that have ended.
    """

    definition: Definition
    images: int | None = None
    jobs: int = 1
    complete: int = 0
    keep_checkpoints: bool = False

    def open(self, checked: bool = True) -> "optuna.Study":
        from amcl.search.pruning import pruner_of
        from amcl.search.sampler import SeededSampler

        return self.folder.open(
            self.definition.to_dict(),
            sampler=SeededSampler(self.definition.config.run.seed),
            pruner=pruner_of(self.definition, self.images),
            checked=checked,
        )

    def carry_out(
        self, trial: "optuna.Trial", name: str, previous: Record | None
    ) -> tuple[Record, float]:
        definition = self.definition
        run = self.folder.run(name)
        point = suggest(trial, definition.space, definition.config)
        try:
            config = with_values(definition.config, point)
        except ValueError as error:
            return Record(name=name, status="invalid", reason=str(error)), math.nan
        watch = _Watch(trial, definition.objective, config.run.epochs, run)
        record = train_or_resume(config, run, watch)
        watch.report()
        if record.status == "complete":
            record = self._evaluate(config, run, record)
        return record, record.metrics.get(METRICS[definition.objective], math.nan)

    def _evaluate(self, config: Config, run: Path, record: Record) -> Record:
        """Return the record with the objective, or with the reason why there is none."""
        objective = self.definition.objective
        try:
            protocols = ["linear"] if objective == "linear" else []
            metrics = record.metrics | evaluate_run(config, run, protocols, "validation")
        except (ValueError, RuntimeError, MemoryError) as error:
            return replace(record, status="failed", reason=f"judging: {error_line(error)}")
        value = metrics[METRICS[objective]]
        if not math.isfinite(value):
            reason = f"{LABELS[objective]}: {value}"
            return replace(record, status="diverged", reason=reason, metrics=metrics)
        return replace(record, metrics=metrics)

    def on_end(
        self, record: Record, records: dict[str, Record], seconds: float, tell: Tell
    ) -> None:
        checkpoints = self.folder.run(record.name) / "checkpoints"
        if not self.keep_checkpoints and checkpoints.is_dir():
            shutil.rmtree(checkpoints)
        tell(self._line(record, records))
        if message := self._time_left(records, seconds):
            tell(message)
        if len(records) >= _MAX_FAILURES and all(r.status == "failed" for r in records.values()):
            reason, _ = Counter(r.reason for r in records.values()).most_common(1)[0]
            raise RunError(f"all {len(records)} trials so far failed: {reason}")

    def _line(self, record: Record, records: Mapping[str, Record]) -> str:
        """Return a line on a trial that has ended."""
        objective = self.definition.objective
        best = best_of(objective, [*records.values()])
        value = score(objective, record)
        if value is None:
            result = f"{record.status}: {record.reason}"
        else:
            result = f"{LABELS[objective]} {format_score(objective, value)}"
            if best is not None and best.name == record.name:
                result += ", the highest so far"
            elif best is not None:
                result += f" (highest {format_score(objective, score(objective, best) or 0.0)})"
        point = " ".join(
            f"{n}={v:.3g}" if isinstance(v, float) else f"{n}={spelled(v)}"
            for n, v in record.values.items()
        )
        count = sum(name in records for name in self.names)
        return f"{count}/{len(self.names)}  trial {int(record.name)}  {result}  {point}"

    def _time_left(self, records: Mapping[str, Record], seconds: float) -> str:
        """Return a message on the time that is left, after the first complete trial."""
        missing = sum(name not in records for name in self.names)
        scored = complete(self.definition.objective, [*records.values()])
        if missing <= 0 or len(scored) != self.complete + 1:
            return ""
        rest = duration(seconds * missing / self.jobs)
        at_most = "" if self.definition.pruner == "off" else " at most, as some may be cut short"
        return (
            f"that trial took {duration(seconds)}: the other {missing} take about {rest}{at_most}"
        )


class _Watch:
    """Ends a trial at a probe if it has collapsed, or if the pruner cuts it short."""

    def __init__(self, trial: "optuna.Trial", objective: Objective, epochs: int, run: Path) -> None:
        self.trial = trial
        self.objective = objective
        self.epochs = epochs
        self.run = run
        self.reported: set[int] = set()

    def report(self) -> list[MetricsRow]:
        """Report all probes to the study, including those before an interruption."""
        import optuna

        rows = read_probes(self.run)
        try:
            for row in rows:
                if row["epoch"] not in self.reported:
                    self.trial.report(probe_score(self.objective, row), row["epoch"])
                    self.reported.add(row["epoch"])
        except optuna.exceptions.UpdateFinishedTrialError:
            raise Lost from None
        return rows

    def __call__(self, row: MetricsRow) -> None:
        rows = self.report()
        if row["epoch"] == self.epochs:
            return  # it has come to its end, and its evaluation says more
        spreads = [row.get("spread", 1.0) for row in rows[-2:]]
        if len(spreads) == 2 and max(spreads) < COLLAPSED:
            raise StopRun("collapsed", f"{collapse_reason(spreads[-1])}, at two probes running")
        if self.trial.should_prune():
            value = format_score(self.objective, probe_score(self.objective, row))
            raise StopRun("pruned", f"{value} after epoch {row['epoch']} was too little")
