"""Searches: every trial is recorded, none stops the study, and a stop loses nothing."""

import csv
import functools
import json
import math
import os
import time
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
import torch

import amcl.search.trials
import amcl.sweep.outcome
from amcl import recipes
from amcl.search import conduct, storage
from amcl.search.conduct import search
from amcl.search.storage import is_void, number_of, open_study, records_of, take_up_again
from amcl.search.study import Definition, StudyFolder, without_password
from amcl.sweep.fields import value_of
from amcl.training import Config, Interrupted, RunError, read_metrics
from amcl.training.pretrain import load_data
from search.studies import Runs, base, diverged
from tiny_runs import assert_same_run, interrupt_at, picture_folder

BETA = ["beta=1e-5:10:log"]


@functools.cache
def images():
    return load_data(base())


@pytest.fixture
def drawn(monkeypatch):
    """Runs that take no time."""
    made = Runs()
    monkeypatch.setattr(amcl.sweep.outcome, "pretrain", made)
    monkeypatch.setattr(conduct, "load_data", lambda config: images())
    return made


@pytest.fixture
def runs(drawn, monkeypatch):
    """The same without pictures."""
    monkeypatch.setattr(conduct, "save_plots", lambda *args: [])
    return drawn


def find(out, trials=6, said=None, **asked):
    asked = {"space": BETA, "pruner": "off", **asked}
    tell = said.append if said is not None else lambda line: None
    return search(asked.pop("config", base()), out, trials=trials, tell=tell, **asked)


def test_the_best_of_the_trials_is_a_file_to_train_from(tmp_path, drawn):
    said = []
    found = find(tmp_path / "s", trials=9, said=said)
    assert [record.number for record in found.records] == list(range(9))
    assert {record.ending for record in found.records} == {"complete"}
    betas = {record.number: record.point["beta"] for record in found.records}
    oracle = {n: 1 / (1 + abs(math.log10(beta) + 1)) for n, beta in betas.items()}
    assert {r.number: r.value for r in found.records} == pytest.approx(oracle)
    assert found.best.number == max(oracle, key=oracle.get)
    config = Config.from_file(tmp_path / "s/best.toml")
    assert config == found.config
    assert config.method.beta == betas[found.best.number]
    assert replace(config, method=base().method) == base()
    assert len(said) == 10
    assert "judged by kNN accuracy on validation images" in said[0]
    assert "beta=1e-05:10.0:log" in said[0]
    assert said[-1].startswith("9/9  trial 8  kNN accuracy")
    with (tmp_path / "s/trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {int(row["number"]): float(row["beta"]) for row in rows} == betas
    assert "amcl pretrain --config" in (tmp_path / "s/summary.md").read_text()
    for picture in ("history", "importance", "sensitivity"):
        assert (tmp_path / f"s/{picture}.png").read_bytes().startswith(b"\x89PNG")


def test_the_model_of_past_trials_does_better_than_chance(tmp_path, runs):
    found = find(tmp_path / "s", trials=25)
    values = [record.value for record in found.records]
    assert sum(values[10:]) / 15 > sum(values[:10]) / 10 + 0.05


def test_a_study_goes_on_and_may_grow(tmp_path, runs):
    find(tmp_path / "s", trials=3)
    found = find(tmp_path / "s", trials=5)
    assert len(found.records) == len(runs.begun) == 5
    find(tmp_path / "s", trials=5)
    assert len(runs.begun) == 5  # nothing is left to do
    alone = find(tmp_path / "other", trials=5)
    assert [r.point for r in found.records] == [r.point for r in alone.records]
    assert find(tmp_path / "seed", trials=2, config=base(seed=1)).records[0].point != (
        found.records[0].point
    )


def test_what_is_searched_cannot_change_on_the_way(tmp_path, runs):
    find(tmp_path / "s", trials=2)
    with pytest.raises(RunError, match=r"other settings: batch_size\b.*Leave them out"):
        find(tmp_path / "s", trials=3, config=base(batch_size=64))
    with pytest.raises(RunError, match="other settings: space"):
        find(tmp_path / "s", trials=3, space=["beta=1:10"])
    assert len(runs.begun) == 2
    changed = replace(base(), hardware=replace(base().hardware, threads=1))
    changed = replace(changed, data=replace(changed.data, workers=0, data_root=str(tmp_path)))
    assert len(find(tmp_path / "s", trials=3, config=changed).records) == 3


def test_a_folder_of_something_else_is_left_alone(tmp_path, runs):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="not an empty folder"):
        find(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_trials_that_end_badly_are_recorded_and_do_not_stop_the_study(tmp_path, runs):
    runs.events = {0: diverged(), 1: "collapse", 2: RuntimeError("out of memory"), 3: "collapse"}
    said = []
    found = find(tmp_path / "s", trials=5, said=said)
    assert [r.ending for r in found.records] == [
        *("diverged", "collapsed", "failed", "collapsed", "complete")
    ]
    assert [r.value is None for r in found.records] == [True, True, True, True, False]
    reasons = [record.reason for record in found.records]
    assert "not finite after step 3" in reasons[0]
    assert "spread is 0.010" in reasons[1]
    assert len(found.records[1].probes) == 2  # it was stopped at its second probe
    assert reasons[2] == "RuntimeError: out of memory"
    assert "diverged: the loss is not finite" in said[1]
    assert found.best.number == 4
    states = [t.state.name for t in open_study_of(tmp_path / "s").get_trials()]
    assert states == ["PRUNED", "PRUNED", "FAIL", "PRUNED", "COMPLETE"]


def open_study_of(path: Path) -> optuna.Study:
    folder = StudyFolder(path)
    definition, where, name = folder.read()
    return open_study(folder.url(where), name, definition)


def begun(study: optuna.Study) -> optuna.Trial:
    with pytest.warns(UserWarning, match="Heartbeat"):
        return study.ask()


def test_a_collapse_at_the_last_epoch_has_no_value(tmp_path, runs):
    runs.events = {0: "collapse"}
    found = find(tmp_path / "s", trials=1, config=base(epochs=1))
    assert found.records[0].ending == "collapsed"
    assert found.best is None
    assert not (tmp_path / "s/best.toml").exists()


def test_settings_that_do_not_fit_together_are_one_bad_point(tmp_path, runs):
    found = find(tmp_path / "s", trials=8, space=["tau_lower=0.1:0.9", "tau_upper=0.2:1"])
    invalid = [r for r in found.records if r.point["tau_lower"] >= r.point["tau_upper"]]
    assert invalid
    assert [r.number for r in found.records if r.ending == "invalid"] == [r.number for r in invalid]
    assert "lower" in invalid[0].reason


def test_where_nothing_works_the_study_stops(tmp_path, runs):
    runs.events = {i: RuntimeError("no such kernel") for i in range(9)}
    with pytest.raises(RunError, match="all 3 trials so far failed: RuntimeError: no such kernel"):
        find(tmp_path / "s", trials=9)
    assert len(runs.begun) == 3
    with pytest.raises(RunError, match="all 4 trials so far failed"):
        find(tmp_path / "s", trials=9)


def test_a_failing_judge_is_a_failing_trial(tmp_path, runs, monkeypatch):
    values = iter([RuntimeError("CUDA out of memory"), math.nan, 0.5])

    def judged(*args):
        value = next(values)
        if isinstance(value, Exception):
            raise value
        return value

    monkeypatch.setattr(amcl.search.trials, "final", judged)
    found = find(tmp_path / "s", trials=3)
    assert [r.ending for r in found.records] == ["failed", "diverged", "complete"]
    assert found.records[0].reason == "judging: RuntimeError: CUDA out of memory"
    assert found.records[1].reason == "kNN accuracy: nan"
    assert found.best.value == 0.5


def test_pruning_by_the_median_saves_epochs(tmp_path, runs):
    found = find(tmp_path / "s", trials=14, pruner="median")
    pruned = [record for record in found.records if record.ending == "pruned"]
    assert 2 <= len(pruned) <= 9
    for record in pruned:
        last = max(record.probes)
        assert last < 4
        others = [
            r.probes[last]
            for r in found.records
            if r.number < record.number and r.value is not None
        ]
        assert record.probes[last] < torch.tensor(others).quantile(0.5)
        assert f"after epoch {last}" in record.reason


def test_where_no_trial_can_be_pruned_that_is_said(tmp_path, runs):
    said = []
    find(tmp_path / "s", trials=1, said=said, pruner="median", config=base(probe_every=4))
    assert "no trial can be cut short" in said[0]


def test_pruning_by_halving(tmp_path, runs):
    found = find(tmp_path / "s", trials=12, pruner="halving", config=base(epochs=9))
    endings = [record.ending for record in found.records]
    assert endings.count("pruned") >= 4
    assert endings.count("complete") >= 1


@pytest.mark.parametrize(
    "error", [Interrupted("stopped"), KeyboardInterrupt(), OSError("full"), TypeError("a fault")]
)
def test_what_is_no_fault_of_a_trial_has_it_taken_up_again(tmp_path, runs, error):
    runs.events = {1: error}
    with pytest.raises(type(error)):
        find(tmp_path / "s", trials=3)
    opened = open_study_of(tmp_path / "s")
    stopped, waiting = opened.trials[-2:]
    assert is_void(stopped)
    assert waiting.state.name == "WAITING"
    assert waiting.user_attrs["number"] == 1
    assert waiting.system_attrs["fixed_params"] == stopped.params
    found = find(tmp_path / "s", trials=3)
    assert runs.begun[1:3] == [("0001", False), ("0001", True)]
    alone = find(tmp_path / "alone", trials=3)
    assert found.records == alone.records


def test_ctrl_c_says_how_to_go_on(tmp_path, runs):
    runs.events = {1: Interrupted("stopped", 15)}
    with pytest.raises(Interrupted, match=r"1 of 5 trials .* amcl search --out .* --trials 5") as e:
        find(tmp_path / "s", trials=5)
    assert e.value.exit_code == 143
    assert (tmp_path / "s/best.toml").is_file()  # what there is so far


def test_a_trial_whose_process_died_is_taken_up_again(tmp_path, runs, monkeypatch):
    monkeypatch.setattr(storage, "HEARTBEAT", 1)
    monkeypatch.setattr(storage, "DEAD", 1)
    find(tmp_path / "s", trials=2)
    died = begun(open_study_of(tmp_path / "s"))  # by a process that says no more
    died.set_user_attr("number", 2)
    beta = died.suggest_float("beta", 1e-5, 10, log=True)
    opened = open_study_of(tmp_path / "s")
    opened._storage.record_heartbeat(died._trial_id)
    assert len(find(tmp_path / "s", trials=3).records) == 2  # it may yet live
    time.sleep(2.1)
    found = find(tmp_path / "s", trials=3)
    assert [r.number for r in found.records] == [0, 1, 2]
    assert found.records[2].point["beta"] == beta


def test_a_process_that_dies_as_it_says_how_a_trial_ended(tmp_path, runs):
    """Its trial is one record, with a value, not two."""
    find(tmp_path / "s", trials=1)
    opened = open_study_of(tmp_path / "s")
    trial = begun(opened)
    for name, value in (("number", 1), ("ending", "complete")):
        trial.set_user_attr(name, value)
    trial.suggest_float("beta", 1e-5, 10, log=True)
    opened.tell(trial, state=optuna.trial.TrialState.FAIL)  # as those who find it dead do
    take_up_again(opened, opened.trials[trial.number])
    found = find(tmp_path / "s", trials=3)
    assert [r.number for r in found.records] == [0, 1, 2]
    assert all(record.value is not None for record in found.records)


def test_no_two_trials_have_one_number(tmp_path, runs):
    """Not even one that is begun after another was found dead, and before it is put back."""
    find(tmp_path / "s", trials=1)
    opened = open_study_of(tmp_path / "s")
    dead, alive = begun(opened), begun(opened)
    numbers = [number_of(opened, opened.trials[trial.number]) for trial in (dead, alive)]
    opened.tell(dead, state=optuna.trial.TrialState.FAIL)
    late = begun(opened)
    numbers.append(number_of(opened, opened.trials[late.number]))
    take_up_again(opened, opened.trials[dead.number])
    assert opened.trials[-1].user_attrs["number"] == numbers[0]
    again, last = begun(opened), begun(opened)
    assert number_of(opened, opened.trials[again.number]) == numbers[0]
    numbers.append(number_of(opened, opened.trials[last.number]))
    assert numbers == [1, 2, 3, 4]


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
                take_up_again(other, other.trials[running.number])
        return plain(config)

    monkeypatch.setattr(Runs, "accuracy", staticmethod(slept))
    found = find(tmp_path / "s", trials=2, said=said)
    assert [r.number for r in found.records] == [0, 1]
    assert "taken for dead" in said[1]
    assert [name for name, _ in runs.begun] == ["0000", "0001", "0001"]


def test_probes_of_a_trial_that_had_been_trained_are_not_lost(tmp_path, runs, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(amcl.search.trials, "final", lambda *args: os.kill(os.getpid(), 2))
        with pytest.raises(KeyboardInterrupt):
            find(tmp_path / "s", trials=1)
    found = find(tmp_path / "s", trials=1)
    assert len(runs.begun) == 1
    assert sorted(found.records[0].probes) == [1, 2, 3, 4]


def test_a_study_without_its_storage_says_so(tmp_path, runs):
    find(tmp_path / "s", trials=1)
    (tmp_path / "s/study.db").unlink()
    with pytest.raises(RunError, match=r"study.db is gone"):
        find(tmp_path / "s", trials=2)
    find(tmp_path / "t", trials=1, study="mine")
    with pytest.raises(RunError, match="holds the study 'mine', not 'other'"):
        find(tmp_path / "t", trials=2, study="other")


@pytest.mark.parametrize("name", [name for name in recipes.names() if name.endswith("-amcl")])
def test_a_study_of_any_recipe_is_known_again_by_its_folder(tmp_path, name):
    config = recipes.recipe(name)
    new = Definition(config=config, space=amcl.search.paper_space(config), objective="knn")
    folder = StudyFolder(tmp_path / "s")
    folder.create(new, "", "s")
    known, _, _ = folder.read()
    assert known.to_dict() == new.to_dict()
    assert known.differing(new) == []


def test_a_trial_that_kills_its_processes_is_given_up(tmp_path, runs):
    find(tmp_path / "s", trials=1)
    opened = open_study_of(tmp_path / "s")
    for _ in range(3):
        trial = begun(opened)
        trial.set_user_attr("number", 1)
        trial.suggest_float("beta", 1e-5, 10, log=True)
        opened.tell(trial, state=optuna.trial.TrialState.FAIL)
        take_up_again(opened, opened.trials[trial.number])
    last = records_of(opened)[-1]
    assert (last.number, last.ending, last.reason) == (1, "failed", "its process died, 3 times")
    found = find(tmp_path / "s", trials=3)
    assert [r.ending for r in found.records] == ["complete", "failed", "complete"]


def test_two_processes_do_not_do_more_than_is_wanted(tmp_path, runs, monkeypatch):
    find(tmp_path / "s", trials=2)
    saw = iter([1, 1, 0])  # two saw room for one more before either began
    monkeypatch.setattr(amcl.search.trials, "room", lambda study, wanted: next(saw))
    found = find(tmp_path / "s", trials=3)
    assert len(found.records) == len(runs.begun) == 3


def test_machines_share_a_study_through_its_storage(tmp_path, runs):
    url = f"sqlite:///{tmp_path}/shared.db"
    find(tmp_path / "one", trials=2, storage=url, study="ours")
    found = find(tmp_path / "two", trials=4, storage=url, study="ours")
    assert [r.number for r in found.records] == [0, 1, 2, 3]
    assert [p.name for p in sorted((tmp_path / "two/trials").iterdir())] == ["0002", "0003"]
    with pytest.raises(RunError, match="differs in its space"):
        find(tmp_path / "three", storage=url, study="ours", space=["beta=1:2"])
    assert len(find(tmp_path / "four", trials=1, storage=url, study="mine").records) == 1


def test_passwords_are_not_written_down(tmp_path):
    url = "postgresql://me:secret@host/studies"
    folder = StudyFolder(tmp_path / "s")
    definition = Definition(
        config=base(), space=amcl.search.space_from(base(), BETA), objective="knn"
    )
    folder.create(definition, url, "ours")
    assert "secret" not in folder.listing.read_text()
    with pytest.raises(RunError, match="password is not written down"):
        folder.read()
    assert folder.read(url)[1] == url
    with pytest.raises(RunError, match="another storage"):
        folder.read("sqlite:///other.db")
    assert without_password("") == ""


@pytest.mark.parametrize(
    ("url", "error", "told"),
    [
        ("nonsense", ValueError, "--storage is no address of a database"),
        ("sqlite:////no/such/folder/study.db", RunError, "unable to open database file"),
        ("strange://host/x", ValueError, "strange is no address of a database"),
    ],
)
def test_a_storage_that_cannot_be_used(tmp_path, runs, url, error, told):
    with pytest.raises(error, match=told):
        find(tmp_path / "s", storage=url)
    assert not runs.begun


def test_the_test_split_is_never_searched_by(tmp_path, runs):
    for data in ({"probe": "test"}, {"validation": 0}):
        config = replace(base(), data=replace(base().data, **data))
        with pytest.raises(ValueError, match="validation"):
            find(tmp_path / "s", config=config)
    off = replace(base(), data=replace(base().data, probe="none"))
    find(tmp_path / "s", trials=1, config=off)
    assert Config.from_file(tmp_path / "s/trials/0000/config.toml").data.probe == "validation"


def test_without_labels_the_effective_rank_is_searched_by(tmp_path, runs, monkeypatch):
    folder = recipes.default(str(picture_folder(tmp_path / "pictures", 4)), "simclr")
    config = replace(base(), data=replace(folder.data, workers=0))
    monkeypatch.setattr(conduct, "load_data", load_data)
    with pytest.raises(ValueError, match=r"--objective knn needs labels.*effective-rank"):
        find(tmp_path / "s", trials=1, config=config, objective="knn")
    found = find(tmp_path / "s", trials=1, config=config)
    assert found.definition.objective == "effective-rank"
    assert found.records[0].value == 10.0


def test_several_processes_for_a_run_are_refused(tmp_path, runs):
    config = replace(base(), hardware=replace(base().hardware, devices=2))
    with pytest.raises(ValueError, match="use --jobs"):
        find(tmp_path / "s", config=config)


def test_a_first_stage_is_not_run_in_every_trial(tmp_path, runs):
    with pytest.raises(ValueError, match="--init RUN"):
        find(tmp_path / "s", config=recipes.recipe("builtin-lgp-amcl"))


def test_checkpoints_of_trials_may_go(tmp_path, runs):
    find(tmp_path / "kept", trials=1)
    assert (tmp_path / "kept/trials/0000/checkpoints/last.pt").is_file()
    find(tmp_path / "gone", trials=1, keep_checkpoints=False)
    assert not (tmp_path / "gone/trials/0000/checkpoints").exists()
    assert (tmp_path / "gone/trials/0000/backbone.safetensors").exists()


def test_a_damaged_study_says_so(tmp_path, runs):
    find(tmp_path / "s", trials=1)
    listing = tmp_path / "s/study.toml"
    listing.write_text(listing.read_text().replace("objective", "objection"))
    with pytest.raises(RunError, match=r"study.toml is damaged"):
        find(tmp_path / "s", trials=2)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A real run of a second, on labelled pictures."""
    pictures = tmp_path_factory.mktemp("pictures")
    for name in ("a", "b"):
        picture_folder(pictures / name, 40, 16)
    config = recipes.with_amcl(recipes.default(str(pictures), "simclr"))
    return replace(
        config,
        data=replace(config.data, workers=0),
        backbone=replace(config.backbone, backbone="resnet10t", width=0.25, stem="standard"),
        method=replace(config.method, projector=(16, 8)),
        optimiser=replace(config.optimiser, warmup_epochs=0.0),
        run=replace(config.run, epochs=2, probe_every=1, batch_size=16, knn_k=5),
    )


def test_real_runs_stopped_and_gone_on_with(tmp_path, monkeypatch, tiny):
    """The second of two trials is interrupted in its middle."""
    monkeypatch.setattr(conduct, "save_plots", lambda *args: [])
    asked = {"trials": 2, "config": tiny, "space": ["eta=0.05:0.5", "heads=2:3"]}
    whole = find(tmp_path / "whole", **asked)
    steps = [row["step"] for row in read_metrics(tmp_path / "whole/trials/0000")]
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=max(steps) + max(steps) // 2 + 1)  # of the second trial
        with pytest.raises(Interrupted):
            find(tmp_path / "cut", **asked)
    assert (tmp_path / "cut/trials/0001/checkpoints/last.pt").exists()
    found = find(tmp_path / "cut", **asked)
    assert found.records == whole.records
    for number in ("0000", "0001"):
        first, second = (tmp_path / out / "trials" / number for out in ("whole", "cut"))
        assert_same_run(first, second)
    assert value_of(found.config, "eta") == found.best.point["eta"]


def test_the_linear_probe_judges_on_validation_images(tmp_path, monkeypatch, tiny):
    monkeypatch.setattr(conduct, "save_plots", lambda *args: [])
    found = find(tmp_path / "s", trials=1, config=tiny, objective="linear")
    (told,) = (tmp_path / "s/trials/0000/evaluation").glob("linear*.json")
    result = json.loads(told.read_text())
    assert result["split"] == "validation"
    assert found.records[0].value == result["metrics"]["top1"]
    knn = read_metrics(tmp_path / "s/trials/0000")[-1]["knn_validation"]
    assert found.records[0].probes[2] == knn  # pruned by kNN, judged by the linear probe
