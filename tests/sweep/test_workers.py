"""Several processes at one piece of work: what they are told, what they tell, how they end."""

import multiprocessing
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from amcl.config import Config
from amcl.config.fields import with_values
from amcl.errors import Interrupted, RunError
from amcl.sweep import SweepFolder, grid, sweep
from amcl.sweep import workers as module
from amcl.sweep.workers import for_workers, work_together
from tiny_runs import picture_folder


def test_one_job_is_done_here(tmp_path):
    told = []
    work_together(lambda tell: tell(str(os.getpid())), 1, told.append, tmp_path / "logs")
    assert told == [str(os.getpid())]
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("jobs", [0, -1, 1.5])
def test_jobs_are_counted(tmp_path, jobs):
    with pytest.raises(ValueError, match=rf"\bjobs\b.*{jobs}"):
        work_together(print, jobs, print, tmp_path)


def test_each_run_has_one_process(monkeypatch):
    hardware = Config().hardware
    assert for_workers(Config()) == Config(hardware=replace(hardware, devices=1))
    changes = ({"devices": 2}, {"nodes": 2}, {"strategy": "fsdp"})
    for several in (replace(hardware, **change) for change in changes):
        with pytest.raises(ValueError, match="use --jobs"):
            for_workers(Config(hardware=several))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="torchrun"):
        for_workers(Config())


@pytest.mark.parametrize(
    ("visible", "count", "gpus"),
    [(None, 2, ["0", "1"]), ("3,GPU-5a", 2, ["3", "GPU-5a"]), ("", 0, []), (None, 0, [])],
)
def test_gpus_are_named_as_they_are_visible(monkeypatch, visible, count, gpus):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert module._gpus() == gpus


def test_what_workers_tell_is_told_and_their_errors_are_kept():
    (a, to_a), (b, to_b) = (multiprocessing.Pipe(duplex=False) for _ in range(2))
    to_a.send("one")
    to_b.send("two")
    to_b.send(("it is wrong", 2))
    to_a.close()
    os.write(to_b.fileno(), b"\x00\x00")  # what a kill in the middle of a message leaves
    to_b.close()
    told = []
    assert module._listen([a, b], told.append) == {1: ("it is wrong", 2)}
    assert sorted(told) == ["one", "two"]
    a.close()
    b.close()


def test_how_workers_ended_is_an_error_of_its_kind(tmp_path):
    module._check({}, [0, 0], tmp_path)
    with pytest.raises(ValueError, match="a wrong option"):
        module._check({1: ("a wrong option", 2)}, [0, 1], tmp_path)
    with pytest.raises(RunError, match="the disk"):
        module._check({0: ("the disk", 1)}, [1, 0], tmp_path)
    with pytest.raises(RunError, match=r"worker 1 ended by signal 9; .*worker-1\.log"):
        module._check({}, [0, -9], tmp_path)
    with pytest.raises(RunError, match="worker 0 ended with code 130"):
        module._check({}, [130, 0], tmp_path)


@pytest.fixture
def small(tiny, tmp_path) -> Config:
    """Runs that other processes can carry out too: of a folder of pictures, with one thread."""
    data = {"data": str(picture_folder(tmp_path / "pictures", 24, 16)), "image_size": 16}
    run = {"batch_size": 8, "log_every": 1, "warmup_epochs": 0.0, "workers": 0}
    config = with_values(tiny, {**data, **run})
    return replace(config, hardware=replace(config.hardware, threads=1))


def starts(run: Path) -> int:
    return len((run / "environment.jsonl").read_text().splitlines())


def when_it_trains(run: Path, act) -> threading.Thread:
    """Do something as soon as a run has taken a step."""

    def wait() -> None:
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            if (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").stat().st_size:
                act()
                return
            time.sleep(0.005)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def same_backbones(first: Path, second: Path) -> bool:
    files = [sorted(out.glob("runs/*/backbone.safetensors")) for out in (first, second)]
    names = [[file.parent.name for file in each] for each in files]
    return names[0] == names[1] and all(
        a.read_bytes() == b.read_bytes() for a, b in zip(*files, strict=True)
    )


@pytest.mark.slow
def test_two_processes_and_a_stop(tmp_path, small):
    """Each run is begun by one of them; both are stopped by one signal; nothing is lost."""
    points = grid(small, {"epochs": ["1", "12"], "seed": ["0"]})
    out, told = tmp_path / "out", []
    run = SweepFolder(out).run(points[1].name)
    thread = when_it_trains(run, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted, match=f"amcl sweep --out {out}") as stopped:
        sweep(points, out, jobs=2, tell=told.append)
    thread.join()
    assert stopped.value.exit_code == 143
    assert multiprocessing.active_children() == []
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert (run / "checkpoints/last.pt").exists()
    assert not (run / "backbone.safetensors").exists()
    assert {starts(r) for r in (out / "runs").iterdir()} == {1}
    # Alone, it comes to the same as what was never stopped.
    found = sweep(points, out, tell=told.append)
    assert [f.status for f in found] == ["complete", "complete"]
    assert starts(run) == 2
    sweep(points, tmp_path / "straight", tell=told.append)
    assert same_backbones(out, tmp_path / "straight")


@pytest.mark.slow
def test_a_worker_that_is_killed(tmp_path, small):
    points = grid(small, {"epochs": ["12"], "seed": ["0", "1", "2", "3"]})
    names = [point.name for point in points]
    out, told = tmp_path / "out", []

    def kill() -> None:
        """One that is at a run: it has logged something."""
        children = multiprocessing.active_children()
        children.sort(key=lambda child: int(child.name.rpartition("-")[2]))
        logs = [(out / f"logs/worker-{i}.log") for i in range(2)]
        busy = [log.exists() and log.stat().st_size > 0 for log in logs]
        os.kill(children[busy.index(True)].pid, signal.SIGKILL)

    thread = when_it_trains(SweepFolder(out).run(names[0]), kill)
    with pytest.raises(RunError, match="ended by signal 9"):
        sweep(points, out, jobs=2, tell=told.append)
    thread.join()
    # The other one did all that was left to it, and perhaps what this one was at.
    found = SweepFolder(out).records()
    assert len(found) == len(told) >= 3
    assert {f.status for f in found} == {"complete"}
    assert [f.name for f in sweep(points, out, tell=told.append)] == names
    assert 4 <= sum(starts(SweepFolder(out).run(name)) for name in names) <= 5
    sweep(points, tmp_path / "straight", tell=told.append)
    assert same_backbones(out, tmp_path / "straight")
