"""The examples run as they are, and every one of them trains all of its parameters."""

import os
import re
import runpy
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from amcl.data import load_dataset
from amcl.methods import METHODS

ROOT = Path(__file__).parent.parent
EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
OF_METHODS = {
    **{name: name for name in METHODS.names()},
    "barlow": "barlow_twins",
    "mocov3": "moco_v3",
}
TRAINED_IN_PROCESS = sorted(EXAMPLES.keys() - {"drop_in", "several_processes"})


def assert_learned(printed, points):
    raw, learned = (float(x) for x in re.findall(r"([\d.]+)% right", printed))
    assert learned > raw + points, printed


def run(*words, cwd):
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_method_has_an_example():
    assert {OF_METHODS[name] for name in METHODS.names()} <= EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_short(name):
    assert len(EXAMPLES[name].read_text().splitlines()) <= (95 if name == "drop_in" else 82)


def test_the_drop_in_learns(capsys):
    """In a third of its epochs."""
    main = runpy.run_path(str(EXAMPLES["drop_in"]))["main"]
    main.__globals__["train"] = partial(main.__globals__["train"], epochs=5)
    main()
    assert_learned(capsys.readouterr().out, points=20)


@pytest.mark.filterwarnings("ignore::FutureWarning:torch", "ignore::FutureWarning:lightning")
@pytest.mark.filterwarnings("ignore:The 'train_dataloader' does not have many workers")
@pytest.mark.parametrize("name", TRAINED_IN_PROCESS)
def test_examples_train_every_parameter(name, monkeypatch, tmp_path):
    """For one epoch on a few images."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    data = load_dataset("builtin", image_size=32, train_labels=name == "supcon")
    few = torch.arange(96)
    inputs = [data.train.subset(few), *([data.labels[few]] if name == "supcon" else [])]
    options = {"accelerator": "cpu", "enable_checkpointing": False} if "lightning" in name else {}
    parameters = []
    make = torch.optim.AdamW.__init__

    def record(self, *args, **kwargs):
        make(self, *args, **kwargs)
        for group in self.param_groups:
            parameters.extend((p, p.detach().clone()) for p in group["params"])

    monkeypatch.setattr(torch.optim.AdamW, "__init__", record)
    train = runpy.run_path(str(EXAMPLES[name]))["train"]
    train(*inputs, data.mean, data.std, epochs=1, batch_size=32, **options)
    trained = [(p, first) for p, first in parameters if p.requires_grad]
    assert len(trained) > 10
    unused = [tuple(p.shape) for p, _ in trained if p.grad is None]
    assert not unused
    assert all(p.isfinite().all() for p, _ in trained)
    assert sum(not torch.equal(p, first) for p, first in trained) > 0.9 * len(trained)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - {"several_processes"}))
def test_examples_run_as_they_are(name, tmp_path):
    printed = run("-W", "error::UserWarning", str(EXAMPLES[name]), cwd=tmp_path)
    if name == "drop_in":
        assert_learned(printed, points=30)


@pytest.mark.slow
def test_several_processes_run_as_they_are(tmp_path):
    example = str(EXAMPLES["several_processes"])
    printed = run("-m", "torch.distributed.run", "--nproc-per-node", "2", example, cwd=tmp_path)
    assert "epoch 10: loss" in printed
