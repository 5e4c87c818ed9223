"""The engine of many runs: workers take free runs of a study and record how each ended.

A run is identified by its name. Each attempt at it is a trial of the study that carries this name.
A run is free while none of its trials is running and none has ended. An attempt that was
interrupted, or whose process died, leaves a trial without a record, and so the run is free again.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from amcl.files import check_name
from amcl.results import Record, Status
from amcl.sweep import storage
from amcl.sweep.liveness import has_died, this_process
from amcl.sweep.study_folder import StudyFolder
from amcl.sweep.workers import Tell, work_together
from amcl.text_files import require

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

RUN = "run"  # attribute of a trial: name of its run
RECORD = "record"  # attribute of a trial that has ended
PROCESS = "process"  # attribute of a trial: the process that carries it out, set first of all
STOPPED = "stopped"  # attribute of a trial that ended through no fault of its run
_MAX_DEATHS = 3  # number of processes that may die of one run before it counts as failed
_POLL_SECONDS = 1.0  # time between two checks of the runs of other processes


@dataclass(frozen=True, kw_only=True)
class Runs(ABC):
    """Runs that workers carry out; each process receives a copy, so it must be picklable.

    Args:
        names: Names of the runs, in order.
        folder: Folder of the study.
        first: Number of trials that the study had before: a run with a record of a later trial is
            done, whatever `is_done` returns.
    """

    names: Sequence[str]
    folder: StudyFolder
    first: int = 0

    @abstractmethod
    def open(self) -> "optuna.Study":
        """Return the study."""

    @abstractmethod
    def carry_out(
        self, trial: "optuna.Trial", name: str, previous: Record | None
    ) -> tuple[Record, float]:
        """Carry out a run, and return its record and the value of a complete one.

        Args:
            trial: The trial of this attempt.
            name: Name of the run.
            previous: Record of an earlier attempt, if there is one.
        """

    def is_done(self, record: Record) -> bool:
        """Return True if nothing is left to do for a run with this record."""
        return True

    @abstractmethod
    def on_end(
        self, record: Record, records: dict[str, Record], seconds: float, tell: Tell
    ) -> None:
        """Print a line on a run that has ended, and clean up behind it."""


class Trials:
    """The trials of a study by the runs that they belong to, at one moment."""

    def __init__(self, study: "optuna.Study") -> None:
        self._by_run: dict[str, list[FrozenTrial]] = {}
        trials = study.get_trials(deepcopy=False)
        for trial in trials:
            where = f"trial {trial.number} in the storage"
            require(trial.user_attrs, _Attributes, where)
            if RUN in trial.user_attrs:
                check_name(trial.user_attrs[RUN], where)
                self._by_run.setdefault(trial.user_attrs[RUN], []).append(trial)
        self.count = len(trials)

    def of(self, name: str) -> "list[FrozenTrial]":
        """Return all trials of a run, the latest last."""
        return self._by_run.get(name, [])

    def ended(self, name: str) -> "FrozenTrial | None":
        """Return the latest trial of a run that has ended."""
        return next((trial for trial in reversed(self.of(name)) if has_ended(trial)), None)

    def in_state(self, name: str, state: str) -> "FrozenTrial | None":
        """Return the first trial of a run in this state."""
        return next((trial for trial in self.of(name) if trial.state.name == state), None)

    def records(self) -> dict[str, Record]:
        """Return the records of the runs that have ended, by their names."""
        ended = {name: self.ended(name) for name in self._by_run}
        return {name: record_of(trial) for name, trial in ended.items() if trial is not None}

    def deaths(self, name: str) -> int:
        """Return the number of processes that have died of a run since it last ended."""
        ended = self.ended(name)
        since = [trial for trial in self.of(name) if ended is None or trial.number > ended.number]
        return sum(t.state.name == "FAIL" and STOPPED not in t.user_attrs for t in since)


class _StoredRecord(TypedDict):
    """The record of a run in a storage."""

    status: Status
    reason: NotRequired[str]
    metrics: NotRequired[dict[str, float]]
    epoch: NotRequired[int | None]


class _Attributes(TypedDict):
    """Attributes of a trial in a storage, under the names `RUN`, `PROCESS` and `RECORD`."""

    run: NotRequired[str]
    process: NotRequired[str]
    record: NotRequired[_StoredRecord]


def has_ended(trial: "FrozenTrial") -> bool:
    """Return True for a trial with a record that counts.

    A process that died between its record and the end of its trial leaves a trial that failed with
    another status.
    """
    if RECORD not in trial.user_attrs or not trial.state.is_finished():
        return False
    return trial.state.name != "FAIL" or trial.user_attrs[RECORD]["status"] == "failed"


def record_of(trial: "FrozenTrial") -> Record:
    """Return the record of a trial that has ended."""
    values = dict(trial.params)
    return Record(name=trial.user_attrs[RUN], values=values, **trial.user_attrs[RECORD])


def work_in_processes(runs: Runs, trials: Trials, jobs: int, tell: Tell, logs: Path) -> None:
    """Have several processes carry out runs until none is free.

    Args:
        runs: The runs.
        trials: The trials of the study before.
        jobs: Number of processes.
        tell: Function that prints a line.
        logs: Folder of the output of each process.
    """
    if running := sum(trials.in_state(name, "RUNNING") is not None for name in runs.names):
        tell(
            f"{running} of {len(runs.names)} runs are marked as running in another process: where "
            "that process has died, they are taken up after a minute."
        )
    work_together(partial(work, runs), jobs, tell, logs)


def work(runs: Runs, tell: Tell) -> None:
    """Carry out runs, one after the other, until none is free."""
    with storage.storage_errors(runs.folder.url):
        worker = _Worker(runs, tell)
        while (name := worker.next_run()) is not None:
            worker.attempt(name)


class _Stopped(Exception):
    """There is nothing to do for the trial."""


class _Failed(Exception):
    """The run failed."""


class Lost(Exception):
    """The trial was declared dead while its process was alive."""


class _Worker:
    """One process of perhaps many."""

    def __init__(self, runs: Runs, tell: Tell) -> None:
        self.runs = runs
        self.tell = tell
        self.study = runs.open()
        self._begin()

    def _begin(self) -> None:
        self.record: Record | None = None
        self.lost = False

    def next_run(self) -> str | None:
        """Return a free run; None if there is none.

        While other processes carry out the last runs, wait until these end, or until a process that
        died would have been detected.
        """
        import optuna

        deadline = time.monotonic() + storage.GRACE + storage.HEARTBEAT
        while True:
            with storage.without_experimental_warnings():
                optuna.storages.fail_stale_trials(self.study)
            _fail_dead_trials(self.study)
            trials = Trials(self.study)
            for name in self.runs.names:
                if self._is_free(trials, name) and not self._give_up(trials, name):
                    return name
            running = any(trials.in_state(name, "RUNNING") for name in self.runs.names)
            if not running or time.monotonic() > deadline:
                return None
            time.sleep(_POLL_SECONDS)

    def attempt(self, name: str) -> None:
        """Take a run and carry it out, if no other process is faster."""
        trials = Trials(self.study)
        if trials.in_state(name, "WAITING") is None:
            params = [trial.params for trial in trials.of(name) if trial.params]
            # A search resumes the point that it had suggested.
            self.study.enqueue_trial(params[-1] if params else {}, user_attrs={RUN: name})
        self._begin()
        begin = time.monotonic()
        try:
            self.study.optimize(self._objective, n_trials=1, catch=_Failed)
        except _Stopped:
            return
        except ValueError:  # Optuna's answer where another process has ended the trial
            if not self.lost and self.record is None:
                raise
            self.tell(f"{name} was taken for dead while it lived, and another process has it now")
            return
        if self.record is not None:
            records = Trials(self.study).records()
            record = records[self.record.name]
            self.runs.on_end(record, records, time.monotonic() - begin, self.tell)

    def _objective(self, trial: "optuna.Trial") -> float:
        import optuna

        trial.set_user_attr(PROCESS, this_process())
        name = trial.user_attrs.get(RUN, "")
        trials = Trials(self.study)
        if name not in self.runs.names or not self._is_free(trials, name, trial.number):
            trial.set_user_attr(STOPPED, True)
            raise _Stopped
        ended = trials.ended(name)
        previous = None if ended is None else record_of(ended)
        try:
            record, value = self.runs.carry_out(trial, name, previous)
            trial.set_user_attr(RECORD, _attribute(record))
        except (Lost, optuna.exceptions.UpdateFinishedTrialError):
            self.lost = True
            raise Lost from None
        except BaseException:  # a signal, a full disk: no fault of the run
            trial.set_user_attr(STOPPED, True)
            raise
        self.record = record
        if record.status == "failed":
            raise _Failed(record.reason)
        if record.status != "complete":
            # To a sampler, such a trial is a bad one: it learns to stay away.
            raise optuna.TrialPruned(record.reason)
        return value

    def _is_free(self, trials: Trials, name: str, number: int | None = None) -> bool:
        """Return True if a run is free, its own trial of this number aside."""
        running = trials.in_state(name, "RUNNING")
        ended = trials.ended(name)
        if running is not None and running.number != number:
            return False
        if ended is None:
            return True
        return ended.number < self.runs.first and not self.runs.is_done(record_of(ended))

    def _give_up(self, trials: Trials, name: str) -> bool:
        """Record a failure for a run that kills its processes, and return True for such a run."""
        import optuna

        if (deaths := trials.deaths(name)) < _MAX_DEATHS:
            return False
        last = trials.of(name)[-1]
        record = Record(name=name, status="failed", reason=f"its process died, {deaths} times")
        self.study.add_trial(
            optuna.create_trial(
                state=optuna.trial.TrialState.FAIL,
                params=last.params,
                distributions=last.distributions,
                user_attrs={RUN: name, RECORD: _attribute(record)},
            )
        )
        return True


def _fail_dead_trials(study: "optuna.Study") -> None:
    """Fail running trials whose process has died, without waiting for its heartbeat to stop.

    Heartbeats tell of processes of other machines. They are missing where a process died before its
    first: a trial that has been without a process for too long is one of these.
    """
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
        process = trial.user_attrs.get(PROCESS)
        if process is None and trial.datetime_start is not None:
            age = datetime.now() - trial.datetime_start
            is_dead = age > timedelta(seconds=storage.GRACE)
        else:
            is_dead = has_died(str(process))
        if is_dead:
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


def _attribute(record: Record) -> _StoredRecord:
    return {
        "status": record.status,
        "reason": record.reason,
        "metrics": record.metrics,
        "epoch": record.epoch,
    }
