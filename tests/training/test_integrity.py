"""Checkpoints know whether they are whole, and a resumed run whether it is the same."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from amcl.checkpoints import read_metrics
from amcl.checkpoints.files import load_checkpoint, save_checkpoint
from amcl.checkpoints.run_folder import RunFolder
from amcl.cli import main
from amcl.config import Config
from amcl.config.fields import with_values
from amcl.errors import RunError
from amcl.training import pretrain
from amcl.training.optimizers import parameter_groups
from factories import small_config
from tiny_runs import assert_same_run, interrupt_at, picture_folder


def config_on(folder: Path, **options) -> Config:
    """Three epochs of two steps on 16 pictures."""
    options = {"data": str(folder), "image_size": 16, "workers": 0, "epochs": 3} | options
    options |= {"batch_size": 8, "save_minutes": 0.0, "probe_every": 9, "log_every": 1}
    return small_config("builtin-simclr-amcl", projector=(16, 8), validation=0, **options)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    """A run that was stopped after step 4 of 6. Do not write into it."""
    folder = tmp_path_factory.mktemp("stopped")
    config = config_on(picture_folder(folder / "pictures", count=16, size=16))
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, step=4)
        with pytest.raises(Exception, match="after step 4 of 6"):
            pretrain(config, folder / "run")
    return folder


@pytest.fixture
def run(stopped, tmp_path) -> Path:
    """A copy of the stopped run that has its own checkpoints; the pictures are shared."""
    return shutil.copytree(stopped / "run", tmp_path / "run")


def resume(run: Path, **options) -> Path:
    return pretrain(RunFolder(run).read_config(), run, resume=True, **options)


def flip(path: Path, bit: int) -> None:
    contents = bytearray(path.read_bytes())
    contents[bit // 8] ^= 1 << (bit % 8)
    path.write_bytes(contents)


# Damage


def test_a_damaged_checkpoint_is_replaced_by_the_one_before_it(run, stopped, tmp_path, capsys):
    flip(run / "checkpoints/last.pt", 80_000)
    assert main(["pretrain", "--resume", str(run)]) == 0
    message = " ".join(capsys.readouterr().err.split())
    assert "last.pt is" in message
    assert "resumed from last-1.pt, the newest checkpoint that is whole" in message
    straight = tmp_path / "straight"
    pretrain(config_on(stopped / "pictures"), straight)
    assert_same_run(straight, run)


def test_all_checkpoints_damaged_is_an_error_that_names_them(run):
    for path in (run / "checkpoints").glob("*.pt"):
        flip(path, 80_000)
    before = (run / "metrics.jsonl").read_bytes()
    with pytest.raises(RunError, match=r"last\.pt .*last-1\.pt .*cannot be resumed"):
        resume(run)
    assert (run / "metrics.jsonl").read_bytes() == before


@pytest.mark.parametrize("part", ["state", "param_groups"])
def test_a_checkpoint_with_which_the_next_step_would_fail_is_refused(run, part):
    path = run / "checkpoints/last.pt"
    state = load_checkpoint(path)
    if part == "state":
        buffers = next(iter(state["optimizer"]["state"].values()))
        buffers[next(iter(buffers))] = torch.zeros(3)
    else:
        state["optimizer"]["param_groups"][0]["lr"] = "text"
    save_checkpoint(path, state)
    with pytest.raises(RunError, match=r"does not fit the training.*last\.pt.* of the optimizer"):
        resume(run)


def test_a_run_in_which_a_learned_tau_decayed_is_refused_with_the_way_out(pictures, tmp_path):
    """Numbers that are learned by themselves used to decay where norms and biases do."""
    options = {"temperature": "learnable", "heads": 1, "decay_norm_and_bias": True}
    config = config_on(pictures, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amcl.training.optimizers.parameter_groups", tau_decays)
        interrupt_at(patch, step=4)
        with pytest.raises(Exception, match="after step 4 of 6"):
            pretrain(config, tmp_path / "run")
    before = (tmp_path / "run/metrics.jsonl").read_bytes()
    with pytest.raises(RunError, match=r"last\.pt: .* groups of .*decay.*--config.*--init"):
        resume(tmp_path / "run")
    assert (tmp_path / "run/metrics.jsonl").read_bytes() == before


def test_a_run_of_a_version_whose_groups_said_less_is_refused(run):
    path = run / "checkpoints/last.pt"
    state = load_checkpoint(path)
    for group in state["optimizer"]["param_groups"]:
        del group["decays"]
    save_checkpoint(path, state)
    with pytest.raises(RunError, match=r"last\.pt: .* without decays.*--config"):
        resume(run)


def tau_decays(method, settings):
    """Put the one number of the method, τ, back among norms and biases, which decay."""
    groups = parameter_groups(method, settings)
    (scalars,) = [group for group in groups if group["params"][0].ndim == 0]
    groups.remove(scalars)
    next(group for group in groups if not group["is_weight"])["params"] += scalars["params"]
    return groups


def test_last_checkpoints_are_kept_in_order(tmp_path):
    path = tmp_path / "last.pt"
    for step in range(5):
        save_checkpoint(path, {"step": step, "weights": torch.ones(3)}, keep=3)
    names = ["last.pt", "last-1.pt", "last-2.pt"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
    assert [load_checkpoint(tmp_path / name)["step"] for name in names] == [4, 3, 2]
    assert torch.load(path, weights_only=True)["step"] == 4  # other tools read it, too


def test_a_kept_checkpoint_that_a_kill_prevented_is_made_when_the_run_resumes(tmp_path):
    config = config_on(picture_folder(tmp_path / "pictures", 16, 16), keep_every=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amcl.training.saving.keep_checkpoint", _killed)
        with pytest.raises(KeyboardInterrupt):
            pretrain(config, tmp_path / "run")
    assert not (tmp_path / "run/checkpoints/epoch-0001.pt").exists()
    resume(tmp_path / "run")
    for epoch in (1, 2, 3):
        kept = tmp_path / f"run/checkpoints/epoch-000{epoch}.pt"
        assert load_checkpoint(kept)["step"] == 2 * epoch


def _killed(*args):
    raise KeyboardInterrupt


def test_unfinished_files_of_a_killed_process_are_removed(run):
    leftovers = [run / ".config.toml.1.writing", run / "checkpoints/.last.pt.1.writing"]
    for path in leftovers:
        path.write_text("half")
    resume(run)
    assert not any(path.exists() for path in leftovers)


# Changes


def test_a_run_does_not_resume_on_other_images(stopped, tmp_path):
    pictures = shutil.copytree(stopped / "pictures", tmp_path / "pictures")
    config = config_on(pictures)
    with pytest.MonkeyPatch.context() as patch:
        interrupt_at(patch, step=4)
        with pytest.raises(Exception, match="after step 4"):
            pretrain(config, tmp_path / "run")
    Image.new("RGB", (16, 16)).save(pictures / "016.png")
    with pytest.raises(RunError, match="there were 16 training images and there are 17"):
        resume(tmp_path / "run")
    (pictures / "000.png").unlink()
    with pytest.raises(RunError, match=r"the training images are others.*--accept-changes"):
        resume(tmp_path / "run")
    assert main(["pretrain", "--resume", str(tmp_path / "run"), "--accept-changes"]) == 0


def test_a_run_does_not_resume_with_settings_that_were_edited(run):
    config = RunFolder(run).read_config()
    edited = with_values(config, {"tau": 0.5, "lr": 0.25})
    (run / "config.toml").write_text(edited.to_toml())
    with pytest.raises(RunError, match=r"--tau was 0.2 and is 0.5; --lr was 0.005 and is 0.25"):
        resume(run)
    free = with_values(config, {"save_minutes": 3.0, "keep_every": 2, "keep_last": 3})
    (run / "config.toml").write_text(replace(free, hardware=config.hardware).to_toml())
    resume(run)


def test_a_run_does_not_resume_with_another_version(run, monkeypatch):
    monkeypatch.setattr("amcl.training.resume.amcl_version", lambda: "9.9")
    with pytest.raises(RunError, match=r"written by amcl 0\.\S+, and this is 9\.9"):
        resume(run)
    resume(run, accept_changes=True)


def test_a_finished_run_says_so(run, capsys, monkeypatch):
    resume(run)
    rows = read_metrics(run)
    written = (run / "backbone.safetensors").stat().st_mtime_ns
    assert main(["pretrain", "--resume", str(run)]) == 0
    assert "has finished its 3 epochs" in " ".join(capsys.readouterr().err.split())
    assert read_metrics(run) == rows
    assert (run / "backbone.safetensors").stat().st_mtime_ns == written
    starts = (run / "environment.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in starts] == [0, 4]


def test_accepting_changes_belongs_to_resuming(capsys):
    assert main(["pretrain", "--data", "builtin", "--accept-changes"]) == 2
    assert "--accept-changes belongs to --resume" in " ".join(capsys.readouterr().err.split())
