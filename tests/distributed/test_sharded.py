"""FSDP trains as DDP does, with the same checkpoints."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import amcl
from amcl import recipes
from amcl.backbones import Backbone, BackboneSettings
from amcl.checkpoints import read_metrics
from amcl.checkpoints.files import load_checkpoint
from amcl.cli import main
from amcl.config import Config
from amcl.errors import RunError
from amcl.methods import make_method
from amcl.training import hardware, pretrain
from amcl.training.sharding import units_of
from factories import change
from tiny_runs import assert_same_run, picture_folder

FAST = ["simclr", "mocov3", "can", "resnet-simclr"]
SLOW = [
    *("mae", "lgp", "moco", "dino", "byol", "nnclr", "barlow", "vicreg", "simsiam"),
    *("lars", "scalars", "parts", "decay"),
    *("checkpointing", "checkpointing-can", "resnet-checkpointing"),
]
COMPILED = ["compile", "compile-can"]


def train(folder: Path, *cases: str) -> Path:
    """Train cases in two processes, and return the folder of their runs."""
    picture_folder(folder / "pictures", count=16)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    worker = Path(__file__).with_name("sharded_worker.py")
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(worker), str(port), str(folder), *cases],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return folder


@pytest.fixture(scope="module")
def fast_runs(tmp_path_factory) -> Path:
    return train(tmp_path_factory.mktemp("fast"), *FAST)


@pytest.fixture(scope="module")
def slow_runs(tmp_path_factory) -> Path:
    return train(tmp_path_factory.mktemp("slow"), *SLOW)


@pytest.fixture(scope="module")
def compiled_runs(tmp_path_factory) -> Path:
    return train(tmp_path_factory.mktemp("compiled"), *COMPILED)


@pytest.fixture(scope="module")
def resumed_runs(tmp_path_factory) -> Path:
    return train(tmp_path_factory.mktemp("resumed"), "resume", "diverge")


def losses(run: Path) -> list[float]:
    return [row["loss"] for row in read_metrics(run) if row["kind"] == "step"]


def flat(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    items = enumerate(value) if isinstance(value, list | tuple) else None
    items = value.items() if isinstance(value, dict) else items
    if items is None:
        yield name, value
        return
    for key, inner in items:
        yield from flat(inner, f"{name}/{key}")


def assert_as_ddp(folder: Path, case: str) -> None:
    """Losses, probes, checkpoints and backbones are those of DDP."""
    ddp, fsdp = folder / f"{case}-ddp", folder / f"{case}-fsdp"
    assert len(losses(ddp)) >= 2
    assert losses(fsdp) == pytest.approx(losses(ddp), rel=1e-5, abs=1e-5)
    probes = [[row for row in read_metrics(run) if row["kind"] == "probe"] for run in (ddp, fsdp)]
    assert probes[1][-1]["spread"] == pytest.approx(probes[0][-1]["spread"], abs=1e-3)
    states = [dict(flat(load_checkpoint(run / "checkpoints/last.pt"))) for run in (ddp, fsdp)]
    assert list(states[0]) == list(states[1])
    compared = 0
    for name, value in states[0].items():
        other = states[1][name]
        assert type(value) is type(other), name
        if torch.is_tensor(value):
            assert (value.shape, value.dtype) == (other.shape, other.dtype), name
            torch.testing.assert_close(other, value, rtol=1e-3, atol=1e-4, msg=name)
            compared += 1
    assert compared > 50
    first = amcl.load(ddp).state_dict()
    for name, value in amcl.load(fsdp).state_dict().items():
        torch.testing.assert_close(value, first[name], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("case", FAST)
def test_losses_and_checkpoints_are_those_of_ddp(fast_runs, case):
    assert_as_ddp(fast_runs, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW)
def test_every_method_and_optimizer_trains_as_with_ddp(slow_runs, case):
    assert_as_ddp(slow_runs, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", COMPILED)
def test_compiled_blocks_train_as_with_ddp(compiled_runs, case):
    assert_as_ddp(compiled_runs, case)


def test_a_sharded_run_resumes_in_one_process(fast_runs, tmp_path):
    """Here with more epochs: it has ended."""
    results = []
    for strategy in ("ddp", "fsdp"):
        run = shutil.copytree(fast_runs / f"mocov3-{strategy}", tmp_path / strategy)
        config = Config.from_file(run / "config.toml")
        config = replace(
            config,
            run=replace(config.run, epochs=2),
            hardware=replace(config.hardware, devices=1, strategy="ddp"),
        )
        pretrain(config, run, resume=True)
        results.append(losses(run))
    assert len(results[0]) == 4
    assert results[0] == pytest.approx(results[1], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("stopped", ["ddp", "fsdp"])
@pytest.mark.parametrize("resumed", ["ddp", "fsdp"])
def test_stopped_runs_resume_with_either_strategy(resumed_runs, stopped, resumed):
    run = resumed_runs / f"{stopped}-then-{resumed}"
    assert load_checkpoint(resumed_runs / f"stopped-{stopped}/checkpoints/last.pt")["step"] == 3
    assert losses(run) == pytest.approx(losses(resumed_runs / "whole"), rel=1e-5)
    if stopped == resumed == "fsdp":
        assert_same_run(resumed_runs / "whole", run)


@pytest.mark.slow
def test_a_run_that_diverges_ends_on_every_process(resumed_runs):
    for rank in range(2):
        message = (resumed_runs / f"diverged-{rank}.txt").read_text()
        assert "is not finite after step" in message
        assert "The last good checkpoint is kept" in message


@pytest.mark.slow
def test_a_process_without_images_ends_the_other_and_saves_nothing(tmp_path):
    """Its share of the weights is not all of them."""
    folder = train(tmp_path, "without-images")
    messages = [(folder / f"error-{rank}.txt").read_text() for rank in range(2)]
    assert "stopped after step 1 of 2, which is not saved, because other processes" in messages[1]
    assert "The last good checkpoint is kept" in messages[1]
    assert "Resume with: amcl pretrain --resume" in messages[1]
    assert "process 1: a worker has died" in messages[0]
    assert load_checkpoint(folder / "run/checkpoints/last.pt")["step"] == 0


# -- what does not go with it


def test_one_process_has_nothing_to_divide(tmp_path, capsys):
    words = "pretrain --strategy fsdp --accelerator cpu --devices 1 --out"
    assert main([*words.split(), str(tmp_path / "run")]) == 1
    message = " ".join(capsys.readouterr().err.split())
    assert "there is one: use --devices 2 or more, or --strategy ddp" in message
    assert not (tmp_path / "run").exists()


def test_scaled_losses_are_refused():
    with pytest.raises(RunError, match="as --precision 16 needs: use --precision bf16"):
        hardware._fsdp(2, "16-mixed")


def test_the_pull_of_lgp_is_refused_before_its_first_stage(tmp_path):
    config = recipes.recipe("builtin-lgp")
    config = replace(
        config,
        method=change(config.method, pull=1e-4),
        hardware=replace(config.hardware, strategy="fsdp", devices=2, accelerator="cpu"),
    )
    with pytest.raises(RunError, match=r"fsdp does not go with --method lgp: .* use --pull 0"):
        pretrain(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_network_without_known_blocks_is_refused():
    settings = change(recipes.recipe("builtin-simclr").method, projector=(16, 8))
    backbone = Backbone(BackboneSettings(name="test_vit"), 16)
    backbone.network.blocks = torch.nn.Identity()
    with pytest.raises(RunError, match=r"the blocks of 'test_vit' are not known: use --strategy"):
        list(units_of(make_method(settings, backbone)))
