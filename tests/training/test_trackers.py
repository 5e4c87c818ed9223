"""Trackers really run, without a network, and get every row of metrics.

They start threads and processes of their own, so each runs in a process of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amcl.checkpoints.run_folder import read_metrics

TESTS = Path(__file__).parents[1]
TRAIN = """
import json, sys
from pathlib import Path
from amcl.training import pretrain
from factories import small_run

def train(name, **options):
    pretrain(small_run(**options), name)
"""


def run(code, cwd, **environment):
    """Run code in a folder, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", TRAIN + code],
        env={**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'src'}", **environment},
        capture_output=True,
        text=True,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def expected(run):
    """Return the numbers that a tracker should have: a step and a value for each name."""
    return {
        f"{row['kind']}/{name} {row['step']}": value
        for row in read_metrics(run)
        for name, value in row.items()
        if isinstance(value, int | float) and name not in ("step", "epoch")
    }


def test_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run("train('run', tensorboard=True)", tmp_path)
    events = EventAccumulator(str(tmp_path / "run/tensorboard"))
    events.Reload()
    written = {
        f"{name} {event.step}": event.value
        for name in events.Tags()["scalars"]
        for event in events.Scalars(name)
    }
    assert written == pytest.approx(expected(tmp_path / "run"), rel=1e-5)


@pytest.mark.slow
def test_mlflow(tmp_path):
    code = """
for name in ("first", "second"):  # both in one experiment
    train(name, mlflow="my pictures")
from mlflow import MlflowClient
client = MlflowClient()
experiment = client.get_experiment_by_name("my pictures")
runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
second = runs["second"]
metrics = {
    f"{metric.key} {metric.step}": metric.value
    for key in second.data.metrics
    for metric in client.get_metric_history(second.info.run_id, key)
}
answer = [sorted(runs), second.info.status, second.data.params["method"], metrics]
Path("answer.json").write_text(json.dumps(answer))
"""
    run(code, tmp_path, MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/mlflow.db")
    names, status, method, metrics = json.loads((tmp_path / "answer.json").read_text())
    assert (names, status, method) == (["first", "second"], "FINISHED", "simclr")
    assert metrics == pytest.approx(expected(tmp_path / "second"), rel=1e-9)


@pytest.mark.slow
def test_weights_and_biases(tmp_path):
    run("train('run', wandb='my-pictures')", tmp_path, WANDB_MODE="offline", WANDB_SILENT="true")
    (folder,) = (tmp_path / "run/wandb").glob("offline-run-*")
    (file,) = folder.glob("*.wandb")
    content = file.read_bytes()
    names = {key.partition(" ")[0] for key in expected(tmp_path / "run")}
    assert names
    assert all(name.encode() in content for name in names)
