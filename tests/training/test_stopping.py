"""A stop that is asked for while no step is made: images are read, or waited for."""

import os
import signal
import sys
import threading
import time
from dataclasses import replace

import pytest

from amcl.checkpoints import RunFolder
from amcl.checkpoints.files import load_checkpoint
from amcl.data import FileImages
from amcl.errors import Interrupted, StoppedWaiting
from amcl.training import pretrain
from amcl.training.hardware import StopRequest
from tiny_runs import assert_same_run, picture_folder, tiny_vit


def streamed(folder, **run):
    config = tiny_vit("simclr", folder, probe_every=9, **run)
    return replace(config, data=replace(config.data, memory=0.0, workers=1, labels="none"))


@pytest.mark.parametrize(("number", "accumulate"), [(signal.SIGHUP, 1), (signal.SIGINT, 2)])
def test_a_run_that_waits_for_images_is_saved(tmp_path, monkeypatch, number, accumulate):
    """Its workers are stuck from some image of the second epoch on, as on a dead network drive."""
    folder = picture_folder(tmp_path / "pictures", count=16)
    config = streamed(folder, accumulate=accumulate)
    pretrain(config, tmp_path / "straight")
    plain, decoded, end_waiting = FileImages.decode, [], StopRequest.end_waiting
    waits, parent = [], os.getpid()

    def stuck(self, index):
        decoded.append(os.getpid() != parent)  # which looks at some images itself
        if sum(decoded) > 20:
            (tmp_path / "stuck").touch()
            time.sleep(1000)
        return plain(self, index)

    def waiting(self, patience):
        waits.append((tmp_path / "stuck").exists())
        if sum(waits) == 10:
            os.kill(os.getpid(), number)
        end_waiting(self, patience)

    with monkeypatch.context() as patch:
        patch.setattr(FileImages, "decode", stuck)
        patch.setattr(StopRequest, "end_waiting", waiting)
        patch.setattr(sys.modules["amcl.data.workers"], "SLICE", 0.2)
        with pytest.raises(Interrupted, match=r"after step 2 of 4.*--resume") as stopped:
            pretrain(config, tmp_path / "stopped")
    assert stopped.value.exit_code == 128 + number
    assert load_checkpoint(tmp_path / "stopped/checkpoints/last.pt")["step"] == 2
    pretrain(config, tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "straight", tmp_path / "stopped")


# The connection to a process that is killed while it sends is left to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_run_whose_worker_dies_is_saved(tmp_path, monkeypatch):
    folder = picture_folder(tmp_path / "pictures", count=16)
    plain, decoded, parent = FileImages.decode, [], os.getpid()
    metrics = RunFolder(tmp_path / "run").metrics

    def killed(self, index):
        decoded.append(os.getpid() != parent)  # which looks at some images itself
        if sum(decoded) > 12:  # in the second epoch, for which a worker decodes ahead
            while not metrics.exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(self, index)

    monkeypatch.setattr(FileImages, "decode", killed)
    with pytest.raises(ChildProcessError, match=r"has died.*Resume with: amcl pretrain --resume"):
        pretrain(streamed(folder), tmp_path / "run")
    assert (tmp_path / "run/checkpoints/last.pt").exists()


def test_a_stop_while_images_are_read(tmp_path, monkeypatch):
    folder = picture_folder(tmp_path / "pictures", count=16)
    config = tiny_vit("simclr", folder)
    plain = FileImages.decode

    def signalled(self, index):
        os.kill(os.getpid(), signal.SIGTERM)
        return plain(self, index)

    monkeypatch.setattr(FileImages, "decode", signalled)
    with pytest.raises(Interrupted, match=r"images were read.*Nothing was written") as stopped:
        pretrain(config, tmp_path / "run")
    assert stopped.value.exit_code == 143
    assert not (tmp_path / "run").exists()
    RunFolder(tmp_path / "run").create(config)
    with pytest.raises(Interrupted, match=r"images were read.*--resume"):
        pretrain(config, tmp_path / "run", resume=True)


def test_processes_that_agree_wait_a_little():
    with StopRequest() as stop:
        stop.end_waiting(0)
        threading.Timer(0.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
        while stop.signal is None:
            time.sleep(0.01)
        stop.end_waiting(60)
        with pytest.raises(StoppedWaiting):
            stop.end_waiting(0)
        with pytest.raises(Interrupted, match="now"), stop.at_once("now"):
            raise AssertionError("the stop was asked for before")
