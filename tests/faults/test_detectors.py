"""A detector whose command is stopped, loses a process, or meets another command."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from torch.utils.data import get_worker_info

from amcl.cli import main
from amcl.cli.process import run_process
from amcl.data.coco import CocoSet
from amcl.data.shapes import shapes
from amcl.evaluation.detection import detect, load_detector
from amcl.evaluation.detection.folder import DetectionFolder
from amcl.training.trainer import Trainer
from faults.commands import CPU, DETECTOR, make_shapes
from tiny_runs import process_kept
from toy_detection import signal_at

ATTACK = "detectors: signals, lost processes, locked and unwritable folders"
NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
detect_module = sys.modules[detect.__module__]


@pytest.fixture(autouse=True)
def in_a_terminal():
    """SIGHUP ends a process, also if the tests run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return make_shapes(tmp_path_factory.mktemp("detectors"))


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory) -> Path:
    """The results of a command that nothing happens to. Do not write into it."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert main(words(data, out)) == 0
    return out


def words(data: Path, out: Path, *options: str) -> list[str]:
    return ["detect", *DETECTOR, "--data", str(data), "--out", str(out), *CPU, *options]


def run(data: Path, out: Path, *options: str) -> int:
    """Run the command as a process does, with its handlers of signals."""
    with process_kept():
        return run_process(lambda: lambda: main(words(data, out, *options)))


def folder_of(out: Path) -> DetectionFolder:
    (folder,) = (path for path in (out / "evaluation").iterdir() if path.is_dir())
    return DetectionFolder(folder)


def assert_same(out: Path, undisturbed: Path) -> None:
    """The second command ended as if nothing had happened."""
    results = [
        json.loads(folder_of(run).path.with_suffix(".json").read_text())
        for run in (out, undisturbed)
    ]
    assert results[0]["metrics"] == results[1]["metrics"]
    assert results[0]["details"] == results[1]["details"]
    for name in ("detector.safetensors", "boxes.json", "masks.json"):
        contents = [(folder_of(run).path / name).read_bytes() for run in (out, undisturbed)]
        assert contents[0] == contents[1], name
    assert folder_of(out).checkpoints() == []


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_in_training_saves(data, undisturbed, tmp_path, monkeypatch, capsys, number):
    with monkeypatch.context() as patch:
        signal_at(patch, 2, number)
        assert run(data, tmp_path) == 128 + number
    last = capsys.readouterr().err.splitlines()[-1]
    assert "stopped after step 3 of 4, everything is saved. Resume it by the same command." in last
    steps = steps_of(monkeypatch)
    assert run(data, tmp_path) == 0
    assert steps == [3]
    assert_same(tmp_path, undisturbed)


def steps_of(monkeypatch) -> list[int]:
    """A list to which each step of a training adds its number."""
    steps: list[int] = []
    step = Trainer.train_step

    def train_step(self, *args, **options):
        steps.append(self.step)
        return step(self, *args, **options)

    monkeypatch.setattr(Trainer, "train_step", train_step)
    return steps


def signal_while_detecting(patch, number: int, call: int) -> None:
    """Let this process get a signal after it has looked at images for the n-th time."""
    calls = []
    plain = detect_module.detections_of

    def detections_of(*args, **options):
        measured = plain(*args, **options)
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), number)
        return measured

    patch.setattr(detect_module, "detections_of", detections_of)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_while_the_result_is_measured_loses_no_training(
    data, undisturbed, tmp_path, monkeypatch, capsys, number
):
    with monkeypatch.context() as patch:
        signal_while_detecting(patch, number, call=2)  # the first is within the training
        assert run(data, tmp_path) == 128 + number
    assert capsys.readouterr().err.splitlines()[-1] == (
        "amcl detect: interrupted. The same command resumes."
    )
    assert not list((tmp_path / "evaluation").glob("*.json"))
    steps = steps_of(monkeypatch)
    assert run(data, tmp_path) == 0
    assert steps == []
    assert_same(tmp_path, undisturbed)


def test_a_signal_while_the_log_is_measured_stops_after_it(
    data, undisturbed, tmp_path, monkeypatch, capsys
):
    with monkeypatch.context() as patch:
        signal_while_detecting(patch, signal.SIGINT, call=1)
        assert run(data, tmp_path) == 130
    assert "everything is saved" in capsys.readouterr().err.splitlines()[-1]
    assert run(data, tmp_path) == 0
    assert_same(tmp_path, undisturbed)


def test_a_second_command_leaves_the_result_as_it_is(data, undisturbed, tmp_path, monkeypatch):
    out = shutil.copytree(undisturbed, tmp_path / "out")
    steps = steps_of(monkeypatch)
    assert run(data, out) == 0
    assert steps == []
    assert_same(out, undisturbed)


def test_a_command_beside_another_is_refused(data, undisturbed, tmp_path, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        signal_at(patch, 1, signal.SIGINT)
        assert run(data, tmp_path) == 130
    other = DetectionFolder(folder_of(tmp_path).path)
    before = {path: path.stat().st_mtime_ns for path in other.checkpoints()}
    other.open(2)
    try:
        capsys.readouterr()
        assert run(data, tmp_path) == 1
    finally:
        other.close()
    message = " ".join(capsys.readouterr().err.splitlines()[-1].split())
    assert message == f"amcl detect: another process is training in {other.path} now."
    assert {path: path.stat().st_mtime_ns for path in other.checkpoints()} == before
    assert run(data, tmp_path) == 0
    assert_same(tmp_path, undisturbed)


@pytest.mark.parametrize("place", ["file", "file/below", "link"])
def test_a_folder_that_cannot_be_made(data, tmp_path, capsys, place):
    (tmp_path / "file").write_text("thesis")
    (tmp_path / "link").symlink_to(tmp_path / "nothing/below")
    assert run(data, tmp_path / place) in (1, 2)
    output = capsys.readouterr().err
    assert str(tmp_path / place) in output.splitlines()[-1]
    assert "Traceback" not in output
    assert (tmp_path / "file").read_text() == "thesis"


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_process_that_dies_while_it_reads_is_named(
    undisturbed, tmp_path, monkeypatch, capsys, split
):
    data = shapes(tmp_path / "shapes", train=8, test=6)  # the first eight are always the same
    out = tmp_path / "out"
    options = ["--workers", "2", "--evaluate-every", "0"]
    plain = CocoSet.read

    def read(self, index):
        in_worker = get_worker_info() is not None
        if in_worker and len(self) == {"train": 8, "test": 6}[split] and index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(self, index)

    with monkeypatch.context() as patch:
        patch.setattr(CocoSet, "read", read)
        assert run(data, out, *options) == 1
    output = capsys.readouterr().err
    assert "a process that decodes images has died while" in output
    assert "000001.jpg" in output
    assert "Traceback" not in output
    steps = steps_of(monkeypatch)
    assert run(data, out, *options) == 0
    assert steps == ([0, 1, 2, 3] if split == "train" else [])
    detectors = [folder_of(each).detector.read_bytes() for each in (out, undisturbed)]
    assert detectors[0] == detectors[1]


def test_every_flipped_bit_of_a_detector_is_noticed(data, undisturbed, tmp_path, capsys):
    """Where the result is still to be measured, the damaged detector is not taken for whole."""
    out = shutil.copytree(undisturbed, tmp_path / "out")
    folder = folder_of(out)
    folder.path.with_suffix(".json").unlink()
    whole = folder.detector.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    for place in (header + 9, (header + len(whole)) // 2, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[place] ^= 16
        folder.detector.write_bytes(damaged)
        with pytest.raises(ValueError, match="is damaged"):
            load_detector(folder.detector)
    folder.detector.write_bytes(whole[:-100])
    assert run(data, out) == 2
    assert str(folder.detector) in capsys.readouterr().err
    folder.detector.write_bytes(whole)
    assert run(data, out) == 0
    assert_same(out, undisturbed)
