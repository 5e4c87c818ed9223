"""Searches: every trial is recorded, none stops the study, and the best is a file to train from."""

import csv
import json
import math
from dataclasses import replace

import pytest
import torch

import amcl.search.trials
from amcl import recipes
from amcl.checkpoints import read_metrics
from amcl.config import Config
from amcl.config.fields import value_of
from amcl.errors import Interrupted, RunError
from amcl.search import study
from amcl.training.pretrain import load_data
from search.studies import base, diverged, find, numbers, open_study_of, probes, value
from tiny_runs import assert_same_run, interrupt_at, picture_folder


def test_the_best_of_the_trials_is_a_file_to_train_from(tmp_path, drawn):
    said = []
    found = find(tmp_path / "s", trials=9, said=said)
    assert numbers(found.records) == list(range(9))
    assert {record.status for record in found.records} == {"complete"}
    betas = {int(record.name): record.values["beta"] for record in found.records}
    oracle = {n: 1 / (1 + abs(math.log10(beta) + 1)) for n, beta in betas.items()}
    assert {int(r.name): value(r) for r in found.records} == pytest.approx(oracle)
    assert int(found.verdict.best.name) == max(oracle, key=oracle.get)
    config = Config.from_file(tmp_path / "s/best.toml")
    assert config == found.config
    assert config.method.temperature.beta == betas[int(found.best.name)]
    assert replace(config, method=base().method) == base()
    assert len(said) == 11
    assert "judged by kNN accuracy on validation images" in said[0]
    assert "beta=1e-05:10.0:log" in said[0]
    assert said[-1].startswith("9/9  trial 8  kNN accuracy")
    with (tmp_path / "s/trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {int(row["number"]): float(row["beta"]) for row in rows} == betas
    assert "amcl pretrain --config" in (tmp_path / "s/summary.md").read_text()
    assert (
        "importance.png` is not drawn: a ranking needs two"
        in (tmp_path / "s/summary.md").read_text()
    )
    for picture in ("history", "curves", "sensitivity"):
        assert (tmp_path / f"s/{picture}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_model_of_past_trials_does_better_than_chance(tmp_path, runs):
    found = find(tmp_path / "s", trials=25)
    values = [value(record) for record in found.records]
    assert sum(values[10:]) / 15 > sum(values[:10]) / 10 + 0.05


def test_a_study_goes_on_and_may_grow(tmp_path, runs):
    find(tmp_path / "s", trials=3)
    found = find(tmp_path / "s", trials=5)
    assert len(found.records) == len(runs.begun) == 5
    find(tmp_path / "s", trials=5)
    assert len(runs.begun) == 5  # nothing is left to do
    alone = find(tmp_path / "other", trials=5)
    assert [r.values for r in found.records] == [r.values for r in alone.records]
    assert find(tmp_path / "seed", trials=2, config=base(seed=1)).records[0].values != (
        found.records[0].values
    )


def test_what_is_searched_cannot_change_on_the_way(tmp_path, runs):
    find(tmp_path / "s", trials=2)
    with pytest.raises(RunError, match=r"other settings: batch_size\b.*Leave them out"):
        find(tmp_path / "s", trials=3, config=base(batch_size=64))
    with pytest.raises(RunError, match=r"/s .*\bspace\b.*--out"):
        find(tmp_path / "s", trials=3, space=["beta=1:10"])
    assert len(runs.begun) == 2
    changed = replace(base(), hardware=replace(base().hardware, threads=1))
    changed = replace(changed, data=replace(changed.data, workers=0, data_root=str(tmp_path)))
    assert len(find(tmp_path / "s", trials=3, config=changed).records) == 3


def test_a_folder_of_something_else_is_left_alone(tmp_path, runs):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match=r"empty folder.*--out"):
        find(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_trials_that_end_badly_are_recorded_and_do_not_stop_the_study(tmp_path, runs):
    runs.events = {0: diverged(), 1: "collapse", 2: RuntimeError("out of memory"), 3: "collapse"}
    said = []
    found = find(tmp_path / "s", trials=5, said=said)
    assert [r.status for r in found.records] == [
        *("diverged", "collapsed", "failed", "collapsed", "complete")
    ]
    assert [value(r) is None for r in found.records] == [True, True, True, True, False]
    reasons = [record.reason for record in found.records]
    assert "not finite after step 3" in reasons[0]
    assert "spread is 0.010" in reasons[1]
    assert len(probes(found.records[1])) == 2  # it was stopped at its second probe
    assert reasons[2] == "RuntimeError: out of memory"
    assert "diverged: the loss is not finite" in said[1]
    assert int(found.best.name) == 4
    states = [t.state.name for t in open_study_of(tmp_path / "s").get_trials()]
    assert states == ["PRUNED", "PRUNED", "FAIL", "PRUNED", "COMPLETE"]


def test_a_collapse_at_the_last_epoch_has_no_value(tmp_path, runs):
    runs.events = {0: "collapse"}
    found = find(tmp_path / "s", trials=1, config=base(epochs=1))
    assert found.records[0].status == "collapsed"
    assert found.best is None
    assert not (tmp_path / "s/best.toml").exists()


def test_settings_that_do_not_fit_together_are_one_bad_point(tmp_path, runs):
    found = find(tmp_path / "s", trials=8, space=["tau_lower=0.1:0.9", "tau_upper=0.2:1"])
    invalid = [r for r in found.records if r.values["tau_lower"] >= r.values["tau_upper"]]
    assert invalid
    assert [r.name for r in found.records if r.status == "invalid"] == [r.name for r in invalid]
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
        return {"knn_validation": value}

    monkeypatch.setattr(amcl.search.trials, "evaluate_run", judged)
    found = find(tmp_path / "s", trials=3)
    assert [r.status for r in found.records] == ["failed", "diverged", "complete"]
    assert found.records[0].reason == "judging: RuntimeError: CUDA out of memory"
    assert found.records[1].reason == "kNN accuracy: nan"
    assert value(found.best) == 0.5


def test_pruning_by_the_median_saves_epochs(tmp_path, runs):
    found = find(tmp_path / "s", trials=14, pruner="median")
    pruned = [record for record in found.records if record.status == "pruned"]
    assert 2 <= len(pruned) <= 9
    for record in pruned:
        last = max(probes(record))
        assert last < 4
        others = [
            probes(r)[last] for r in found.records if r.name < record.name and value(r) is not None
        ]
        assert probes(record)[last] < torch.tensor(others).quantile(0.5)
        assert f"after epoch {last}" in record.reason


def test_where_no_trial_can_be_pruned_that_is_said(tmp_path, runs):
    said = []
    find(tmp_path / "s", trials=1, said=said, pruner="median", config=base(probe_every=4))
    assert "no trial can be cut short" in said[0]


def test_pruning_by_halving(tmp_path, runs):
    found = find(tmp_path / "s", trials=12, pruner="halving", config=base(epochs=9))
    endings = [record.status for record in found.records]
    assert endings.count("pruned") >= 4
    assert endings.count("complete") >= 1


def test_the_test_split_is_never_searched_by(tmp_path, runs):
    refused = (({"probe": "test"}, "--probe validation"), ({"validation": 0}, "--validation 1000"))
    for data, fix in refused:
        config = replace(base(), data=replace(base().data, **data))
        with pytest.raises(ValueError, match=fix):
            find(tmp_path / "s", config=config)
    off = replace(base(), data=replace(base().data, probe="none"))
    find(tmp_path / "s", trials=1, config=off)
    assert Config.from_file(tmp_path / "s/trials/0000/config.toml").data.probe == "validation"


def test_without_labels_the_effective_rank_is_searched_by(tmp_path, runs, monkeypatch):
    folder = recipes.default(str(picture_folder(tmp_path / "pictures", 4)), "simclr")
    config = replace(base(), data=replace(folder.data, workers=0))
    monkeypatch.setattr(study, "load_data", load_data)
    with pytest.raises(ValueError, match=r"--objective knn needs labels.*effective-rank"):
        find(tmp_path / "s", trials=1, config=config, objective="knn")
    found = find(tmp_path / "s", trials=1, config=config)
    assert found.definition.objective == "effective-rank"
    assert found.records[0].metrics["effective_rank"] == 10.0


def test_several_processes_for_a_run_are_refused(tmp_path, runs):
    config = replace(base(), hardware=replace(base().hardware, devices=2))
    with pytest.raises(ValueError, match="use --jobs"):
        find(tmp_path / "s", config=config)


def test_a_first_stage_is_not_run_in_every_trial(tmp_path, runs):
    with pytest.raises(ValueError, match="--init RUN"):
        find(tmp_path / "s", config=recipes.recipe("builtin-lgp-amcl"))


def test_checkpoints_of_trials_that_have_ended_go_unless_they_are_asked_for(tmp_path, runs):
    find(tmp_path / "kept", trials=1, keep_checkpoints=True)
    assert (tmp_path / "kept/trials/0000/checkpoints/last.pt").is_file()
    find(tmp_path / "kept", trials=2)
    assert (tmp_path / "kept/trials/0000/checkpoints/last.pt").is_file()  # of an earlier search
    find(tmp_path / "gone", trials=1)
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
    """A real run of a second, on labeled pictures."""
    pictures = tmp_path_factory.mktemp("pictures")
    for name in ("a", "b"):
        picture_folder(pictures / name, 40, 16)
    config = recipes.with_amcl(recipes.default(str(pictures), "simclr"))
    return replace(
        config,
        data=replace(config.data, workers=0),
        backbone=replace(config.backbone, name="resnet10t", width=0.25, stem="standard"),
        method=replace(config.method, projector=(16, 8)),
        optimizer=replace(config.optimizer, warmup_epochs=0.0),
        run=replace(config.run, epochs=2, probe_every=1, batch_size=16, knn_k=5),
    )


@pytest.mark.slow
def test_real_runs_stopped_and_gone_on_with(tmp_path, monkeypatch, tiny):
    """The second of two trials is interrupted in its middle."""
    monkeypatch.setattr(study, "save_plots", lambda *args: ([], {}))
    asked = {"trials": 2, "config": tiny, "space": ["eta=0.05:0.5", "heads=2:3"]}
    asked["keep_checkpoints"] = True
    whole = find(tmp_path / "whole", **asked)
    steps = [row["step"] for row in read_metrics(tmp_path / "whole/trials/0000")]
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=max(steps) + max(steps) // 2 + 1)  # of the second trial
        with pytest.raises(Interrupted):
            find(tmp_path / "cut", **asked)
    assert (tmp_path / "cut/trials/0001/checkpoints/last.pt").exists()
    found = find(tmp_path / "cut", **asked)
    assert [replace(r, path=None) for r in found.records] == [
        replace(r, path=None) for r in whole.records
    ]
    for number in ("0000", "0001"):
        first, second = (tmp_path / out / "trials" / number for out in ("whole", "cut"))
        assert_same_run(first, second)
    assert value_of(found.config, "eta") == found.best.values["eta"]


def test_the_linear_probe_judges_on_validation_images(tmp_path, monkeypatch, tiny):
    monkeypatch.setattr(study, "save_plots", lambda *args: ([], {}))
    found = find(tmp_path / "s", trials=1, config=tiny, objective="linear")
    (told,) = (tmp_path / "s/trials/0000/evaluation").glob("linear*.json")
    result = json.loads(told.read_text())
    assert result["split"] == "validation"
    assert found.records[0].metrics["linear_top1_validation"] == result["metrics"]["top1"]
    knn = read_metrics(tmp_path / "s/trials/0000")[-1]["knn_validation"]
    assert (
        open_study_of(tmp_path / "s").trials[0].intermediate_values[2] == knn
    )  # pruned by kNN, judged by the linear probe
