"""Two machines that share studies: python machines_worker.py FOLDER STORAGE…

For each storage there are two processes with folders of their own. The first is killed in its
second trial. To the other it is another machine: only missing signs of life tell of its death.
Runs take no time. All is imported once, before the processes are forked.
"""

import json
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import amcl.sweep.single_run
from amcl.search import study
from amcl.search.folder import SearchFolder
from amcl.search.trials import SearchRuns
from amcl.sweep import engine, liveness, storage
from amcl.training.pretrain import load_data
from search.studies import Runs, base, find

TRIALS = 5


class SlowRuns(Runs):
    """Runs that take long enough for another process to take the next."""

    def __call__(self, config, out, **options):
        time.sleep(0.2)
        return super().__call__(config, out, **options)


class KilledRuns(SlowRuns):
    """Runs of a process that is killed in the second of them."""

    def __call__(self, config, out, **options):
        if len(self.begun) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(config, out, **options)


def work(name: str, address: str, folder: Path, runs: Runs) -> None:
    """Do the trials of one machine, and write what became of the study."""
    liveness._machine = lambda: name
    amcl.sweep.single_run.pretrain = runs
    said: list[str] = []
    path = folder / name
    result = find(path, trials=TRIALS, said=said, storage=address, study="ours")
    opened = SearchFolder(path, address)
    trials = SearchRuns(names=(), folder=opened, definition=opened.read_definition()).open().trials
    state = {
        "said": said,
        "begun": [name for name, _ in runs.begun],
        "records": [[record.name, record.status] for record in result.records],
        "complete": [t.user_attrs[engine.RUN] for t in trials if t.state.name == "COMPLETE"],
        # Two that want the same trial leave one that failed, too, but it says so.
        "died": [
            trial.user_attrs[engine.RUN]
            for trial in trials
            if trial.state.name == "FAIL" and engine.STOPPED not in trial.user_attrs
        ],
    }
    (folder / f"{name}.json").write_text(json.dumps(state), encoding="utf-8")


def main(folder: Path, addresses: list[str]) -> None:
    engine._POLL_SECONDS = 0.1
    storage.HEARTBEAT = 1
    storage.GRACE = 2
    images = load_data(base())
    study.load_data = lambda config: images
    study.save_plots = lambda *args: ([], {})
    fork = multiprocessing.get_context("fork")
    processes = [
        fork.Process(target=work, args=(name, address, folder / str(number), runs))
        for number, address in enumerate(addresses)
        for name, runs in (("killed", KilledRuns()), ("other", SlowRuns()))
    ]
    for number, _ in enumerate(addresses):
        (folder / str(number)).mkdir()
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
        process.kill()
        process.join()
    print(*(process.exitcode for process in processes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
