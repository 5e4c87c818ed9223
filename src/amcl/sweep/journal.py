"""Optuna's journal: the storage of a study in one file, on a folder that machines share.

Optuna's own journal has no heartbeats, by which machines learn that the process of a trial has
died. Here, each running trial has a file beside the journal, which its process touches.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from optuna.storages._heartbeat import BaseHeartbeat
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage
from optuna.trial import TrialState


class Journal(JournalStorage, BaseHeartbeat):
    """A journal with heartbeats.

    Args:
        path: The file, which is created if there is none.
        interval: Seconds between two signs of life of a trial.
        grace: Seconds without a sign of life after which its process counts as dead.
    """

    def __init__(self, path: Path, interval: int, grace: int) -> None:
        super().__init__(JournalFileBackend(str(path), _Lock(path)))
        self._signs = path.with_name(f"{path.name}.heartbeats")
        self._interval = interval
        self._grace = grace

    def record_heartbeat(self, trial_id: int) -> None:
        """Touch the file of a trial."""
        self._signs.mkdir(exist_ok=True)
        (self._signs / str(trial_id)).touch()

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Any = None) -> bool:
        """Change the state of a trial; one that has ended gives no more signs of life."""
        changed = super().set_trial_state_values(trial_id, state, values)
        if state.is_finished():
            (self._signs / str(trial_id)).unlink(missing_ok=True)
        return changed

    def get_heartbeat_interval(self) -> int:
        """Return the number of seconds between two signs of life."""
        return self._interval

    def get_heartbeat_stale_trial_callback(self) -> Callable[..., None] | None:
        """Return None: nothing is called for a trial whose process has died."""
        return None

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        """Return the running trials whose last sign of life is too old.

        All times are those of the file system: the clocks of machines may differ.
        """
        running = self.get_all_trials(study_id, deepcopy=False, states=(TrialState.RUNNING,))
        if not running:
            return []
        self._signs.mkdir(exist_ok=True)
        clock = self._signs / f"clock-{os.getpid()}-{time.monotonic_ns()}"
        clock.touch()
        try:
            now = clock.stat().st_mtime
        finally:
            clock.unlink(missing_ok=True)
        stale = []
        for trial in running:
            # A trial without a first sign of life is left to its age: see the engine.
            with suppress(FileNotFoundError):
                age = now - (self._signs / str(trial._trial_id)).stat().st_mtime
                if age > self._grace:
                    stale.append(trial._trial_id)
        return stale


class _Lock(JournalFileOpenLock):
    """The lock of a journal, which removes the half line that a power cut may leave at its end.

    Otherwise the next line would be appended to it, and the journal could no longer be read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path

    def acquire(self) -> bool:
        """Wait for the lock."""
        acquired = super().acquire()
        with self._path.open("rb+") as file:
            size = end = file.seek(0, os.SEEK_END)
            while end:
                file.seek(end - 1)
                if file.read(1) == b"\n":
                    break
                end -= 1
            if end < size:
                file.truncate(end)
        return acquired
