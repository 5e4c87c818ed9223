"""Checkpoints are whole or not there, and reading one runs nothing."""

import json
import os
import pickle

import pytest
import torch
from safetensors import safe_open

from amcl import files
from amcl.checkpoints import files as checkpoint
from amcl.checkpoints.files import (
    keep_checkpoint,
    load_checkpoint,
    save_checkpoint,
    save_tensors,
)
from amcl.errors import RunError
from amcl.tensor_files import read_metadata

STATE = {
    "step": 3,
    "config": "[run]\n",
    "method": {"weight": torch.arange(6.0).view(2, 3), "start": torch.tensor(4)},
    "optimizer": {"state": {0: {"velocity": torch.ones(2)}}, "param_groups": [{"lr": 0.1}]},
}


def assert_is(state, expected):
    assert state["step"] == expected["step"]
    assert state["config"] == expected["config"]
    assert state["optimizer"]["param_groups"] == expected["optimizer"]["param_groups"]
    for name, value in expected["method"].items():
        assert torch.equal(state["method"][name], value)
    velocity = state["optimizer"]["state"][0]["velocity"]
    assert torch.equal(velocity, expected["optimizer"]["state"][0]["velocity"])


def test_what_was_saved_is_loaded_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "last.pt"
    save_checkpoint(path, STATE)
    save_checkpoint(path, STATE | {"step": 4})
    assert_is(load_checkpoint(path), STATE | {"step": 4})
    assert os.listdir(tmp_path) == ["last.pt"]


@pytest.mark.parametrize("error", [OSError(28, "No space left"), RuntimeError("write failed")])
def test_a_failed_save_leaves_the_checkpoint_before_it(tmp_path, monkeypatch, error):
    path = tmp_path / "last.pt"
    save_checkpoint(path, STATE)

    def fail_halfway(state, file):
        file.write(b"half")
        raise error

    monkeypatch.setattr(torch, "save", fail_halfway)
    with pytest.raises(RunError, match=r"/last\.pt .*untouched"):
        save_checkpoint(path, STATE | {"step": 4})
    assert os.listdir(tmp_path) == ["last.pt"]
    assert_is(load_checkpoint(path), STATE)


def test_a_failed_first_save_says_that_there_is_none(tmp_path):
    blocked = tmp_path / "missing"
    blocked.write_text("a file, where a folder is needed")
    with pytest.raises(RunError, match=r"missing/last\.pt .*none yet"):
        save_checkpoint(blocked / "last.pt", STATE)


@pytest.mark.parametrize("kind", ["last", "kept", "tensors"])
def test_the_new_file_is_on_the_disk_before_it_takes_the_name(tmp_path, monkeypatch, kind):
    path, synced = tmp_path / "new.pt", []
    save_checkpoint(tmp_path / "last.pt", STATE)
    sync = os.fsync

    def recording(descriptor):
        synced.append(path.exists())
        sync(descriptor)

    monkeypatch.setattr(files.os, "fsync", recording)
    if kind == "last":
        save_checkpoint(path, STATE)
    elif kind == "kept":
        keep_checkpoint(tmp_path / "last.pt", path.name)
    else:
        save_tensors(path, STATE["method"], {})
    assert synced == [False, True]  # the file, then the folder


class Payload:
    """What an attacker would put into a checkpoint."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("plain", [False, True])
def test_code_in_a_checkpoint_is_not_run(tmp_path, plain):
    path, trap = tmp_path / "last.pt", tmp_path / "trap"
    state = {"format": checkpoint.FORMAT, "step": Payload(trap)}
    if plain:
        path.write_bytes(pickle.dumps(state, protocol=2))
    else:
        torch.save(state, path)
    with pytest.raises(RunError, match=r"last\.pt is no checkpoint that can be read safely"):
        load_checkpoint(path)
    assert not trap.exists()
    pickle.loads(path.read_bytes()) if plain else torch.load(path, weights_only=False)
    assert trap.exists()  # the trap does work


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.99])
def test_a_cut_off_checkpoint_is_refused(tmp_path, share):
    path = tmp_path / "last.pt"
    save_checkpoint(path, STATE)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(RunError, match=r"/last\.pt .*(safely|checksum)"):
        load_checkpoint(path)


@pytest.mark.parametrize("content", [b"", b"hello world", b"\x80\x02.", b"amcl = 1\n"])
def test_a_file_of_another_kind_is_refused(tmp_path, content):
    path = tmp_path / "last.pt"
    path.write_bytes(content)
    with pytest.raises(RunError, match=r"/last\.pt .*safely"):
        load_checkpoint(path)


@pytest.mark.parametrize("state", [{"format": 99}, {"step": 3}, [1, 2], torch.ones(3)])
def test_another_format_is_refused(tmp_path, state):
    path = tmp_path / "last.pt"
    torch.save(state, path)
    with pytest.raises(RunError, match=r"/last\.pt .*version of amcl"):
        load_checkpoint(path)


def test_a_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(RunError, match=r"there is no checkpoint .*last\.pt"):
        load_checkpoint(tmp_path / "last.pt")


def test_a_kept_checkpoint_stays_when_the_next_is_saved(tmp_path):
    path = tmp_path / "last.pt"
    save_checkpoint(path, STATE)
    keep_checkpoint(path, "epoch-0003.pt")
    save_checkpoint(path, STATE | {"step": 4})
    assert_is(load_checkpoint(tmp_path / "epoch-0003.pt"), STATE)
    assert sorted(os.listdir(tmp_path)) == ["epoch-0003.pt", "last.pt"]


def test_a_full_disk_while_keeping_a_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "last.pt"
    save_checkpoint(path, STATE)

    def fail_halfway(source, target):
        target.write(b"half")
        raise OSError(28, "No space left")

    monkeypatch.setattr(checkpoint.shutil, "copyfileobj", fail_halfway)
    with pytest.raises(RunError, match=r"/epoch-0003\.pt .*disk"):
        keep_checkpoint(path, "epoch-0003.pt")
    assert os.listdir(tmp_path) == ["last.pt"]


def test_tensors_are_written_for_other_tools(tmp_path):
    path = tmp_path / "backbone.safetensors"
    tensors = {
        "a": torch.randn(3, 4).T.requires_grad_(),  # not contiguous, with gradient
        "b": torch.tensor(7),
        "c": torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last),
    }
    save_tensors(path, tensors, {"width": 1.0})
    assert read_metadata(path) == {"width": 1.0}
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["amcl"]).keys() == {"width", "sha256"}
        assert set(file.keys()) == {"a", "b", "c"}
        for name, value in tensors.items():
            assert torch.equal(file.get_tensor(name), value)
    assert os.listdir(tmp_path) == ["backbone.safetensors"]


def test_a_failed_write_of_tensors_leaves_the_old_ones(tmp_path, monkeypatch):
    path = tmp_path / "backbone.safetensors"
    save_tensors(path, {"a": torch.ones(2)}, {})
    before = path.read_bytes()

    def full(self, target):
        raise OSError(28, "No space left")

    monkeypatch.setattr(type(path), "replace", full)
    with pytest.raises(RunError, match=r"could not write .*Is the disk full"):
        save_tensors(path, {"a": torch.zeros(2)}, {})
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["backbone.safetensors"]
