"""Estimates for many GPUs, against formulas by hand and against tensors that were really saved."""

from dataclasses import replace

import pytest
import torch

from amcl.analysis.cost import Assumptions, cost_of, estimate_table, estimates, gpu_of
from amcl.analysis.cost.activations import SavedTensors, activations_of, saved_bytes
from amcl.config import Config
from amcl.seeds import generator
from amcl.training.activation_checkpointing import checkpoint_activations
from amcl.training.sharding import units_of
from amcl.training.start import fresh_method
from factories import small_run
from tiny_runs import tiny_vit

SIZE = 16
DIM, TOKENS, HEADS, BLOCKS = 64, 65, 2, 6  # of test_vit, whose MLPs are three times as wide


def counted(config: Config, images: int, checkpointing: bool, bf16: bool) -> int:
    """Bytes that a real step saves."""
    method = fresh_method(config, SIZE)
    method.set_num_images(images)
    if checkpointing:
        checkpoint_activations(method)
    drawn = method.draw(images, generator("cost"))
    views = [torch.randn(images, 3, SIZE, SIZE) for _ in range(method.num_views)]
    arguments = {} if drawn is None else {"drawn": drawn}
    return saved_bytes(method, views, arguments, bf16=bf16)


def test_saved_tensors_count_once():
    weight = torch.ones(8, 8, requires_grad=True)
    x = torch.ones(4, 8)
    saved = SavedTensors([weight])
    with saved.counting():
        hidden = x @ weight  # saves x, and the weight, which does not count
        loss = hidden.square().sum() + hidden.exp().sum()  # saves hidden, and its exponential
    assert saved.bytes == 4 * (4 * 8) * 3
    loss.backward()


@pytest.mark.parametrize(
    ("name", "checkpointing", "bf16"),
    [
        ("simclr", False, False),
        ("mocov3", True, False),
        ("simclr", True, True),
        pytest.param("can", False, False, marks=pytest.mark.slow),
        pytest.param("mae", True, False, marks=pytest.mark.slow),
        pytest.param("resnet", False, False, marks=pytest.mark.slow),
        pytest.param("dino", True, True, marks=pytest.mark.slow),
    ],
)
def test_activations_are_the_tensors_that_a_step_saves(name, checkpointing, bf16):
    config = small_run(width=0.25) if name == "resnet" else tiny_vit(name, ".")
    config = replace(config, views=replace(config.views, local_crops=0))
    estimate = activations_of(config, 4, SIZE, bf16=bf16)
    kept = estimate.checkpointed if checkpointing else estimate.saved
    real = counted(config, 4, checkpointing, bf16)
    # Real tensors of mixed precision have a few bytes more, so that they begin at round addresses.
    assert kept == (pytest.approx(real, rel=2e-3) if bf16 else real)


def test_activations_of_a_block_by_hand():
    """Both norms, queries, keys, values, attention, its product, and the MLP before and after."""
    config = tiny_vit("simclr", ".")
    estimate = activations_of(config, 4, SIZE, bf16=False)
    widths = 1 + 3 + 1 + 1 + 1 + 3 + 3  # beside the input, which checkpointing keeps
    a_token = 4 * (widths * DIM + HEADS + 2 * 2)  # with log-sums of attention, and statistics
    assert estimate.recomputed == 2 * 4 * TOKENS * a_token
    assert estimate.peak(checkpointing=True) == estimate.checkpointed + estimate.recomputed
    assert estimate.peak(checkpointing=False) == estimate.saved
    inputs = 2 * 4 * TOKENS * BLOCKS * DIM * 4
    assert inputs < estimate.checkpointed < 1.5 * inputs


@pytest.fixture(scope="module")
def tiny() -> Config:
    config = tiny_vit("mocov3", ".", batch_size=16)
    return replace(config, data=replace(config.data, image_size=SIZE))


@pytest.fixture(scope="module")
def rows(tiny):
    return estimates(tiny, [1, 4], SIZE, Assumptions(gpu=gpu_of("a100"), utilization=0.5))


def test_memory_by_hand(tiny, rows):
    method = fresh_method(tiny, SIZE)
    trained = 4 * sum(p.numel() for p in method.parameters() if p.requires_grad)
    fixed = 4 * sum(p.numel() for p in method.parameters() if not p.requires_grad)
    buffers = sum(buffer.nbytes for buffer in method.buffers())
    block = 4 * sum(p.numel() for p in method.backbone.network.blocks[0].parameters())
    one, _, ddp, fsdp, _, _ = rows
    assert [(row.devices, row.strategy, row.checkpointing) for row in rows] == [
        *((1, "ddp", False), (1, "ddp", True)),
        *((4, "ddp", False), (4, "fsdp", False), (4, "ddp", True), (4, "fsdp", True)),
    ]
    assert one.weights == ddp.weights == trained + fixed + buffers
    assert one.gradients == ddp.gradients == ddp.exchange == trained
    assert one.optimizer == 2 * trained  # AdamW
    assert one.exchange == 0
    assert fsdp.weights == (trained + fixed) / 4 + buffers
    assert (fsdp.gradients, fsdp.optimizer) == (trained / 4, trained / 2)
    assert len(list(units_of(method))) == 2 * BLOCKS  # with those of the momentum copy
    rest, fixed_rest = trained - BLOCKS * block, fixed - BLOCKS * block
    assert fsdp.exchange == 2 * rest + fixed_rest + 3 * block
    parts = (fsdp.weights, fsdp.gradients, fsdp.optimizer, fsdp.exchange, fsdp.activations)
    assert fsdp.memory == sum(parts)
    assert fsdp.memory < ddp.memory
    assert rows[4].activations < 0.5 * ddp.activations
    assert ddp.activations == activations_of(tiny, 4, SIZE).saved


def test_time_by_hand(tiny, rows):
    one, again, ddp, fsdp, _, _ = rows
    flops = cost_of(tiny, SIZE).step_flops
    assert one.compute == pytest.approx(16 * flops / (0.5 * 312e12))
    assert ddp.compute == pytest.approx(one.compute / 4)
    assert one.communication == 0
    gradients = one.gradients
    assert ddp.communication == pytest.approx(2 * 3 / 4 * gradients / 300e9)
    block = 4 * sum(
        p.numel() for p in fresh_method(tiny, SIZE).backbone.network.blocks[0].parameters()
    )
    fixed = 4 * sum(p.numel() for p in fresh_method(tiny, SIZE).parameters()) - gradients
    sent = 3 * BLOCKS * block + 2 * (gradients - BLOCKS * block) + fixed
    assert fsdp.communication == pytest.approx(3 / 4 * sent / 300e9)
    assert fsdp.seconds == max(fsdp.compute, fsdp.communication)
    # The backbone's forward pass, a third of what the query encoder takes, comes once more.
    assert 1.1 < again.compute / one.compute < 1.34


@pytest.mark.slow
def test_assumptions_change_what_they_say(tiny, rows):
    gpu = gpu_of("a100")
    slow = Assumptions(gpu=gpu, utilization=0.25, bandwidth=1e9)
    row = estimates(tiny, [4], SIZE, slow)[1]
    assert row.compute == pytest.approx(2 * rows[3].compute)
    assert row.communication == pytest.approx(300 * rows[3].communication)
    assert Assumptions(gpu=gpu).link(8) == 300e9
    assert Assumptions(gpu=gpu).link(16) == 25e9
    assert "1 GB/s" in slow.describe()[0]
    assert "25% are reached" in slow.describe()[0]
    table = estimate_table(rows, gpu)
    assert table.rows[0][:4] == ["1", "–", "no", "16"]
    small = replace(gpu, memory=rows[0].memory)  # which cannot be filled to the last byte
    assert [row.fits(small) for row in rows[:2]] == [False, rows[1].memory <= 0.9 * small.memory]


def test_a_batch_that_does_not_divide_is_an_error(tiny):
    with pytest.raises(ValueError, match=r"16 does not divide among 5 GPUs .* --batch-size"):
        estimates(tiny, [5], SIZE, Assumptions(gpu=gpu_of("a100")))
