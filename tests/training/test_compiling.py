"""torch.compile: what is compiled, and that nothing else changes."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

import amcl
from amcl.backbones import load_backbone
from amcl.checkpoints import read_metrics
from amcl.checkpoints.files import load_checkpoint
from amcl.errors import Interrupted, RunError
from amcl.training import compiling, pretrain
from amcl.training.start import fresh_method
from factories import small_run
from tiny_runs import assert_same_run, interrupt_at, tiny_vit

pytestmark = [
    pytest.mark.usefixtures("few_images"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor"),  # torch hides it
]


@pytest.fixture
def graphs(monkeypatch):
    """The graphs that are compiled; a backend of ours runs them as they are."""
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    torch.compiler.reset()
    monkeypatch.setattr(compiling, "BACKEND", backend)
    yield seen
    torch.compiler.reset()


def losses(run) -> list[float]:
    return [row["loss"] for row in read_metrics(run) if row["kind"] == "step"]


def compiled(config):
    return replace(config, hardware=replace(config.hardware, compile=True))


@pytest.mark.parametrize(
    "name",
    ["resnet", "mocov3", *(pytest.param(n, marks=pytest.mark.slow) for n in ("can", "dino"))],
)
def test_training_is_that_without_compiling(graphs, name, pictures, tmp_path, monkeypatch):
    """Masked transformers too, crops of several sizes, and a run that is stopped and resumed."""
    config = small_run(batch_size=80) if name == "resnet" else tiny_vit(name, pictures)
    if name == "dino":
        config = replace(config, views=replace(config.views, local_crops=2))
    pretrain(config, tmp_path / "plain")
    assert not graphs
    pretrain(compiled(config), tmp_path / "compiled")
    assert 1 < len(graphs) < 16  # blocks of one shape share a graph
    assert losses(tmp_path / "compiled") == pytest.approx(losses(tmp_path / "plain"), rel=1e-5)
    states = [
        load_checkpoint(tmp_path / run / "checkpoints/last.pt") for run in ("plain", "compiled")
    ]
    assert list(states[0]["method"]) == list(states[1]["method"])
    assert not any("_orig_mod" in key for key in states[1]["method"])
    first, second = (load_backbone(tmp_path / run) for run in ("plain", "compiled"))
    assert first.state_dict().keys() == second.state_dict().keys()
    images = torch.randn(2, 3, first.image_size, first.image_size)
    assert amcl.load(tmp_path / "compiled")(images).isfinite().all()
    if name != "mocov3":
        return
    torch.compiler.reset()
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=3)
        with pytest.raises(Interrupted):
            pretrain(compiled(config), tmp_path / "stopped")
    torch.compiler.reset()
    pretrain(compiled(config), tmp_path / "stopped", resume=True)
    assert_same_run(tmp_path / "compiled", tmp_path / "stopped")


def test_both_encoders_are_compiled(graphs):
    method = fresh_method(tiny_vit("mocov3", "."), 16)
    compiling.compile_backbones(method, torch.device("cpu"))
    for network in (method.backbone.network, method.keys.module[0].network):
        assert all(block._compiled_call_impl is not None for block in network.blocks)
        assert network._compiled_call_impl is None


def test_a_machine_without_a_compiler_is_told_in_a_line(monkeypatch, tmp_path):
    def backend(graph, inputs):
        raise FileNotFoundError("no C++ compiler here\nand more lines")

    monkeypatch.setattr(compiling, "BACKEND", backend)
    torch.compiler.reset()
    with pytest.raises(RunError, match=r"--compile: torch.compile does not .* g\+\+, or leave out"):
        pretrain(compiled(small_run()), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_inductor_trains_as_without(pictures, tmp_path):
    config = tiny_vit("simclr", pictures)
    pretrain(config, tmp_path / "plain")
    torch.compiler.reset()
    pretrain(compiled(config), tmp_path / "compiled")
    assert losses(tmp_path / "compiled") == pytest.approx(losses(tmp_path / "plain"), rel=1e-4)


@pytest.mark.slow
def test_inductor_without_a_compiler(tmp_path):
    """On a path where no compiler is found, and without what was compiled before."""
    words = "--subset 64 --batch-size 16 --epochs 1 --threads 1 --probe none --workers 0 --compile"
    done = subprocess.run(
        [sys.executable, "-m", "amcl", "pretrain", *words.split(), "--out", str(tmp_path / "run")],
        env={
            **os.environ,
            "PATH": str(tmp_path),
            "CXX": "no-such-compiler",
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 1
    message = re.sub(r"\s+", " ", done.stderr)
    assert "--compile: torch.compile does not work on this machine" in message
    assert "Traceback" not in message
