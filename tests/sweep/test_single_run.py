"""One run among many: how it ends, and what is no ending of a run."""

import json
import signal
from dataclasses import replace

import pytest
import torch

import amcl.sweep.single_run
from amcl import recipes
from amcl.checkpoints import RunFolder
from amcl.config.fields import with_values
from amcl.errors import Interrupted, RunError
from amcl.methods import Method
from amcl.sweep.single_run import StopRun, read_probes, train_or_resume
from amcl.training import pretrain
from tiny_runs import interrupt_at

pytestmark = pytest.mark.usefixtures("few_images")


def starts(run) -> int:
    """How often a run was begun or gone on with."""
    return len((run / "environment.jsonl").read_text().splitlines())


def test_a_run_is_carried_out_once(tmp_path, tiny):
    config = with_values(tiny, {"epochs": 2, "probe_every": 1})
    record = train_or_resume(config, tmp_path / "run")
    assert (record.status, record.reason, record.epoch) == ("complete", "", 2)
    rows = [json.loads(r) for r in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["kind"] == "probe"
    assert record.metrics["knn_validation"] == rows[-1]["knn_validation"]
    assert record.metrics.keys() == rows[-1].keys() - {"kind", "step", "epoch"}
    assert [row["epoch"] for row in read_probes(tmp_path / "run")] == [1, 2]
    assert train_or_resume(config, tmp_path / "run") == record
    assert starts(tmp_path / "run") == 1


def test_it_goes_on_where_it_was_stopped(tmp_path, tiny, monkeypatch):
    pretrain(tiny, tmp_path / "straight")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 1, signal.SIGTERM)
        with pytest.raises(Interrupted) as stopped:
            train_or_resume(tiny, tmp_path / "run")
    assert stopped.value.exit_code == 143
    assert not (tmp_path / "run/backbone.safetensors").exists()
    other = replace(tiny, hardware=replace(tiny.hardware, accelerator="cpu"))
    assert (
        train_or_resume(with_values(other, {"workers": 0}), tmp_path / "run").status == "complete"
    )
    assert starts(tmp_path / "run") == 2
    straight, run = tmp_path / "straight", tmp_path / "run"
    assert (straight / "backbone.safetensors").read_bytes() == (
        run / "backbone.safetensors"
    ).read_bytes()
    assert train_or_resume(tiny, straight).metrics == train_or_resume(tiny, run).metrics


def test_half_a_backbone_is_not_taken_for_a_complete_run(tmp_path, tiny):
    """As a loss of power may leave it."""
    record = train_or_resume(tiny, tmp_path / "run")
    path = tmp_path / "run/backbone.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert train_or_resume(tiny, tmp_path / "run") == record
    assert path.read_bytes() == whole


def test_what_a_kill_left_of_a_new_run_is_no_obstacle(tmp_path, tiny, monkeypatch):
    def start(config, folder, *, resume, on_probe):
        assert not resume
        RunFolder(folder).create(config)

    monkeypatch.setattr(amcl.sweep.single_run, "pretrain", start)
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.config.toml.123.writing").write_text("[da")
    assert train_or_resume(tiny, tmp_path / "run").status == "complete"
    assert RunFolder(tmp_path / "run").read_config() == tiny


def test_another_run_is_not_gone_on_with(tmp_path, tiny, monkeypatch):
    interrupt_at(monkeypatch, 1)
    with pytest.raises(Interrupted):
        train_or_resume(tiny, tmp_path)
    with pytest.raises(RunError, match=r"\(tau\)"):
        train_or_resume(with_values(tiny, {"tau": 0.7}), tmp_path)


def test_a_run_that_diverges(tmp_path, tiny):
    config = with_values(tiny, {"optimizer": "sgd", "lr": 1e9, "epochs": 2, "warmup_epochs": 0.0})
    record = train_or_resume(config, tmp_path)
    assert record.status == "diverged"
    assert record.reason.startswith("the loss is not finite after step")
    assert (record.metrics, record.epoch) == ({}, None)


def test_a_run_that_collapses(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr("amcl.training.watch.spread", lambda h: 0.02)
    record = train_or_resume(tiny, tmp_path)
    assert record.status == "collapsed"
    assert "spread is 0.020, below 0.1" in record.reason
    assert record.metrics["spread"] == 0.02


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (torch.OutOfMemoryError("CUDA out of memory.\nMore."), "OutOfMemoryError: CUDA out of"),
        (ValueError("does not fit"), "ValueError: does not fit"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_what_is_wrong_with_a_run_is_its_outcome(tmp_path, tiny, monkeypatch, error, reason):
    def call(self, *args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Method, "__call__", call)
        record = train_or_resume(tiny, tmp_path)
    assert record.status == "failed"
    assert record.reason.startswith(reason)
    assert "\n" not in record.reason
    assert train_or_resume(tiny, tmp_path).status == "complete"


@pytest.mark.parametrize(
    ("error", "told"),
    [(OSError(28, "No space left on device"), r"/last\.pt .*disk"), (KeyboardInterrupt("^C"), "C")],
)
def test_what_would_stop_any_run_is_raised(tmp_path, tiny, monkeypatch, error, told):
    def save(state, file):
        raise error

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises((RunError, KeyboardInterrupt), match=told):
        train_or_resume(tiny, tmp_path)


def test_images_that_are_not_there_are_no_outcome(tmp_path, tiny):
    config = with_values(tiny, {"data": str(tmp_path / "none")})
    with pytest.raises(FileNotFoundError):
        train_or_resume(config, tmp_path / "run")


def test_whoever_watches_may_end_a_run(tmp_path, tiny):
    seen = []

    def watch(row):
        seen.append(row["epoch"])
        if row["epoch"] == 2:
            raise StopRun("pruned", "seen enough")

    config = with_values(tiny, {"epochs": 3, "probe_every": 1})
    record = train_or_resume(config, tmp_path, watch)
    assert seen == [1, 2]
    assert (record.status, record.reason, record.epoch) == ("pruned", "seen enough", 2)
    assert not (tmp_path / "backbone.safetensors").exists()
    assert read_probes(tmp_path / "nowhere") == []


def test_a_batch_that_does_not_fit_is_a_fault_of_the_run(tmp_path):
    config = recipes.recipe("builtin-simclr")
    config = replace(config, run=replace(config.run, batch_size=5000))
    record = train_or_resume(config, tmp_path / "run")
    assert record.status == "failed"
    assert "does not fit into the" in record.reason
