"""The storage of a study: a stop or a death loses no trial, and no two share a number."""

import os
from dataclasses import replace

import optuna
import pytest

import amcl.search.trials
from amcl import recipes
from amcl.errors import Interrupted, RunError
from amcl.search.folder import Definition, SearchFolder
from amcl.sweep import engine, storage
from amcl.sweep.engine import RECORD, RUN, Trials, has_ended
from amcl.sweep.storage import without_password
from search.studies import BETA, Runs, base, begun, find, numbers, open_study_of, value


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [Interrupted("stopped"), KeyboardInterrupt(), OSError("full"), TypeError("a fault")]
)
def test_what_is_no_fault_of_a_trial_has_it_taken_up_again(tmp_path, runs, error):
    runs.events = {1: error}
    with pytest.raises(type(error)):
        find(tmp_path / "s", trials=3)
    stopped = open_study_of(tmp_path / "s").trials[-1]
    assert stopped.user_attrs[RUN] == "0001"
    assert not has_ended(stopped)
    found = find(tmp_path / "s", trials=3)
    assert runs.begun[1:3] == [("0001", False), ("0001", True)]
    assert found.records[1].values == stopped.params
    alone = find(tmp_path / "alone", trials=3)
    assert [r.values for r in found.records] == [r.values for r in alone.records]
    assert [r.metrics for r in found.records] == [r.metrics for r in alone.records]


def test_ctrl_c_says_how_to_go_on(tmp_path, runs):
    runs.events = {1: Interrupted("stopped", 15)}
    with pytest.raises(Interrupted, match=r"1 of 5 trials .* amcl search --out \S+/s$") as e:
        find(tmp_path / "s", trials=5)
    assert e.value.exit_code == 143
    assert (tmp_path / "s/best.toml").is_file()  # what there is so far


def test_a_trial_whose_process_died_is_taken_up_again(tmp_path, runs, monkeypatch):
    monkeypatch.setattr(storage, "HEARTBEAT", 1)
    monkeypatch.setattr(storage, "GRACE", 1)
    find(tmp_path / "s", trials=2)
    opened = open_study_of(tmp_path / "s")
    died = begun(opened, 2)  # by a process that says no more
    beta = died.suggest_float("beta", 1e-5, 10, log=True)
    opened._storage.record_heartbeat(died._trial_id)
    said = []
    found = find(tmp_path / "s", trials=3, said=said)  # which waits until it is taken for dead
    assert "1 of 3 runs are marked as running in another process" in said[1]
    assert numbers(found.records) == [0, 1, 2]
    assert found.records[2].values["beta"] == beta


def test_a_process_that_dies_as_it_says_how_a_trial_ended(tmp_path, runs):
    """Its trial is one record, with a value, not two."""
    find(tmp_path / "s", trials=1)
    opened = open_study_of(tmp_path / "s")
    trial = begun(opened, 1)
    trial.set_user_attr(RECORD, {"status": "complete", "metrics": {"knn_validation": 0.3}})
    trial.suggest_float("beta", 1e-5, 10, log=True)
    opened.tell(trial, state=optuna.trial.TrialState.FAIL)  # as those who find it dead do
    found = find(tmp_path / "s", trials=3)
    assert numbers(found.records) == [0, 1, 2]
    assert value(found.records[1]) != 0.3


def test_a_trial_that_was_taken_for_dead_is_left_to_its_finder(tmp_path, runs, monkeypatch):
    find(tmp_path / "s", trials=1)
    other = open_study_of(tmp_path / "s")
    plain, said = Runs.accuracy, []

    def slept(config):
        """Meanwhile another process finds it without a sign of life."""
        if len(runs.begun) == 2:
            running = other.trials[-1]
            if running.state.name == "RUNNING":
                other.tell(running.number, state=optuna.trial.TrialState.FAIL)
        return plain(config)

    monkeypatch.setattr(Runs, "accuracy", staticmethod(slept))
    found = find(tmp_path / "s", trials=2, said=said)
    assert numbers(found.records) == [0, 1]
    assert "0001 was taken for dead" in said[1]
    assert [name for name, _ in runs.begun] == ["0000", "0001", "0001"]


def test_probes_of_a_trial_that_had_been_trained_are_not_lost(tmp_path, runs, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(amcl.search.trials, "evaluate_run", lambda *args: os.kill(os.getpid(), 2))
        with pytest.raises(KeyboardInterrupt):
            find(tmp_path / "s", trials=1)
    found = find(tmp_path / "s", trials=1)
    assert len(runs.begun) == 1
    assert [r.name for r in found.records] == ["0000"]
    ended = Trials(open_study_of(tmp_path / "s")).ended("0000")
    assert sorted(ended.intermediate_values) == [1, 2, 3, 4]


def test_a_study_without_its_storage_says_so(tmp_path, runs):
    find(tmp_path / "s", trials=1)
    (tmp_path / "s/study.db").unlink()
    with pytest.raises(RunError, match=r"study.db is gone"):
        find(tmp_path / "s", trials=2)
    find(tmp_path / "t", trials=1, study="mine")
    with pytest.raises(RunError, match="holds the study 'mine', not --study 'other'"):
        find(tmp_path / "t", trials=2, study="other")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in recipes.names() if name.endswith("-amcl")])
def test_a_study_of_any_recipe_is_known_again_by_its_folder(tmp_path, name):
    config = recipes.recipe(name)
    new = Definition(config=config, space=amcl.search.paper_space(config), objective="knn")
    folder = SearchFolder(tmp_path / "s")
    folder.create(new)
    known = folder.read_definition()
    assert known.to_dict() == new.to_dict()
    assert known.differing(new) == []


def test_a_trial_that_kills_its_processes_is_given_up(tmp_path, runs):
    find(tmp_path / "s", trials=1)
    opened = open_study_of(tmp_path / "s")
    for _ in range(3):
        trial = begun(opened, 1)
        beta = trial.suggest_float("beta", 1e-5, 10, log=True)
        opened.tell(trial, state=optuna.trial.TrialState.FAIL)
    found = find(tmp_path / "s", trials=3)
    assert [r.status for r in found.records] == ["complete", "failed", "complete"]
    given_up = found.records[1]
    assert (given_up.reason, given_up.values) == ("its process died, 3 times", {"beta": beta})


def test_two_processes_do_not_do_more_than_is_wanted(tmp_path, runs, monkeypatch):
    """Two see that the last trial is free before either begins it."""
    find(tmp_path / "s", trials=2)
    free = iter(["0002", "0002", None])
    monkeypatch.setattr(engine._Worker, "next_run", lambda self: next(free))
    found = find(tmp_path / "s", trials=3)
    assert len(found.records) == len(runs.begun) == 3


def test_fewer_trials_leave_the_others_alone(tmp_path, runs):
    runs.events = {1: Interrupted("stopped")}
    with pytest.raises(Interrupted):
        find(tmp_path / "s", trials=3)
    opened = open_study_of(tmp_path / "s")
    opened.enqueue_trial({}, user_attrs={RUN: "0002"})  # a process was killed as it queued this
    found = find(tmp_path / "s", trials=2)
    assert numbers(found.records) == [0, 1]
    assert numbers(find(tmp_path / "s", trials=3).records) == [0, 1, 2]


def test_machines_share_a_study_through_its_storage(tmp_path, runs):
    url = f"sqlite:///{tmp_path}/shared.db"
    find(tmp_path / "one", trials=2, storage=url, study="ours")
    found = find(tmp_path / "two", trials=4, storage=url, study="ours")
    assert numbers(found.records) == [0, 1, 2, 3]
    assert [p.name for p in sorted((tmp_path / "two/trials").iterdir())] == ["0002", "0003"]
    with pytest.raises(RunError, match=r"'ours'.*\bspace\b.*--study"):
        find(tmp_path / "three", storage=url, study="ours", space=["beta=1:2"])
    assert len(find(tmp_path / "four", trials=1, storage=url, study="mine").records) == 1


def test_passwords_are_not_written_down(tmp_path):
    url = "postgresql://me:secret@host/studies"
    folder = SearchFolder(tmp_path / "s", url, "ours")
    definition = Definition(
        config=base(), space=amcl.search.space_from(base(), BETA), objective="knn"
    )
    folder.create(definition)
    assert "secret" not in folder.listing.read_text()
    with pytest.raises(RunError, match=r"password.*--storage postgresql://me:\*\*\*@host/studies"):
        SearchFolder(folder.path).read_definition()
    assert SearchFolder(folder.path, url).address == (url, "ours")
    with pytest.raises(RunError, match=r"/s .*--storage .*postgresql://me:\*\*\*@host/studies"):
        SearchFolder(folder.path, "sqlite:///other.db").read_definition()
    assert without_password("") == ""


def test_what_a_kill_left_of_a_new_study_is_taken_up(tmp_path):
    """Killed while it wrote its listing, a study has its base and a part of the listing."""
    folder = SearchFolder(tmp_path)
    folder.base.write_text(base().to_toml(), encoding="utf-8")
    (tmp_path / ".study.toml.123.writing").write_text("stu")
    definition = Definition(
        config=base(), space=amcl.search.space_from(base(), BETA), objective="knn"
    )
    with pytest.raises(RunError, match=r"empty folder.*--out"):  # this base is of another study
        folder.create(replace(definition, config=base(seed=1)))
    folder.create(definition)
    assert folder.exists()


@pytest.mark.parametrize(
    ("url", "error", "told"),
    [
        ("nonsense", ValueError, "--storage is no address of a database"),
        ("sqlite:////no/such/folder/study.db", RunError, r"sqlite3\.OperationalError"),
        ("strange://host/x", ValueError, "strange is no address of a database"),
    ],
)
def test_a_storage_that_cannot_be_used(tmp_path, runs, url, error, told):
    with pytest.raises(error, match=told):
        find(tmp_path / "s", storage=url)
    assert not runs.begun
