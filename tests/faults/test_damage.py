"""Files of weights that are damaged, or that carry code: noticed, named, and never executed."""

import contextlib
import pickle
import random
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch

from amcl.checkpoints.files import load_checkpoint
from amcl.checkpoints.run_folder import RunFolder
from amcl.cli import main
from amcl.errors import RunError
from amcl.tensor_files import read_safetensors
from amcl.training import pretrain
from factories import small_config
from tiny_runs import assert_same_run, interrupt_at, picture_folder

FAST = 24
SLOW = 300


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """The folder of a run that is ``whole``, and of one ``stopped`` after step 4 of 6."""
    folder = tmp_path_factory.mktemp("damage")
    data = str(picture_folder(folder / "pictures", count=16, size=16))
    options = {"data": data, "image_size": 16, "workers": 0, "epochs": 3, "batch_size": 8}
    options |= {"save_minutes": 0.0, "probe_every": 9, "log_every": 1, "threads": 1}
    config = small_config("builtin-simclr-amcl", projector=(16, 8), validation=0, **options)
    pretrain(config, folder / "whole")
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, step=4)
        with pytest.raises(Exception, match="after step 4 of 6"):
            pretrain(config, folder / "stopped")
    return folder


def flip(path: Path, whole: bytes, bit: int) -> None:
    """Write a file with one bit turned."""
    contents = bytearray(whole)
    contents[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(contents)


@pytest.mark.parametrize("count", [FAST, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_every_flipped_bit_of_a_checkpoint_is_noticed(runs, tmp_path, count, record):
    whole = (runs / "stopped/checkpoints/last.pt").read_bytes()
    path = tmp_path / "last.pt"
    for chosen in random.Random(count).sample(range(8 * len(whole)), count):
        flip(path, whole, chosen)
        with pytest.raises(RunError, match=r"last\.pt"):
            load_checkpoint(path)
    record("a flipped bit of a checkpoint", count)


@pytest.mark.parametrize("count", [FAST, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_every_flipped_bit_of_a_backbone_is_noticed(runs, tmp_path, count, record):
    whole = (runs / "whole/backbone.safetensors").read_bytes()
    path = tmp_path / "backbone.safetensors"
    header = 8 * int.from_bytes(whole[:8], "little")
    generator = random.Random(count)
    for start, stop in ((64, header), (header, 8 * len(whole))):  # header, then weights
        for chosen in generator.sample(range(start, stop), count):
            flip(path, whole, chosen)
            with contextlib.suppress(ValueError):
                _, metadata = read_safetensors(path)
                assert metadata is None  # a flip of the entry's name makes it a file of others
    record("a flipped bit of a backbone", 2 * count)


@pytest.mark.parametrize("count", [2, pytest.param(FAST, marks=pytest.mark.slow)])
def test_a_run_resumes_from_the_checkpoint_before_the_damaged_one(runs, tmp_path, count, record):
    """A flipped bit, or a file that was cut off, in turns."""
    whole = (runs / "stopped/checkpoints/last.pt").read_bytes()
    generator = random.Random(count)
    for i in range(count):
        run = shutil.copytree(runs / "stopped", tmp_path / f"run{i}")
        path = run / "checkpoints/last.pt"
        if i % 2:
            path.write_bytes(whole[: generator.randrange(len(whole))])
        else:
            flip(path, whole, generator.randrange(8 * len(whole)))
        pretrain(RunFolder(run).read_config(), run, resume=True)
        assert_same_run(runs / "whole", run)
    record("a run that is resumed with its last checkpoint damaged", count)


class Payload:
    """An object that writes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def _pickled(path: Path, payload: Payload) -> None:
    path.write_bytes(pickle.dumps({"format": 2, "step": payload}, protocol=2))


def _saved(path: Path, payload: Payload) -> None:
    torch.save({"format": 2, "state_dict": {"weight": payload}}, path)


def _saved_by_old_torch(path: Path, payload: Payload) -> None:
    torch.save({"state_dict": payload}, path, _use_new_zipfile_serialization=False)


def _archived(path: Path, payload: Payload) -> None:
    inner = path.with_suffix(".inner")
    _pickled(inner, payload)
    with tarfile.open(path, "w") as archive:
        archive.add(inner, "pickle")


def _zipped(path: Path, payload: Payload) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(payload, protocol=2))
        archive.writestr("archive/version", "3\n")


def _expanding(path: Path, payload: Payload) -> None:
    """An archive of 64 MB of zeros in a few kilobytes, beside the payload."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(payload, protocol=2))
        archive.writestr("archive/data/0", bytes(64 << 20))


FILES = [_pickled, _saved, _saved_by_old_torch, _archived, _zipped, _expanding]


@pytest.mark.parametrize("write", FILES)
def test_code_in_files_is_never_executed(runs, tmp_path, capsys, write, record):
    run = shutil.copytree(runs / "stopped", tmp_path / "run")
    trap = tmp_path / "trap"
    for path in (run / "checkpoints/last.pt", run / "checkpoints/last-1.pt", tmp_path / "model.pt"):
        write(path, Payload(trap))
    shutil.copy(tmp_path / "model.pt", tmp_path / "model.safetensors")
    data = ["--data", str(runs / "pictures"), "--threads", "1"]
    commands = [
        ["pretrain", "--resume", str(run)],
        ["export", str(run), "--threads", "1"],
        ["embed", str(run), *data, "--out", str(tmp_path / "features.csv")],
        ["embed", str(tmp_path / "model.safetensors"), *data, "--out", str(tmp_path / "a.csv")],
        [
            *("embed", str(tmp_path / "model.pt"), "--backbone", "resnet10t", *data),
            *("--out", str(tmp_path / "b.csv")),
        ],
        ["evaluate", str(run / "checkpoints/last.pt"), *data],
    ]
    for words in commands:
        assert main(words) in (1, 2), words
        message = capsys.readouterr().err
        assert "Traceback" not in message
        assert ".pt" in message or "model.safetensors" in message, words
        assert not trap.exists(), words
    record("files of weights that carry code", len(commands))


def test_the_payload_works_where_code_is_executed(tmp_path):
    trap = tmp_path / "trap"
    _pickled(tmp_path / "model.pt", Payload(trap))
    pickle.loads((tmp_path / "model.pt").read_bytes())
    assert trap.exists()
