"""Parameters and FLOPs against formulas and real networks; steps that are really taken."""

import os
import signal
from dataclasses import replace
from functools import cache
from multiprocessing import Pipe

import pytest
import torch
from torch import nn

from amcl import recipes
from amcl.analysis.cost import (
    Cost,
    StepCost,
    backbone_flops,
    compare_cost,
    cost_of,
    image_size_of,
    measure,
    measure_in_turns,
    measure_step,
    rows,
)
from amcl.backbones import Backbone
from amcl.config import Config
from amcl.errors import RunError
from amcl.methods import METHODS, make_method
from amcl.modules import ProjectionHeads
from factories import change
from tiny_runs import picture_folder


def tiny(name: str, batch_size: int = 8, **method: object) -> Config:
    """A recipe of the built-in set with few images a batch."""
    config = recipes.recipe(f"builtin-{name}")
    run = replace(config.run, batch_size=batch_size)
    return replace(config, run=run, method=change(config.method, **method))


@cache
def plain(name: str) -> Cost:
    """The cost of a method as published."""
    return cost_of(tiny(name))


@cache
def with_amcl(name: str) -> Cost:
    """The cost of a method in its AMCL form."""
    return cost_of(recipes.with_amcl(tiny(name)))


def layers_by_hand(backbone: Backbone) -> list[int]:
    """FLOPs of each convolution for one image, by the shapes that a real pass shows."""
    found: list[int] = []

    def conv(layer, inputs, output):
        _, channels, height, width = output.shape
        kernel = layer.weight.shape[1:].numel()  # C_in/groups · k · k
        found.append(2 * channels * height * width * kernel)

    for part in backbone.modules():
        assert not isinstance(part, nn.Linear)
        if isinstance(part, nn.Conv2d):
            part.register_forward_hook(conv)
    backbone.eval()(torch.zeros(1, 3, backbone.image_size, backbone.image_size))
    return found


def vit_by_hand(dim: int, depth: int, tokens: int, hidden: int) -> int:
    """FLOPs of the blocks of a vision transformer, an image."""
    linear = 2 * tokens * (dim * 3 * dim + dim * dim + 2 * dim * hidden)
    attention = 2 * (2 * tokens**2 * dim)
    return depth * (linear + attention)


@pytest.mark.parametrize("heads", [1, 3])
def test_simclr_by_hand(heads):
    config = tiny("simclr", projector=(16, 12), heads=heads)
    if heads > 1:
        config = replace(config, method=config.method.with_temperature("adaptive"))
    backbone = Backbone(config.backbone, 32)
    convs, dim, n = layers_by_hand(backbone), backbone.dim, 8
    pairs = 2 * (2 * n) ** 2 * 12 * heads  # s of 2N anchors and 2N candidates
    phi = 0
    if heads > 1:
        pairs *= 2  # and r
        phi = 2 * heads * 2 * 12 * 12
    projector = 2 * heads * 2 * (dim * 16 + 16 * 12)
    forward = 2 * sum(convs) + projector + phi + pairs / n
    cost = cost_of(config)
    assert cost.forward_flops == forward
    assert cost.inference_flops == sum(convs)
    # Each product has two gradients, but for the images, which need none.
    assert cost.step_flops == 3 * forward - 2 * convs[0]


def test_moco_counts_keys_and_queue():
    config = tiny("moco", projector=(16, 12), heads=2, queue=32, temperature="adaptive")
    backbone = Backbone(config.backbone, 32)
    once = sum(layers_by_hand(backbone)) + 2 * 2 * (backbone.dim * 16 + 16 * 12)
    phi = 2 * 12 * 12 * 2  # of one vector in two heads
    pairs = 2 * 2 * 32 * 12 * 2  # s and r of one anchor with the queue, in two heads
    # Two queries and two keys, each through its encoder and φ; the queue for either direction.
    expected = 4 * (once + phi) + 2 * (pairs + 32 * phi / 8)
    assert cost_of(config).forward_flops == expected


def test_a_vision_transformer_by_hand():
    """With the whole image at inference, a quarter of its patches in MAE, all in the decoder."""
    config, cost = tiny("mae"), plain("mae")
    vit = Backbone(config.backbone, 32).network
    dim, depth, patches = vit.embed_dim, len(vit.blocks), vit.patch_embed.num_patches
    hidden, side = vit.blocks[0].mlp.fc1.out_features, vit.patch_embed.patch_size[0]
    embed = 2 * patches * 3 * side**2 * dim
    assert cost.inference_flops == embed + vit_by_hand(dim, depth, patches + 1, hidden)
    seen, wide = patches // 4 + 1, config.method.decoder_dim
    encoder = embed + vit_by_hand(dim, depth, seen, hidden)
    blocks = vit_by_hand(wide, config.method.decoder_depth, patches + 1, 4 * wide)
    decoder = 2 * seen * dim * wide + blocks + 2 * (patches + 1) * wide * 3 * side**2
    assert cost.forward_flops == encoder + decoder
    assert cost.step_flops == 3 * (encoder + decoder) - embed  # images need no gradient


def test_can_with_a_large_network_takes_no_memory():
    """ViT-B with two halves of an image, a decoder for each, and batches of 4096."""
    cost = cost_of(recipes.recipe("imagenet-can"))
    embed = 2 * 196 * 768 * 768
    encoder = embed + vit_by_hand(768, 12, 98 + 1, 3072)
    decoder = 2 * 99 * 768 * 512 + vit_by_hand(512, 8, 197, 2048) + 2 * 197 * 512 * 768
    level = 2 * (2 * 768 * 768) + 2 * 768 * 512
    projector = 2 * (768 * 4096 + 4096 * 4096 + 4096 * 128)
    pairs = 2 * (2 * 4096) ** 2 * 128 / 4096
    assert cost.forward_flops == 2 * (encoder + decoder + level + projector) + pairs
    assert cost.inference_flops == embed + vit_by_hand(768, 12, 197, 3072)


def test_a_resnet50_is_what_the_literature_says():
    """4.1 G multiply-adds at 224 pixels, 25.6 M parameters of which the classifier has 2.05 M."""
    cost = cost_of(recipes.recipe("imagenet-moco"))
    assert cost.inference_flops / 2 == pytest.approx(4.1e9, rel=0.01)
    assert cost.inference_parameters + 2048 * 1000 + 1000 == 25_557_032


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS if name != "mocov3"])  # LGP is one
def test_parameters_are_those_of_the_method(name):
    config, cost = tiny(name), plain(name) if name == "mae" else with_amcl(name)
    if name != "mae":
        config = recipes.with_amcl(config)
    method = make_method(config.method, Backbone(config.backbone, 32))
    assert cost.training_parameters + cost.momentum == size_of(method)
    assert cost.trained == sum(p.numel() for p in method.parameters() if p.requires_grad)
    parts = {"backbone": method.backbone}
    for part in ("heads", "prototypes", "predictors", "decoder", "noise_embedding"):
        if hasattr(method, part):
            parts[part] = getattr(method, part)
    if name != "mae":
        parts["temperature"] = method.loss.temperature.phi
    assert cost.parameters == {part: size_of(module) for part, module in parts.items()}


def size_of(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", ["moco", "lgp"])
def test_a_momentum_copy_is_not_trained(name):
    cost = with_amcl(name)
    assert cost.momentum == cost.parameters["backbone"] + cost.parameters["heads"]
    assert cost.trained <= cost.training_parameters


def test_the_teacher_is_not_trained_and_has_prototypes_of_its_own():
    cost = with_amcl("dino")
    parts = ("backbone", "heads", "prototypes")
    assert cost.momentum == sum(cost.parameters[part] for part in parts)
    assert cost.parameters["prototypes"] == 3 * 256 * 64


def test_every_crop_counts():
    """The student computes the features of all crops, the teacher of the views of full size."""
    two = tiny("dino")
    seven = replace(two, views=replace(two.views, local_crops=5, local_size=16))
    more = cost_of(seven).forward_flops - cost_of(two).forward_flops
    small = backbone_flops(two.backbone, 16)
    dim = Backbone(two.backbone, 32).dim
    heads = 2 * (dim * 256 + 256 * 64)
    prototypes = 2 * 64 * 256
    assert more == 5 * (small + heads + prototypes)


@pytest.mark.parametrize("name", ["simclr", "simsiam", "barlow", "supcon", "vicreg"])
def test_amcl_costs_more_in_training_and_nothing_at_inference(name):
    base, amcl = plain(name), with_amcl(name)
    assert (amcl.image_size, amcl.batch_size) == (base.image_size, base.batch_size) == (32, 8)
    assert amcl.inference_flops == base.inference_flops
    assert amcl.inference_parameters == base.inference_parameters
    assert amcl.training_parameters > base.training_parameters
    assert amcl.forward_flops > base.forward_flops
    assert amcl.step_flops > base.step_flops


def test_pairs_are_those_of_a_part_of_a_batch():
    whole = tiny("simclr", batch_size=16)
    parts = cost_of(replace(whole, run=replace(whole.run, accumulate=2)))
    assert parts == plain("simclr")
    assert parts.batch_size == 8


def test_counting_draws_from_nobodys_random_numbers():
    before = torch.get_rng_state()
    cost_of(tiny("can"))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_size_of_images_is_found_without_them(tmp_path):
    assert image_size_of(recipes.recipe("stl10-simclr")) == 96
    assert image_size_of(recipes.recipe("builtin-simclr")) == 32
    config = recipes.default(str(picture_folder(tmp_path / "pictures", count=3, size=70)), "simclr")
    assert image_size_of(config) == 64
    assert image_size_of(replace(config, data=replace(config.data, image_size=48))) == 48
    with pytest.raises(FileNotFoundError, match=r"/none'.*builtin, cifar10"):
        image_size_of(recipes.default(str(tmp_path / "none"), "simclr"))
    with pytest.raises(ValueError, match="image_size must be a whole number"):
        cost_of(config, 0)


def test_rows_have_ratios_where_there_is_something_to_divide():
    config = tiny("simclr", projector=(16, 8))
    costs = compare_cost(config, recipes.with_amcl(config), image_size=16)
    assert [cost.image_size for cost in costs] == [16, 16]
    steps = [
        StepCost(device="cpu", batch_size=8, seconds=(0.5, 0.1, 0.2), peak_memory=2**20),
        StepCost(device="cpu", batch_size=8, seconds=(0.4, 0.5, 0.3), peak_memory=None),
    ]
    found = {row.name: row for row in rows(costs, steps)}
    assert found["parameters/heads"].ratio == 3
    assert found["parameters/temperature"].ratio is None  # the baseline has no φ
    assert found["inference_flops"].ratio == 1
    assert found["seconds"].values == (0.2, 0.4)
    assert found["least_seconds"].values == (0.1, 0.3)
    assert found["images_per_second"].values == (40, 20)
    assert found["peak_memory"].values == (1, None)
    assert found["peak_memory"].ratio is None
    assert rows(costs[:1])[0].ratio is None


@pytest.mark.slow
def test_steps_are_really_taken():
    """Weights of wide heads, their gradients and AdamW's two moments must be in memory."""
    config = tiny("simclr", projector=(2048, 2048, 8))
    heads = ProjectionHeads(Backbone(config.backbone, 32).dim, 2048, 2048, 8, num_heads=1)
    weights = 4 * size_of(heads)
    found = measure_step(config, steps=2, images=20)
    assert (found.device, found.batch_size, len(found.seconds)) == ("cpu", 8, 2)
    assert min(found.seconds) > 0
    assert 4 * weights <= found.peak_memory < 4 * weights + 400 * 2**20


def test_sides_take_steps_in_turns(monkeypatch):
    order: list[int] = []

    class Trainer:
        def __init__(self, job):
            self.heads = job.config.method.heads

        def answer(self):
            return "cpu"

        def ask(self, what):
            if what == "memory":
                return 100 * self.heads
            order.append(self.heads)
            return float(len(order))

        def close(self):
            closed.append(self.heads)

    closed: list[int] = []
    monkeypatch.setattr(measure, "_Trainer", Trainer)
    config = tiny("simclr")
    first, second = measure_in_turns([config, recipes.with_amcl(config)], steps=3)
    assert order == [1, 3, 1, 3, 1, 3]
    assert (first.seconds, second.seconds) == ((1, 3, 5), (2, 4, 6))
    assert (first.peak_memory, second.peak_memory) == (100, 300)
    assert sorted(closed) == [1, 3]
    with pytest.raises(ValueError, match=r"\bsteps\b.*\b0\b"):
        measure_step(config, steps=0)


def test_a_job_has_time_for_its_steps_and_one_device():
    config = tiny("simclr")
    config = replace(
        config,
        run=replace(config.run, epochs=1, init="elsewhere"),
        hardware=replace(config.hardware, devices=4, nodes=2),
    )
    job = measure._Job.of(config, steps=5, images=3, image_size=None, channels=3)
    assert (job.config.hardware.devices, job.config.hardware.nodes) == (1, 1)
    assert (job.config.run.epochs, job.config.run.init) == (7, None)
    assert (job.images, job.image_size) == (8, 32)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ValueError("no"), ValueError),
        (RunError("no"), RunError),
        (RuntimeError("out of memory"), RunError),
    ],
)
def test_errors_of_a_process_come_back(monkeypatch, raised, kind):
    def steps(job):
        raise raised

    monkeypatch.setattr(measure, "_Steps", steps)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    mine, theirs = Pipe(duplex=False)
    with mine, theirs:
        measure._child(None, theirs)
        found = mine.recv()
    assert type(found) is kind
    assert str(found) == str(raised)


def test_a_process_ends_with_the_one_that_asks(monkeypatch):
    class Steps:
        device_name = "cpu"

        def __init__(self, job):
            self.taken = 0

        def take(self):
            self.taken += 1
            return self.taken

    monkeypatch.setattr(measure, "_Steps", Steps)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    mine, theirs = Pipe()
    mine.send("step")
    mine.close()
    with theirs:
        measure._child(None, theirs)


def test_a_process_that_dies_is_told(monkeypatch, capfd):
    monkeypatch.setattr(measure, "_child", os._exit)  # which takes other arguments, and fails
    trainer = measure._Trainer("no job")
    for hear in (trainer.answer, lambda: trainer.ask("step")):
        with pytest.raises(RunError, match="ended with code 1, perhaps for want of memory"):
            hear()
    trainer.close()
    assert "TypeError" in capfd.readouterr().err
