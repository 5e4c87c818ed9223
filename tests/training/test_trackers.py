"""Trackers really run, without a network, and get every row of metrics."""

import pytest

from amcl.checkpoints.run_folder import read_metrics
from amcl.training import pretrain
from factories import small_run


def expected(run):
    """The numbers that a tracker should have: (name, step) and value."""
    return {
        (f"{row['kind']}/{name}", row["step"]): value
        for row in read_metrics(run)
        for name, value in row.items()
        if isinstance(value, int | float) and name not in ("step", "epoch")
    }


def test_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    pretrain(small_run(tensorboard=True), tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    written = {
        (name, event.step): event.value
        for name in events.Tags()["scalars"]
        for event in events.Scalars(name)
    }
    assert written == pytest.approx(expected(tmp_path / "run"), rel=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_mlflow(tmp_path, monkeypatch):
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    for name in ("first", "second"):  # both in one experiment
        pretrain(small_run(mlflow="my pictures"), tmp_path / name)
    client = MlflowClient()
    experiment = client.get_experiment_by_name("my pictures")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert runs.keys() == {"first", "second"}
    run = runs["second"]
    assert run.info.status == "FINISHED"
    assert run.data.params["method"] == "simclr"
    written = {
        (metric.key, metric.step): metric.value
        for key in run.data.metrics
        for metric in client.get_metric_history(run.info.run_id, key)
    }
    assert written == pytest.approx(expected(tmp_path / "second"), rel=1e-9)


def test_weights_and_biases(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    pretrain(small_run(wandb="my-pictures"), tmp_path / "run")
    (folder,) = (tmp_path / "run/wandb").glob("offline-run-*")
    (file,) = folder.glob("*.wandb")
    content = file.read_bytes()
    names = {name for name, _ in expected(tmp_path / "run")}
    assert names
    assert all(name.encode() in content for name in names)
