"""Several processes or machines that work on one sweep."""

import subprocess
import sys
import threading

import optuna
import pytest
import sqlalchemy.exc

from amcl.errors import RunError
from amcl.results import Record
from amcl.sweep import SweepFolder, engine, grid, liveness, storage, sweep
from amcl.sweep import runs as module
from tiny_runs import quiet

pytestmark = pytest.mark.usefixtures("few_images")


def started(folder: SweepFolder, name: str, process: str = "a process of another machine") -> None:
    """Have a run taken by a process that gives one sign of life, and no more."""
    folder.study.enqueue_trial({}, user_attrs={engine.RUN: name})
    with pytest.warns(UserWarning, match="Heartbeat"):
        trial = folder.study.ask()
    trial.set_user_attr(engine.PROCESS, process)
    folder.study._storage.record_heartbeat(trial._trial_id)


def test_a_run_that_another_process_is_at_is_left_to_it(tmp_path, tiny, trained, monkeypatch):
    points, out, told = grid(tiny, {"seed": ["0", "1", "2"]}), tmp_path / "out", []
    folder = SweepFolder(out)
    folder.add(points)
    started(folder, "seed=1")
    monkeypatch.setattr(storage, "HEARTBEAT", 1)
    monkeypatch.setattr(storage, "GRACE", 1)
    with monkeypatch.context() as patch:  # as if it gave signs of life
        patch.setattr("optuna.storages.fail_stale_trials", lambda study: None)
        patch.setattr(engine, "_POLL_SECONDS", 0.1)
        assert len(sweep(points, out, tell=told.append)) == 2
    assert trained == ["seed=0", "seed=2"]
    assert "1 of 3 runs are marked as running in another process" in told[0]
    assert told[-1] == "1 of 3 runs are with another process: the table is without them."
    # Where it gives none, its process has died: this is waited for.
    assert len(sweep(points, out, tell=told.append)) == 3
    assert trained == ["seed=0", "seed=2", "seed=1"]


def test_a_run_whose_process_died_on_this_machine_is_taken_up_at_once(
    tmp_path, tiny, trained, monkeypatch
):
    """No sign of life of it need be missed, which takes a minute."""
    points, out = grid(tiny, {"seed": ["0"]}), tmp_path / "out"
    folder = SweepFolder(out)
    folder.add(points)
    monkeypatch.setattr("optuna.storages.fail_stale_trials", lambda study: None)
    monkeypatch.setattr(storage, "HEARTBEAT", 1)
    monkeypatch.setattr(storage, "GRACE", 1)
    monkeypatch.setattr(engine, "_POLL_SECONDS", 0.1)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        started(folder, "seed=0", liveness._identity(process.pid))
        assert sweep(points, out, tell=quiet) == []
        process.kill()
    assert [record.status for record in sweep(points, out, tell=quiet)] == ["complete"]
    assert trained == ["seed=0"]


def test_what_two_processes_want_is_done_by_the_first(tmp_path, tiny, trained, monkeypatch):
    """Both have seen that a run is free, and both have queued a trial of it."""
    points, out = grid(tiny, {"seed": ["0"]}), tmp_path / "out"
    folder = SweepFolder(out)
    folder.add(points)
    runs = module.SweepRuns(
        names=("seed=0",),
        folder=SweepFolder(out),
        points={point.name: point for point in points},
        required_metrics={},
    )
    first, second = (engine._Worker(runs, quiet) for _ in range(2))
    train_or_resume = module.train_or_resume

    def meanwhile(config, run):
        folder.study.enqueue_trial({}, user_attrs={engine.RUN: "seed=0"})
        second.attempt("seed=0")
        return train_or_resume(config, run)

    monkeypatch.setattr(module, "train_or_resume", meanwhile)
    first.attempt("seed=0")
    second.attempt("seed=0")  # it has ended, and so nothing is left to do
    assert trained == ["seed=0"]
    assert [t.state.name for t in folder.study.trials] == ["COMPLETE", "FAIL", "FAIL"]
    assert [r.status for r in folder.records()] == ["complete"]


def test_protocols_with_images_of_their_own_are_asked_every_time(tmp_path):
    """Their numbers in a record may be of other images: the protocol knows what it has measured."""

    def runs(protocol):
        return module.SweepRuns(
            names=("seed=0",),
            folder=SweepFolder(tmp_path),
            points={},
            protocols=(protocol,),
            required_metrics={},
        )

    record = Record(name="seed=0", metrics={"knn_top1_validation": 0.5, "detect_box_AP_test": 0.1})
    assert runs("knn").is_done(record)
    assert not runs("detect").is_done(record)


def test_a_run_that_kills_its_processes_is_given_up(tmp_path, tiny, trained, monkeypatch):
    points, out = grid(tiny, {"seed": ["0", "1"]}), tmp_path / "out"
    folder = SweepFolder(out)
    folder.add(points)
    for _ in range(3):
        started(folder, "seed=0")
        folder.study.tell(folder.study.trials[-1].number, state=optuna.trial.TrialState.FAIL)
    found = sweep(points, out, tell=quiet)
    assert [f.status for f in found] == ["failed", "complete"]
    assert found[0].reason == "its process died, 3 times"
    assert [f.status for f in sweep(points, out, again=True, tell=quiet)] == ["complete"] * 2
    assert trained == ["seed=1", "seed=0"]


def test_machines_share_a_sweep_through_its_storage(tmp_path, tiny, trained):
    points, url = grid(tiny, {"seed": ["0", "1"]}), f"sqlite:///{tmp_path}/shared.db"
    asked = {"storage": url, "study": "ours", "tell": quiet}
    sweep(points[:1], tmp_path / "one", **asked)
    found = sweep(points, tmp_path / "two", **asked)
    assert trained == ["seed=0", "seed=1"]
    assert [f.name for f in found] == trained
    assert not (tmp_path / "two/study.db").exists()
    assert len(sweep([], tmp_path / "two", tell=quiet)) == 2  # the folder names the storage
    with pytest.raises(RunError, match=r"/two .*--storage .*/shared\.db"):
        sweep(points, tmp_path / "two", storage=f"sqlite:///{tmp_path}/other.db", tell=quiet)
    with pytest.raises(ValueError, match="--storage is no address of a database"):
        sweep(points, tmp_path / "three", storage="nonsense", tell=quiet)
    assert not (tmp_path / "three").exists()


def test_passwords_are_not_written_down(tmp_path, tiny, monkeypatch):
    url = "postgresql://me:sesame@host/sweeps"
    monkeypatch.setattr("amcl.sweep.study_folder.open_study", lambda *args: optuna.create_study())
    SweepFolder(tmp_path / "s", url).add(grid(tiny, {"seed": ["0"]}))
    files = [path for path in (tmp_path / "s").rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if b"sesame" in path.read_bytes()] == []
    with pytest.raises(RunError, match=r"password.*--storage postgresql://me:\*\*\*@host/sweeps"):
        _ = SweepFolder(tmp_path / "s").address
    assert SweepFolder(tmp_path / "s", url).address[0] == url


def test_two_that_add_runs_lose_none(tmp_path, tiny, monkeypatch):
    """One adds its run while the other is about to."""
    first, second = (SweepFolder(tmp_path / "out") for _ in range(2))
    read = SweepFolder.read_points

    def meanwhile(self):
        points = read(self)
        if self is first:
            second.add(grid(tiny, {"seed": ["1"]}))
        return points

    first.add([])
    with monkeypatch.context() as patch:
        patch.setattr(SweepFolder, "read_points", meanwhile)
        first.add(grid(tiny, {"seed": ["0"]}))
    assert {point.name for point in second.read_points()} == {"seed=0", "seed=1"}


def test_tables_that_another_process_creates_at_this_moment(tmp_path, tiny, trained, monkeypatch):
    plain = optuna.storages.RDBStorage.__init__
    errors = ["table studies already exists", "no such host"]

    def create(self, *args, **kwargs):
        if errors:
            raise sqlalchemy.exc.OperationalError("", None, Exception(errors.pop(0)))
        plain(self, *args, **kwargs)

    monkeypatch.setattr(optuna.storages.RDBStorage, "__init__", create)
    monkeypatch.setattr(storage.time, "sleep", lambda seconds: None)
    with pytest.raises(RunError, match="no such host"):  # waits for the first, not for this
        sweep(grid(tiny, {"seed": ["0"]}), tmp_path / "out", tell=quiet)
    assert len(sweep(grid(tiny, {"seed": ["0"]}), tmp_path / "out", tell=quiet)) == 1


def test_two_processes_never_take_the_same_trial(tmp_path):
    """SQLite does not lock what it reads, unless a transaction begins with a lock."""
    url = storage.storage_url(tmp_path, "")
    studies = [storage.open_study(url, "x", {}) for _ in range(2)]
    for _ in range(20):
        studies[0].enqueue_trial({})
        barrier = threading.Barrier(2)
        taken = []

        def take(study, barrier=barrier, taken=taken):
            barrier.wait()
            taken.append(study._pop_waiting_trial_id())

        threads = [threading.Thread(target=take, args=(study,)) for study in studies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert taken.count(None) == 1
