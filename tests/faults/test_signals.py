"""Signals that come at any time: while Python imports, between steps, to a sweep of processes."""

import logging
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from amcl.checkpoints.files import load_checkpoint
from amcl.cli.command import attempt
from amcl.cli.process import run_process
from amcl.errors import Interrupted
from amcl.methods import Method
from amcl.sweep.workers import work_together
from amcl.training import loop, pretrain
from amcl.training.hardware import StopRequest
from amcl.training.saving import CheckpointPolicy
from tiny_runs import assert_same_run, interrupt_at, picture_folder, process_kept, tiny_vit

ATTACK = "signals at any time: in imports, at the start, in training, in sweeps"
SMALL = "--data builtin --subset 64 --backbone resnet10t --width 0.125 --batch-size 32 --threads 1"


@pytest.fixture(autouse=True)
def in_a_terminal():
    """SIGHUP ends a process, also if the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@contextmanager
def command(words, folder, **options):
    """A command in a process of its own, which is killed if it is still there at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "amcl", *words.split()],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGXCPU])
def test_a_lost_connection_and_the_end_of_cpu_time_save_a_run(tmp_path, monkeypatch, number):
    config = tiny_vit("simclr", picture_folder(tmp_path / "pictures", 16))
    pretrain(config, tmp_path / "straight")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 2, number)
        with pytest.raises(Interrupted, match=r"after step 2 of 4, everything is saved") as stopped:
            pretrain(config, tmp_path / "stopped")
    assert stopped.value.exit_code == 128 + number
    pretrain(config, tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "straight", tmp_path / "stopped")


def test_under_nohup_a_lost_connection_is_none(tmp_path, monkeypatch):
    config = tiny_vit("simclr", picture_folder(tmp_path / "pictures", 16))
    with process_kept():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        interrupt_at(monkeypatch, 2, signal.SIGHUP)
        pretrain(config, tmp_path / "run")
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert (tmp_path / "run/backbone.safetensors").exists()


def test_usr1_saves_once_and_training_continues(tmp_path, monkeypatch, caplog):
    """A run of 4 steps saves before the first step and after the last by itself."""
    config = tiny_vit("simclr", picture_folder(tmp_path / "pictures", 16))
    pretrain(config, tmp_path / "straight")
    saved, plain = [], CheckpointPolicy.save
    monkeypatch.setattr(
        CheckpointPolicy, "save", lambda self: saved.append(self.trainer.step) or plain(self)
    )
    interrupt_at(monkeypatch, 1, signal.SIGUSR1)
    caplog.set_level(logging.INFO, "amcl")
    pretrain(config, tmp_path / "run")
    assert saved == [0, 1, 4]
    line = "saved after step 1 of 4, as a signal asked: training continues"
    assert caplog.messages.count(line) == 1
    assert (tmp_path / "run/log.txt").read_text(encoding="utf-8").count(line) == 1
    assert_same_run(tmp_path / "straight", tmp_path / "run")


def test_usr1_before_a_stop_is_one_checkpoint(tmp_path, monkeypatch):
    config = tiny_vit("simclr", picture_folder(tmp_path / "pictures", 16))
    saved, save = [], CheckpointPolicy.save
    monkeypatch.setattr(
        CheckpointPolicy, "save", lambda self: saved.append(self.trainer.step) or save(self)
    )
    plain = Method.__call__

    def call(self, *args, **kwargs):
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGTERM)
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(Method, "__call__", call)
    with pytest.raises(Interrupted) as stopped:
        pretrain(config, tmp_path / "run")
    assert stopped.value.exit_code == 143
    assert saved == [0, 1]


def test_the_request_of_any_process_is_that_of_all(monkeypatch):
    """What `mean_over_ranks` gives where the other of two processes got the signal."""
    trainer = SimpleNamespace(loss_sum=torch.tensor(3.0))
    stop = StopRequest()
    assert loop._agree(trainer, torch.tensor(1.0), stop)[1:] == (False, False)
    for other, agreed in (([0, 1], (False, True)), ([1, 0], (True, False))):
        monkeypatch.setattr(
            loop,
            "mean_over_ranks",
            lambda mine, other=other: (mine + torch.tensor([1.0, 3.0, *other])) / 2,
        )
        assert loop._agree(trainer, torch.tensor(1.0), stop)[1:] == agreed


def _wait_for_request(folder, tell):
    with StopRequest() as stop:
        tell(f"ready {os.getpid()}")
        end = time.monotonic() + 60
        while not (saved := stop.take_save()) and stop.signal is None and time.monotonic() < end:
            time.sleep(0.02)
        (folder / f"{os.getpid()}").write_text(f"{saved} {stop.signal}")
    if stop.signal is not None:
        raise Interrupted("stopped", stop.signal)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGUSR1, "True None"), (signal.SIGHUP, "False 1")]
)
def test_workers_of_a_sweep_get_the_signals_of_their_parent(tmp_path, number, expected):
    ready = []

    def tell(line):
        ready.append(line)
        if len(ready) == 2:
            os.kill(os.getpid(), number)

    done = tmp_path / "done"
    done.mkdir()
    try:
        work_together(partial(_wait_for_request, done), 2, tell, tmp_path / "logs")
        code = 0
    except Interrupted as stopped:
        code = stopped.exit_code
    assert code == (0 if number == signal.SIGUSR1 else 129)
    assert [path.read_text() for path in done.iterdir()] == [expected] * 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("framed", [True, False])
def test_a_command_that_does_not_train_ends_with_one_line(capsys, number, framed):
    """`amcl recipes` and `amcl data` have no frame of their own."""
    ended = []

    def work():
        try:
            os.kill(os.getpid(), number)
            time.sleep(10)
        finally:
            ended.append("files removed")
        return 0

    with process_kept():
        run = (lambda: attempt("amcl embed", work, "Start again.")) if framed else work
        assert run_process(lambda: run) == 128 + number
    expected = "amcl embed: interrupted. Start again.\n" if framed else "amcl: interrupted.\n"
    assert capsys.readouterr().err == expected
    assert ended == ["files removed"]


def test_a_request_to_save_ends_no_command_that_has_nothing_to_save(capsys):
    with process_kept():
        assert run_process(lambda: lambda: os.kill(os.getpid(), signal.SIGUSR1) or 0) == 0
    assert capsys.readouterr().err == ""


STARTING = """
import os, signal, sys
from amcl.cli.process import run_process

def load():
    try:
        os.kill(os.getpid(), signal.{name})
        import decimal  # any import is an end of the statement before
    except BaseException:  # as some packages have it around their imports
        pass
    return lambda: 0

sys.exit(run_process(load))
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_during_imports_ends_with_one_line(name):
    """Even if a package that is imported catches everything."""
    done = subprocess.run(
        [sys.executable, "-c", STARTING.format(name=name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128 + getattr(signal, name)
    assert done.stderr == "amcl: interrupted before it began.\n"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seconds", [0.5, 1.0, 2.0, 3.0])
def test_a_signal_at_any_time_of_the_start(tmp_path, number, seconds):
    words = f"pretrain {SMALL} --epochs 10000 --knn-k 5 --out run"
    with command(words, tmp_path) as process:
        time.sleep(seconds)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Traceback" not in err
    assert re.search("interrupted|stopped", err.splitlines()[-1])


def test_a_real_lost_connection(tmp_path):
    with command(f"pretrain {SMALL} --epochs 10000 --knn-k 5 --out run", tmp_path) as process:
        for line in process.stderr:
            if line.startswith("epoch 1/"):
                break
        process.send_signal(signal.SIGUSR1)
        for line in process.stderr:
            if "as a signal asked" in line:
                break
        asked = int(re.search(r"saved after step (\d+) of", line)[1])
        process.send_signal(signal.SIGHUP)
        last = process.stderr.read().splitlines()[-1]
        assert process.wait(60) == 129
    step = int(re.search(r"stopped after step (\d+) of 20000, everything is saved", last)[1])
    assert step >= asked
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == step


@pytest.mark.slow
def test_a_request_to_the_second_of_two_processes_is_granted(tmp_path):
    words = f"pretrain {SMALL} --epochs 10000 --probe none --devices 2 --accelerator cpu --out run"
    with command(words, tmp_path) as process:
        for line in process.stderr:
            if line.startswith("epoch 1/"):
                break
        second = next(child for child in _children(process.pid) if _has_rank(child, 1))
        os.kill(second, signal.SIGUSR1)
        for line in process.stderr:
            if "as a signal asked" in line:
                break
        assert "training continues" in line
        os.kill(second, signal.SIGHUP)
        err = process.stderr.read()
        process.wait(60)
    assert "Traceback" not in err
    step = int(re.search(r"stopped after step (\d+) of", err)[1])
    assert load_checkpoint(tmp_path / "run/checkpoints/last.pt")["step"] == step


def _children(process):
    return map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())


def _has_rank(process, rank):
    return f"LOCAL_RANK={rank}\0" in Path(f"/proc/{process}/environ").read_text()
