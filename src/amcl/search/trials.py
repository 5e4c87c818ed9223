"""The trials of a study, one after the other, by one process of perhaps many."""

import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.trial import Trial, TrialState

from amcl.search.objective import LABELS, Objective, final, live, spelled_value
from amcl.search.records import Record, best_of
from amcl.search.sampler import number_of
from amcl.search.space import suggest
from amcl.search.study import Definition, StudyFolder, is_void, open_study, records_of
from amcl.sweep.fields import spelled, with_values
from amcl.sweep.outcome import Outcome, Row, Stopped, carry_out, collapsed, probes
from amcl.sweep.workers import Tell
from amcl.training import Interrupted, RunError
from amcl.training.watch import COLLAPSED

_WRONG = 3  # so many trials that fail at the start of a study: it is not the trials


class _Surplus(Exception):
    """Another process has begun the last trial that was wanted."""


class _Failed(Exception):
    """A trial that could not be carried out."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What each process of a search is told."""

    folder: Path
    url: str
    name: str
    definition: Definition
    trials: int
    keep_checkpoints: bool = True


def work(plan: Plan, tell: Tell) -> None:
    """Carry out trials until there are as many as are wanted."""
    study = open_study(plan.url, plan.name, plan.definition, checked=True)
    trials = _Trials(plan, study)
    while room(study, plan.trials) > 0:
        study.optimize(trials, n_trials=1, catch=(_Surplus, _Failed))
        if trials.ended is not None:
            tell(_line(plan, trials.ended, records_of(study)))
            _stop_if_all_fail(records_of(study))


def room(study: optuna.Study, wanted: int) -> int:
    """How many trials are yet to be begun."""
    begun = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
    trials = study.get_trials(deepcopy=False, states=begun)
    return wanted - sum(not is_void(trial) for trial in trials)


class _Trials:
    """The objective function, as Optuna calls it."""

    def __init__(self, plan: Plan, study: optuna.Study) -> None:
        self.plan, self.study = plan, study
        self.folder = StudyFolder(plan.folder)
        self.ended: int | None = None

    def __call__(self, trial: Trial) -> float:
        self.ended = None
        number = number_of(self.study, self.study.get_trials(deepcopy=False)[trial.number])
        if number >= self.plan.trials:
            raise _Surplus
        trial.set_user_attr("number", number)
        run = self.folder.trial(number)
        trial.set_user_attr("run", str(run.relative_to(self.plan.folder)))
        try:
            value = self._value(trial, run)
        except (KeyboardInterrupt, Interrupted, RunError, OSError):
            # No fault of the trial: it is taken up again, by whoever comes next.
            kept = self.study.get_trials(deepcopy=False)[trial.number]
            self.study.enqueue_trial(kept.params, user_attrs=dict(kept.user_attrs))
            raise
        self.ended = number
        return value

    def _value(self, trial: Trial, run: Path) -> float:
        definition = self.plan.definition
        point = suggest(trial, definition.space, definition.config)
        try:
            config = with_values(definition.config, point)
        except ValueError as error:
            raise self._end(trial, Outcome(ending="invalid", reason=str(error))) from None
        watch = _Watch(trial, definition.objective, config.run.epochs, run)
        outcome = carry_out(config, run, watch)
        value = None
        if outcome.ending == "complete":
            value = final(definition.objective, config, run, outcome)
        if not self.plan.keep_checkpoints:
            shutil.rmtree(run / "checkpoints", ignore_errors=True)
        if value is None:
            raise self._end(trial, outcome)
        trial.set_user_attr("ending", "complete")
        return value

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

    def __call__(self, row: Row) -> None:
        rows = probes(self.run)
        for each in rows:  # those of before an interruption too
            if each["epoch"] not in self.reported:
                self.trial.report(live(self.objective, each), each["epoch"])
                self.reported.add(each["epoch"])
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
            said += ", the best so far"
        elif best is not None and best.value is not None:
            said += f" (best {spelled_value(objective, best.value)})"
    else:
        said = f"{record.ending}: {record.reason}"
    point = " ".join(
        f"{n}={v:.3g}" if isinstance(v, float) else f"{n}={spelled(v)}"
        for n, v in record.point.items()
    )
    return f"{len(records)}/{plan.trials}  trial {number}  {said}  {point}"


def _stop_if_all_fail(records: list[Record]) -> None:
    """An error where not one trial could be carried out: the settings they share are at fault."""
    if len(records) == _WRONG and all(r.ending in ("failed", "invalid") for r in records):
        reason, _ = Counter(r.reason for r in records).most_common(1)[0]
        raise RunError(f"the first {_WRONG} trials all failed: {reason}")
