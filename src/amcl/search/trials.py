"""The trials of a study, one after the other, by one process of perhaps many."""

import math
import shutil
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import optuna
from optuna.trial import Trial, TrialState

from amcl.progress import duration
from amcl.search.objective import LABELS, Objective, final, live, spelled_value
from amcl.search.records import Record, best_of, complete
from amcl.search.space import suggest
from amcl.search.storage import (
    SURPLUS,
    experiments_allowed,
    is_void,
    number_of,
    open_study,
    put_back,
    records_of,
)
from amcl.search.study import Definition, StudyFolder
from amcl.sweep.fields import spelled, with_values
from amcl.sweep.outcome import Outcome, Row, Stopped, carry_out, collapsed, probes, reason_of
from amcl.sweep.workers import Tell
from amcl.training import Config, RunError
from amcl.training.watch import COLLAPSED

_WRONG = 3  # so many trials that fail at the start of a study: it is not the trials


class _Surplus(Exception):
    """Another process has begun the last trial that was wanted."""


class _Failed(Exception):
    """A trial that could not be carried out."""


class _Lost(Exception):
    """A trial that was taken for dead while it lived, and is another's now."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What each process of a search is told."""

    folder: Path
    url: str
    name: str
    definition: Definition
    trials: int
    images: int | None = None
    """How many validation images the objective is an accuracy on."""
    jobs: int = 1
    complete: int = 0
    """How many trials were complete before this search began."""
    keep_checkpoints: bool = False


def work(plan: Plan, tell: Tell) -> None:
    """Carry out trials until there are as many as are wanted."""
    study = open_study(plan.url, plan.name, plan.definition, images=plan.images, checked=True)
    trials = _Trials(plan, study)
    while room(study, plan.trials) > 0:
        begun = time.monotonic()
        try:
            study.optimize(trials, n_trials=1, catch=_Failed)
        except _Surplus:
            return
        except ValueError:  # as Optuna says when it is told of a trial that has been ended
            if not trials.lost and trials.ended is None:
                raise
            tell("a trial was taken for dead while it lived, and another process has it now")
            continue
        if trials.ended is not None:
            records = records_of(study)
            trials.clean(trials.ended)  # not before its end is recorded: it might be resumed
            tell(_line(plan, trials.ended, records))
            if left := _time_left(plan, records, time.monotonic() - begun):
                tell(left)
            _stop_if_all_fail(records)


def room(study: optuna.Study, wanted: int) -> int:
    """How many trials are yet to be begun; those of processes that died are put back first."""
    with experiments_allowed():
        optuna.storages.fail_stale_trials(study)
    begun = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
    trials = study.get_trials(deepcopy=False, states=begun)
    return wanted - sum(not is_void(trial) for trial in trials)


class _Trials:
    """The objective function, as Optuna calls it."""

    def __init__(self, plan: Plan, study: optuna.Study) -> None:
        self.plan, self.study = plan, study
        self.folder = StudyFolder(plan.folder)
        self.ended: int | None = None
        self.lost = False

    def __call__(self, trial: Trial) -> float:
        self.ended, self.lost = None, False
        number = number_of(self.study, self._frozen(trial))
        if number >= self.plan.trials:
            trial.set_user_attr(SURPLUS, True)
            raise _Surplus
        trial.set_user_attr("number", number)
        run = self.folder.trial(number)
        trial.set_user_attr("run", str(run.relative_to(self.plan.folder)))
        try:
            value = self._value(trial, run)
        except (_Lost, optuna.exceptions.UpdateFinishedTrialError):
            self.lost = True
            raise
        except (_Failed, optuna.TrialPruned):
            raise
        except BaseException:  # a signal, a full disk: no fault of the trial
            put_back(self.study, self._frozen(trial))
            raise
        self.ended = number
        return value

    def clean(self, number: int) -> None:
        """Remove the checkpoints of a trial that has ended, unless they are kept."""
        checkpoints = self.folder.trial(number) / "checkpoints"
        if not self.plan.keep_checkpoints and checkpoints.is_dir():
            shutil.rmtree(checkpoints)

    def _frozen(self, trial: Trial) -> optuna.trial.FrozenTrial:
        return self.study.get_trials(deepcopy=False)[trial.number]

    def _value(self, trial: Trial, run: Path) -> float:
        definition = self.plan.definition
        point = suggest(trial, definition.space, definition.config)
        try:
            config = with_values(definition.config, point)
        except ValueError as error:
            raise self._end(trial, Outcome(ending="invalid", reason=str(error))) from None
        watch = _Watch(trial, definition.objective, config.run.epochs, run)
        outcome = carry_out(config, run, watch)
        watch.report()
        outcome, value = self._judge(config, run, outcome)
        if value is None:
            raise self._end(trial, outcome)
        trial.set_user_attr("ending", "complete")
        return value

    def _judge(self, config: Config, run: Path, outcome: Outcome) -> tuple[Outcome, float | None]:
        """The value of a complete trial; else the outcome says why it has none."""
        if outcome.ending != "complete":
            return outcome, None
        objective = self.plan.definition.objective
        try:
            value = final(objective, config, run, outcome)
        except (ValueError, RuntimeError, MemoryError) as error:
            reason = f"judging: {reason_of(error)}"
            return replace(outcome, ending="failed", reason=reason), None
        if not math.isfinite(value):
            return replace(outcome, ending="diverged", reason=f"{LABELS[objective]}: {value}"), None
        return outcome, value

    def _end(self, trial: Trial, outcome: Outcome) -> Exception:
        """Write down why a trial has no value; what to raise."""
        trial.set_user_attr("reason", outcome.reason)
        trial.set_user_attr("ending", outcome.ending)
        self.ended = trial.user_attrs["number"]
        if outcome.ending == "failed":
            return _Failed(outcome.reason)
        # To the sampler, a trial that was cut short is a bad one: it learns to stay away.
        return optuna.TrialPruned(outcome.reason)


class _Watch:
    """Looks at each probe of a trial: is it going anywhere?"""

    def __init__(self, trial: Trial, objective: Objective, epochs: int, run: Path) -> None:
        self.trial, self.objective, self.epochs, self.run = trial, objective, epochs, run
        self.reported: set[int] = set()

    def report(self) -> list[Row]:
        """Tell the study what all probes found, those of before an interruption too."""
        rows = probes(self.run)
        try:
            for row in rows:
                if row["epoch"] not in self.reported:
                    self.trial.report(live(self.objective, row), row["epoch"])
                    self.reported.add(row["epoch"])
        except optuna.exceptions.UpdateFinishedTrialError:
            raise _Lost from None
        return rows

    def __call__(self, row: Row) -> None:
        rows = self.report()
        if row["epoch"] == self.epochs:
            return  # it has come to its end, and that says more
        spreads = [each.get("spread", 1.0) for each in rows[-2:]]
        if len(spreads) == 2 and max(spreads) < COLLAPSED:
            raise Stopped("collapsed", f"{collapsed(spreads[-1])}, at two probes running")
        if self.trial.should_prune():
            value = spelled_value(self.objective, live(self.objective, row))
            raise Stopped("pruned", f"{value} after epoch {row['epoch']} was too little")


def _line(plan: Plan, number: int, records: list[Record]) -> str:
    """One line on a trial that has ended."""
    record = next(r for r in records if r.number == number)
    best = best_of(records)
    objective = plan.definition.objective
    if record.value is not None:
        said = f"{LABELS[objective]} {spelled_value(objective, record.value)}"
        if best is not None and best.number == number:
            said += ", the highest so far"
        elif best is not None and best.value is not None:
            said += f" (highest {spelled_value(objective, best.value)})"
    else:
        said = f"{record.ending}: {record.reason}"
    point = " ".join(
        f"{n}={v:.3g}" if isinstance(v, float) else f"{n}={spelled(v)}"
        for n, v in record.point.items()
    )
    return f"{len(records)}/{plan.trials}  trial {number}  {said}  {point}"


def _time_left(plan: Plan, records: list[Record], seconds: float) -> str:
    """How long the other trials will take, when the first has come to its end; else nothing."""
    left = plan.trials - len(records)
    if left <= 0 or len(complete(records)) != plan.complete + 1:
        return ""
    rest = duration(seconds * left / plan.jobs)
    at_most = "" if plan.definition.pruner == "off" else " at most, as some may be cut short"
    return f"that trial took {duration(seconds)}: the other {left} take about {rest}{at_most}"


def _stop_if_all_fail(records: list[Record]) -> None:
    """An error where not one trial could be carried out: the settings they share are at fault."""
    if len(records) >= _WRONG and all(record.ending == "failed" for record in records):
        reason, _ = Counter(record.reason for record in records).most_common(1)[0]
        raise RunError(f"all {len(records)} trials so far failed: {reason}")
