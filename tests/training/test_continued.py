"""Continued pre-training: starts of every kind, frozen layers, resume, several processes."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import timm
import torch
from safetensors.torch import load_file

from amcl.checkpoints import open_model, read_metrics
from amcl.checkpoints.files import load_checkpoint
from amcl.config import Config
from amcl.errors import RunError
from amcl.training import pretrain
from stages import assert_equal, stopped, weights
from tiny_runs import assert_same_run, tiny_vit


@pytest.fixture(scope="module")
def published(pictures):
    """A folder as timm pushes it to the hub: test_vit for 160 pixels. Do not write into it."""
    torch.manual_seed(3)
    folder = pictures.parent / "published"
    timm.models.save_for_hf(timm.create_model("test_vit"), folder, safe_serialization=True)
    return folder


def config_of(folder, init, **optimizer) -> Config:
    """Two epochs of two steps of SimCLR with AMCL, on 16 pixels in patches of 2."""
    config = tiny_vit("simclr", folder, init=str(init))
    return replace(config, optimizer=replace(config.optimizer, **optimizer))


STILL = {"lr": 1e-30, "weight_decay": 0.0}


@pytest.mark.parametrize("kind", ["folder", "file", "pickle"])
def test_published_weights_are_adapted_and_the_log_says_how(published, pictures, tmp_path, kind):
    init = published
    if kind == "file":
        init = shutil.copy(published / "model.safetensors", tmp_path / "weights.safetensors")
    elif kind == "pickle":
        init = tmp_path / "weights.pth"
        torch.save({"model": load_file(published / "model.safetensors")}, init)
    pretrain(config_of(pictures, init, **STILL), tmp_path / "run")
    expected = open_model(published, image_size=16, patch=2, pool="mean")
    for name, value in weights(tmp_path / "run").items():
        wanted = expected.backbone.network.state_dict()[name]
        torch.testing.assert_close(value, wanted, rtol=0, atol=1e-20)
    log = (tmp_path / "run/log.txt").read_text()
    assert f"starts from {init}; " in log
    assert "patch embeddings resampled from 16×16 to 2×2 pixels" in log
    assert "position embeddings resampled from 10×10 to 8×8 patches" in log
    assert "head.weight" in log


def test_images_are_normalized_as_they_were_and_a_resumed_run_knows(
    published, pictures, tmp_path, monkeypatch
):
    start = shutil.copytree(published, tmp_path / "start")
    config = config_of(pictures, start, layer_decay=0.5, freeze_epochs=1.0)
    pretrain(config, tmp_path / "straight")
    assert open_model(tmp_path / "straight").mean == (0.5, 0.5, 0.5)
    for step in (1, 3):  # while the backbone is frozen, and afterwards
        stopped(monkeypatch, config, tmp_path / f"run{step}", step, f"after step {step} of 4")
    shutil.rmtree(start)
    for step in (1, 3):
        pretrain(config, tmp_path / f"run{step}", resume=True)
        assert_same_run(tmp_path / "straight", tmp_path / f"run{step}")


def test_a_run_of_other_images_and_patches_is_adapted_too(pictures, tmp_path):
    pretrain(tiny_vit("mae", pictures, epochs=1), tmp_path / "mae")
    config = config_of(pictures, tmp_path / "mae", **STILL)
    larger = replace(
        config,
        data=replace(config.data, image_size=32),
        backbone=replace(config.backbone, patch=4),
    )
    pretrain(larger, tmp_path / "run")
    log = (tmp_path / "run/log.txt").read_text()
    assert "patch embeddings resampled from 2×2 to 4×4 pixels" in log
    assert "position embeddings" not in log  # there are as many as before


def backbone_at(run, epoch):
    state = load_checkpoint(run / f"checkpoints/epoch-{epoch:04}.pt")
    return {k: v for k, v in state["method"].items() if k.startswith("backbone.")}, state


@pytest.mark.parametrize("method", ["simclr", "mocov3", "mae"])
def test_a_frozen_backbone_learns_from_its_epoch_on(published, pictures, tmp_path, method):
    config = tiny_vit(method, pictures, init=str(published), keep_every=1, epochs=2)
    config = replace(config, optimizer=replace(config.optimizer, freeze_epochs=1.0, clip=1.0))
    pretrain(config, tmp_path / "run")
    start = open_model(published, image_size=16, patch=2, pool="mean").backbone.state_dict()
    frozen, state = backbone_at(tmp_path / "run", 1)
    assert_equal({k.removeprefix("backbone."): v for k, v in frozen.items()}, start)
    moved = len(state["optimizer"]["state"])
    after, state = backbone_at(tmp_path / "run", 2)
    assert moved < len(state["optimizer"]["state"])  # weight decay and moments were not at work
    name = "backbone.network.blocks.0.attn.qkv.weight"
    assert not torch.equal(after[name], frozen[name])
    assert "the backbone is frozen for the first 2 steps" in (tmp_path / "run/log.txt").read_text()


def test_a_part_may_stay_frozen(published, pictures, tmp_path):
    config = config_of(pictures, published, freeze_epochs=2.0, freeze_depth=0.5)
    pretrain(config, tmp_path / "run")
    start = open_model(published, image_size=16, patch=2).backbone.network.state_dict()
    found = weights(tmp_path / "run")
    assert torch.equal(found["blocks.2.attn.qkv.weight"], start["blocks.2.attn.qkv.weight"])
    assert not torch.equal(found["blocks.3.attn.qkv.weight"], start["blocks.3.attn.qkv.weight"])


def test_a_backbone_that_would_never_learn_is_refused(pictures):
    with pytest.raises(ValueError, match=r"freeze_epochs=2 leaves none of .*--freeze-depth"):
        config_of(pictures, "runs/mae", freeze_epochs=2.0)


def test_weights_of_another_network_are_refused_by_name(published, pictures, tmp_path):
    config = config_of(pictures, published)
    other = replace(config, backbone=replace(config.backbone, name="test_vit2"))
    with pytest.raises(RunError, match=r"holds test_vit ×1.*this run trains test_vit2"):
        pretrain(other, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_frozen_layers_on_two_processes_give_the_curve_of_one(published, pictures, tmp_path):
    config = config_of(pictures, published, layer_decay=0.5, freeze_epochs=1.0)
    plain = {"projector_norm": False, "projector_last_norm": "none"}
    config = replace(config, method=replace(config.method, **plain))
    pretrain(config, tmp_path / "one")
    (tmp_path / "config.toml").write_text(config.to_toml())
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "-m", "amcl", "pretrain"),
            *("--config", str(tmp_path / "config.toml"), "--out", str(tmp_path / "two")),
        ],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    one, two = (
        [r["loss"] for r in read_metrics(tmp_path / run) if r["kind"] == "step"]
        for run in ("one", "two")
    )
    assert len(one) == 4
    assert two == pytest.approx(one, rel=1e-4)
    a, b = (weights(tmp_path / run) for run in ("one", "two"))
    for name in a:
        torch.testing.assert_close(b[name], a[name], rtol=0, atol=2e-4)
