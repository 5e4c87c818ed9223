"""Two workers with folders of their own share a sweep through a storage; one is killed."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote

import pytest

from amcl.sweep import SweepFolder
from amcl.sweep.engine import STOPPED, Trials
from factories import small_config
from postgres import MISSING, postgres


@pytest.fixture(params=["journal", "postgres"])
def storage(request, tmp_path):
    """The address of a new storage."""
    if request.param == "journal":
        yield str(tmp_path / "ours.journal")
        return
    with postgres() as address:
        if address is None:
            pytest.skip(MISSING)
        yield address


def start(folder: Path, name: str, storage: str) -> subprocess.Popen[bytes]:
    """Start a worker."""
    grid = "--config base.toml --grid seed=0,1,2,3 --study ours --accelerator cpu --threads 1"
    words = [sys.executable, "-m", "amcl", "sweep", *grid.split(), "--out", name]
    with (folder / f"{name}.txt").open("wb") as output:
        return subprocess.Popen(
            [*words, "--storage", storage],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=output,
            stderr=output,
        )


@pytest.mark.slow
def test_one_of_two_workers_is_killed_and_the_other_does_each_run_once(tmp_path, storage):
    options = {"projector": (16, 8), "epochs": 6, "batch_size": 40, "knn_k": 20, "subset": 160}
    config = small_config("builtin-simclr", **options)
    (tmp_path / "base.toml").write_text(config.to_toml())
    killed, other = (start(tmp_path, name, storage) for name in ("killed", "other"))
    try:
        end = time.monotonic() + 300
        while not (begun := list(tmp_path.glob("killed/runs/*/metrics.jsonl"))):
            assert time.monotonic() < end
            assert killed.poll() is None, (tmp_path / "killed.txt").read_text()
            time.sleep(0.05)
        killed.kill()
        killed.wait()
        assert other.wait(400) == 0, (tmp_path / "other.txt").read_text()
    finally:
        for process in (killed, other):
            process.kill()
            process.wait()
    folder = SweepFolder(tmp_path / "other", storage)
    records = folder.records()
    assert [(record.seed, record.status) for record in records] == [
        (seed, "complete") for seed in range(4)
    ]
    complete = [trial for trial in folder.study.trials if trial.state.name == "COMPLETE"]
    assert len(complete) == 4
    trials = Trials(folder.study)
    taken_up = begun[0].parent.name
    attempts = [trial for trial in trials.of(taken_up) if STOPPED not in trial.user_attrs]
    states = [trial.state.name for trial in attempts]  # without one for which the other was faster
    assert states == ["FAIL", "COMPLETE"] or states == ["COMPLETE"]
    assert (tmp_path / "other/runs" / taken_up).exists() == (states == ["FAIL", "COMPLETE"])
    assert json.loads((tmp_path / "other/sweep.json").read_text())["study"] == "ours"
    if "://" in storage:
        password = storage.split("://amcl:")[1].split("@")[0]
        for path in tmp_path.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                assert password.encode() not in content, path
                assert unquote(password).encode() not in content, path
