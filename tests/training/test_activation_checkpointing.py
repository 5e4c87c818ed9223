"""Activation checkpointing changes memory, and nothing else."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from amcl.checkpoints import read_metrics
from amcl.checkpoints.files import load_checkpoint
from amcl.cli import main
from amcl.config.fields import with_values
from amcl.errors import RunError
from amcl.methods import Method
from amcl.training import pretrain
from amcl.training.activation_checkpointing import checkpoint_activations
from amcl.training.start import fresh_method
from factories import small_run
from tiny_runs import assert_same_run, interrupt_at, tiny_vit

SIZE = 16


def method_of(name: str) -> Method:
    """A method with small networks, as a run begins."""
    config = tiny_vit(name, ".")
    method = fresh_method(replace(config, data=replace(config.data, image_size=SIZE)), SIZE)
    method.set_num_images(8)
    return method.train()


def step_of(method: Method, sizes: list[int]) -> tuple[torch.Tensor, dict[str, torch.Tensor], int]:
    """The loss and the gradients of a step, and the bytes that the backward pass needed."""
    torch.manual_seed(1)
    views = [torch.randn(4, 3, size, size) for size in sizes]
    drawn = method.draw(4, torch.Generator().manual_seed(2))
    seen: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
        return tensor

    weights = {p.untyped_storage().data_ptr() for p in method.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = method(views, **({} if drawn is None else {"drawn": drawn}))
    loss.backward()
    gradients = {name: p.grad for name, p in method.named_parameters() if p.grad is not None}
    return loss.detach(), gradients, sum(n for key, n in seen.items() if key not in weights)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("simclr", [SIZE, SIZE]),
        ("mocov3", [SIZE, SIZE]),
        ("mae", [SIZE]),
        ("can", [SIZE, SIZE]),
        ("dino", [SIZE, SIZE, 8, 8]),
    ],
)
def test_losses_and_gradients_are_equal(name, sizes):
    loss, gradients, plain_bytes = step_of(method_of(name), sizes)
    method = method_of(name)
    checkpoint_activations(method)
    again, others, bytes_kept = step_of(method, sizes)
    assert torch.equal(loss, again)
    assert gradients.keys() == others.keys()
    for key, value in gradients.items():
        assert torch.equal(value, others[key]), key
    assert bytes_kept < 0.6 * plain_bytes


@pytest.mark.usefixtures("few_images")
def test_running_statistics_of_a_resnet_are_equal(tmp_path, monkeypatch):
    """Its blocks see each batch twice, and count it once; and a stopped run resumes."""
    runs = []
    for checkpointing in (False, True):
        runs.append(tmp_path / str(checkpointing))
        config = small_run(batch_size=80, activation_checkpointing=checkpointing)
        pretrain(config, runs[-1])
    plain, saved = [load_checkpoint(run / "checkpoints/last.pt")["method"] for run in runs]
    assert any(name.endswith("running_mean") for name in plain)
    for name, value in plain.items():
        assert torch.equal(saved[name], value), name
    losses = [[row["loss"] for row in read_metrics(run) if row["kind"] == "step"] for run in runs]
    assert losses[0] == losses[1]
    interrupt_at(monkeypatch, step=3)
    stopped = tmp_path / "stopped"
    assert_stopped(config, stopped)
    assert main(["pretrain", "--resume", str(stopped)]) == 0
    assert_same_run(runs[1], stopped)


def assert_stopped(config, run) -> None:
    from amcl.errors import Interrupted

    with pytest.raises(Interrupted):
        pretrain(config, run)


def test_a_network_without_it_is_refused():
    class Refusing(nn.Linear):
        def set_grad_checkpointing(self, enable=True):
            assert not enable, "gradient checkpointing not supported"

    for network in (nn.Linear(2, 2), Refusing(2, 2)):
        method = method_of("simclr")
        method.backbone.network = network
        with pytest.raises(RunError, match=r"--activation-checkpointing: timm does not have it"):
            checkpoint_activations(method)


def test_it_is_an_option_that_a_resumed_run_may_change(tmp_path):
    config = with_values(small_run(), {"activation_checkpointing": True})
    assert config.hardware.activation_checkpointing
