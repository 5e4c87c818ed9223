"""Runs in two stages: their weights, and a stop in one of them."""

import pytest
import torch
from safetensors.torch import load_file

from amcl.checkpoints.files import load_checkpoint
from amcl.errors import Interrupted
from amcl.training import pretrain
from tiny_runs import interrupt_at


def weights(run):
    return load_file(run / "backbone.safetensors")


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def stopped(monkeypatch, config, out, step, message):
    with monkeypatch.context() as patch:
        interrupt_at(patch, step=step)
        with pytest.raises(Interrupted, match=message) as told:
            pretrain(config, out)
    assert str(told.value).endswith(f"amcl pretrain --resume {out}")


def assert_anchored(run, first):
    """What LGP is pulled to are the weights of its first stage, and not its own."""
    state = load_checkpoint(run / "checkpoints/last.pt")["method"]
    given, own = weights(first), weights(run)
    held = [state[name] for name in state if name.startswith("anchor.")]
    assert len(held) > 30  # three of six blocks, embeddings
    assert torch.equal(held[0], given["patch_embed.proj.weight"])
    assert not torch.equal(held[0], own["patch_embed.proj.weight"])
