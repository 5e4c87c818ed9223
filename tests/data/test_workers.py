"""Processes that decode: what happens when they cannot deliver."""

import logging
import multiprocessing
import multiprocessing.synchronize
import os
import signal
import sys
import time

import pytest
import torch

from amcl.data import FileImages, stream

STEPS = [torch.tensor(indices) for indices in ([3, 0], [1], [2, 2, 3])]


@pytest.fixture
def files(tmp_path, picture):
    return FileImages(
        [str(picture(tmp_path / f"{i}.png", seed=i, width=20 + i)) for i in range(4)], 16
    )


@pytest.fixture
def workers(monkeypatch):
    module = sys.modules["amcl.data.workers"]
    monkeypatch.setattr(module, "SLICE", 0.1)
    return module


def hang(*_):
    time.sleep(1000)


def no_children():
    deadline = time.monotonic() + 30
    while multiprocessing.active_children() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not multiprocessing.active_children()


def test_without_shared_memory_batches_come_through_pipes(files, monkeypatch, caplog):
    def full(_):
        raise RuntimeError("unable to allocate shared memory(shm): No space left on device (28)")

    expected = list(stream(files, STEPS, workers=0))
    monkeypatch.setattr(torch.Tensor, "share_memory_", full)
    with caplog.at_level(logging.WARNING, "amcl"):
        batches = list(stream(files, STEPS, workers=2))
    for batch, other in zip(batches, expected, strict=True):
        assert torch.equal(batch.pixels, other.pixels)
        assert torch.equal(batch.shapes, other.shapes)
    (message,) = caplog.messages  # once
    assert "has no room for a batch" in message
    assert "--shm-size" in message
    assert no_children()


def test_processes_that_cannot_be_started(files, monkeypatch, caplog):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(multiprocessing.synchronize.SemLock, "__init__", full)
    with caplog.at_level(logging.WARNING, "amcl"):
        batches = list(stream(files, STEPS, workers=2))
    assert [len(batch.pixels) for batch in batches] == [2, 1, 3]
    assert "2 processes to decode images could not be started" in caplog.text
    assert "No space left on device" in caplog.text


def test_a_wait_without_end_is_an_error(files, workers, monkeypatch, caplog):
    monkeypatch.setattr(workers, "SLOW", 0.3)
    monkeypatch.setattr(workers, "STALLED", 1.0)
    monkeypatch.setattr(FileImages, "decode", hang)
    with (
        caplog.at_level(logging.WARNING, "amcl"),
        pytest.raises(ChildProcessError, match=r"no batch of images came.*--workers 0"),
    ):
        list(stream(files, STEPS, workers=1))
    assert len(caplog.messages) == 1
    assert "the disk or network drive may be slow" in caplog.text
    assert no_children()


def test_whoever_waits_may_end_it(files, workers, monkeypatch):
    calls = []

    def on_wait():
        calls.append(None)
        if len(calls) == 3:
            raise KeyError("enough")

    monkeypatch.setattr(FileImages, "decode", hang)
    with pytest.raises(KeyError, match="enough"):
        list(stream(files, STEPS, workers=2, on_wait=on_wait))
    assert no_children()


def test_a_slow_batch_is_waited_for(files, workers, monkeypatch):
    plain = FileImages.decode

    def slow(self, index):
        time.sleep(0.4)
        return plain(self, index)

    monkeypatch.setattr(FileImages, "decode", slow)
    calls = []
    batches = list(stream(files, STEPS, workers=1, on_wait=lambda: calls.append(None)))
    assert [len(batch.pixels) for batch in batches] == [2, 1, 3]
    assert calls


def test_a_process_that_dies_is_an_error(files, workers, monkeypatch):
    monkeypatch.setattr(FileImages, "decode", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(ChildProcessError, match=r"decodes images has died .*fewer --workers"):
        list(stream(files, STEPS, workers=1))
    assert no_children()


def test_a_process_that_dies_before_its_batch_is_handed_over(files, workers, monkeypatch):
    """The loader's error is then that of a connection."""

    def fail(batches, default):
        (worker,) = multiprocessing.active_children()
        os.kill(worker.pid, signal.SIGKILL)
        raise ConnectionResetError(104, "Connection reset by peer")

    monkeypatch.setattr("amcl.data.workers.next", fail, raising=False)
    with pytest.raises(ChildProcessError, match=r"decodes images has died .*fewer --workers"):
        list(stream(files, STEPS, workers=1))


def test_a_death_is_told_when_a_batch_is_asked_for(files):
    """Not in the middle of a step of training."""
    batches = stream(files, [torch.tensor([0])] * 9, workers=1)
    next(batches)
    (worker,) = multiprocessing.active_children()
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    time.sleep(0.1)
    with pytest.raises(ChildProcessError, match=r"has died .*-9"):
        next(batches)


def test_signals_to_the_group_do_not_end_workers(files):
    """A scheduler may send SIGTERM to all processes of a group: the parent decides."""
    batches = stream(files, [torch.tensor([0])] * 9, workers=1)
    next(batches)
    (worker,) = multiprocessing.active_children()
    assert os.getpgid(worker.pid) != os.getpgid(os.getpid())
    batches.close()
    assert no_children()
