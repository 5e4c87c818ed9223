"""Optimizers against torch's own and literal loops; who is decayed, scaled and held fixed."""

import copy
import math
import re

import pytest
import torch
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.methods import (
    DINOSettings,
    LGPSettings,
    MoCoSettings,
    MoCoV3Settings,
    SimCLRSettings,
    SimSiamSettings,
    make_method,
)
from amcl.temperature import AdaptiveSettings, LearnableSettings
from amcl.training.optimizers import (
    LARS,
    OptimizerSettings,
    make_optimizer,
    parameter_groups,
    set_lr,
    set_weight_decay,
)
from factories import method_settings


def small_method(settings, name="resnet10t", width=0.125):
    return make_method(settings, Backbone(BackboneSettings(name=name, width=width), 16))


def simsiam(**options):
    return small_method(
        SimSiamSettings(
            heads=2,
            projector=(8, 6),
            predictor=4,
            **options,
            temperature=AdaptiveSettings(phi_depth=2, tau=1.0, beta=3.0, phi_gradient=False),
        )
    )


def group_of(method, settings):
    """Each parameter's group by the parameter's name."""
    groups = parameter_groups(method, settings)
    names = {id(p): name for name, p in method.named_parameters()}
    pairs = [(names[id(p)], group) for group in groups for p in group["params"]]
    assert len(pairs) == len({name for name, _ in pairs})  # each in one group
    return dict(pairs)


def is_weight(method, name):
    parent, _, leaf = name.rpartition(".")
    module = method.get_submodule(parent)
    return leaf == "weight" and not isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)


def test_all_that_trains_is_in_a_group():
    method = simsiam()
    assert group_of(method, OptimizerSettings()).keys() == dict(method.named_parameters()).keys()
    moco = small_method(MoCoSettings(projector=(8, 6), queue=16, temperature=AdaptiveSettings()))
    names = group_of(moco, OptimizerSettings()).keys()
    assert names == {n for n, _ in moco.named_parameters() if not n.startswith("keys.")}
    assert "loss.temperature.phi.0.weight" in names


@pytest.mark.parametrize("decay_all", [False, True])
def test_norms_and_biases_are_decayed_only_when_asked(decay_all):
    method = simsiam()
    settings = OptimizerSettings(
        weight_decay=0.3, decay_norm_and_bias=decay_all, bias_lr_scale=0.024
    )
    groups = group_of(method, settings)
    for name, group in groups.items():
        weight = is_weight(method, name)
        assert group["weight_decay"] == (0.3 if weight or decay_all else 0.0), name
        assert group["lr_scale"] == (1.0 if weight else 0.024), name
        assert group["is_weight"] == weight, name
    assert not groups["heads.layers.0.bias"]["is_weight"]  # C heads' biases are one tensor


@pytest.mark.parametrize("decay_all", [False, True])
def test_numbers_that_are_learned_never_decay(decay_all):
    settings = SimCLRSettings(
        projector=(8, 6), form="sigmoid", temperature=LearnableSettings(tau=0.1)
    )
    optimizer = OptimizerSettings(
        weight_decay=0.3, decay_norm_and_bias=decay_all, bias_lr_scale=0.5
    )
    groups = group_of(small_method(settings), optimizer)
    assert groups["heads.layers.0.bias"]["weight_decay"] == (0.3 if decay_all else 0.0)
    for name in ("loss.contrast_form.bias", "loss.temperature.log_tau"):
        assert groups[name]["weight_decay"] == 0.0
        assert groups[name]["lr_scale"] == 0.5
        assert not groups[name]["is_weight"]


@pytest.mark.parametrize("fixed", [True, False])
def test_only_predictors_keep_their_rate(fixed):
    groups = group_of(simsiam(fixed_predictor_rate=fixed), OptimizerSettings())
    for name, group in groups.items():
        assert group["constant_lr"] == (fixed and name.startswith("predictors.")), name


def test_only_weights_of_heads_are_taken_head_by_head():
    settings = SimCLRSettings(heads=2, projector=(8, 6), temperature=LearnableSettings())
    method = small_method(settings, "vit_tiny_patch16_224", width=1 / 3)
    groups = group_of(method, OptimizerSettings())
    assert method.backbone.network.pos_embed.ndim == 3  # three dimensions alone are not enough
    marked = {name for name, group in groups.items() if group["per_head"]}
    assert marked == {"heads.layers.0.weight", "heads.layers.2.weight"}
    assert not groups["loss.temperature.log_tau"]["is_weight"]


THIRDS = {  # blocks of the first, second and last third
    "test_vit": (1.0, (range(2), range(2, 4), range(4, 6))),
    "vit_tiny_patch16_224": (1 / 3, (range(4), range(4, 8), range(8, 12))),
}


def third_of(name, thirds):
    """0, 1 or 2: embeddings with the first, all that is behind the blocks with the last."""
    block = re.match(r"backbone\.network\.blocks\.(\d+)\.", name)
    if block:
        return next(i for i, third in enumerate(thirds) if int(block[1]) in third)
    embeddings = ("patch_embed.", "cls_token", "pos_embed")
    return 0 if name.startswith(tuple(f"backbone.network.{e}" for e in embeddings)) else 2


@pytest.mark.parametrize("fixed_positions", [True, False])
@pytest.mark.parametrize("network", THIRDS)
def test_lgp_learns_by_thirds_of_the_blocks(network, fixed_positions):
    width, thirds = THIRDS[network]
    options = {"projector": (8, 6), "predictor": 4, "heads": 2, "temperature": "adaptive"}
    settings = method_settings("lgp", fixed_positions=fixed_positions, pull=0.1, **options)
    method = small_method(settings, network, width)
    optimizer = make_optimizer(
        method, OptimizerSettings(name="adamw", lr=0.2, bias_lr_scale=0.5), 256
    )
    set_lr(optimizer, 0.2, 0.25)
    names = {id(p): name for name, p in method.named_parameters()}
    rates = [(names[id(p)], p, g["lr"]) for g in optimizer.param_groups for p in g["params"]]
    trained = [name for name, p in method.named_parameters() if p.requires_grad]
    assert sorted(name for name, _, _ in rates) == sorted(trained)  # each of them once
    seen = set()
    for name, parameter, rate in rates:
        third = third_of(name, thirds)
        wanted = 0.2 * 0.25 * (0.1, 0.1, 1.0)[third] * (1.0 if parameter.ndim > 1 else 0.5)
        assert rate == pytest.approx(wanted), name
        seen.add((name.split(".")[0], third))
    last = {(part, 2) for part in ("backbone", "heads", "predictors", "loss")}
    assert seen == {("backbone", 0), ("backbone", 1)} | last


def test_each_third_has_its_own_rate_and_0_holds_it_fixed():
    settings = LGPSettings(thirds=(0.0, 0.3, 0.7), projector=(8, 6), predictor=4)
    method = small_method(settings, "test_vit", 1.0)
    groups = group_of(method, OptimizerSettings())
    scales = (0.0, 0.3, 0.7)
    for name, group in groups.items():
        assert group["lr_scale"] == scales[third_of(name, THIRDS["test_vit"][1])], name
    sgd = make_optimizer(method, OptimizerSettings(lr=0.1), 256)
    before = copy.deepcopy(method.state_dict())
    set_lr(sgd, 0.1, 1.0)
    for p in method.parameters():
        p.grad = torch.ones_like(p) if p.requires_grad else None
    sgd.step()
    moved = {n for n, p in method.named_parameters() if not torch.equal(p, before[n])}
    assert moved == {n for n in groups if third_of(n, THIRDS["test_vit"][1]) > 0}


def test_other_methods_learn_at_one_rate():
    settings = MoCoV3Settings(projector=(8, 6), predictor=4)
    method = small_method(settings, "test_vit", 1.0)
    groups = group_of(method, OptimizerSettings())
    assert {group["lr_scale"] for group in groups.values()} == {1.0}
    still = ("keys.", "backbone.network.patch_embed.", "backbone.network.pos_embed")
    assert groups.keys() == {n for n, _ in method.named_parameters() if not n.startswith(still)}


@pytest.mark.parametrize(("scaling", "rate"), [("none", 0.3), ("linear", 4.8), ("sqrt", 1.2)])
def test_rate_scales_with_the_batch(scaling, rate):
    settings = OptimizerSettings(lr=0.3, lr_scaling=scaling)
    assert settings.peak_rate(4096) == pytest.approx(rate)
    optimizer = make_optimizer(simsiam(), settings, 4096)
    assert {group["lr"] for group in optimizer.param_groups} == {settings.peak_rate(4096)}


@pytest.mark.parametrize("final", [0.0, 0.02])
def test_warm_up_then_cosine(final):
    settings = OptimizerSettings(warmup_epochs=10, final_lr=final)
    for epoch in (0.0, 2.5, 9.99):
        assert settings.factor(epoch, 100) == pytest.approx(epoch / 10)
    for epoch in (10.0, 30.0, 55.0, 77.7, 100.0):
        cosine = 0.5 * (1 + math.cos(math.pi * (epoch - 10) / 90))
        assert settings.factor(epoch, 100) == pytest.approx(final + (1 - final) * cosine)
    assert settings.factor(101, 100) == pytest.approx(final)


def test_constant_schedule_and_a_warm_up_that_fills_the_run():
    constant = OptimizerSettings(warmup_epochs=4, schedule="constant")
    assert [constant.factor(e, 10) for e in (0, 1, 4, 9)] == [0.0, 0.25, 1.0, 1.0]
    long = OptimizerSettings(warmup_epochs=40)
    assert [long.factor(e, 10) for e in (0, 5, 10)] == [0.0, 0.5, 1.0]
    assert OptimizerSettings().factor(0, 10) == 1.0


def test_rate_is_set_for_each_group():
    settings = OptimizerSettings(lr=0.4, bias_lr_scale=0.5)
    method = simsiam()
    optimizer = make_optimizer(method, settings, 256)
    assert set_lr(optimizer, 0.4, 0.1) == pytest.approx(0.04)
    for group in optimizer.param_groups:
        wanted = 0.4 * (1 if group["constant_lr"] else 0.1) * (1 if group["is_weight"] else 0.5)
        assert group["lr"] == pytest.approx(wanted)
    assert {group["constant_lr"] for group in optimizer.param_groups} == {True, False}


def test_settings_reach_the_optimizer():
    method = simsiam()
    sgd = make_optimizer(method, OptimizerSettings(sgd_momentum=0.8), 256)
    assert type(sgd) is torch.optim.SGD
    assert all(group["momentum"] == 0.8 for group in sgd.param_groups)
    options = {"name": "lars", "sgd_momentum": 0.8, "lars_trust": 0.02}
    lars = make_optimizer(method, OptimizerSettings(**options), 256)
    assert type(lars) is LARS
    assert all((g["momentum"], g["trust"]) == (0.8, 0.02) for g in lars.param_groups)
    adamw = make_optimizer(
        method, OptimizerSettings(name="adamw", adam_betas=(0.8, 0.95), weight_decay=0.1), 256
    )
    assert type(adamw) is torch.optim.AdamW
    assert all(group["betas"] == (0.8, 0.95) for group in adamw.param_groups)
    assert {group["weight_decay"] for group in adamw.param_groups} == {0.0, 0.1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "adam"}, "optimizer must be one of 'sgd', 'lars', 'adamw'; got 'adam'"),
        ({"lr_scaling": "log"}, "lr_scaling must be one of"),
        ({"schedule": "step"}, "schedule must be one of"),
        ({"lr": 0.0}, "lr must be a finite number above 0"),
        ({"weight_decay": -1e-4}, "weight_decay must be a finite number, at least 0"),
        ({"warmup_epochs": math.inf}, "warmup_epochs must be a finite number"),
        ({"clip": math.nan}, "clip must be a finite number"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        OptimizerSettings(**options)


def parameters(*shapes):
    return [nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in shapes]


def steps(optimizer, params, gradients):
    for gradient in gradients:
        for p, g in zip(params, gradient, strict=True):
            p.grad = g.clone()
        optimizer.step()


def random_gradients(params, count=4):
    return [[torch.randn_like(p) for p in params] for _ in range(count)]


def test_lars_without_trust_is_sgd():
    ours = parameters((3, 4), (5,))
    theirs = copy.deepcopy(ours)
    gradients = random_gradients(ours)
    lars = LARS([{"params": ours, "is_weight": False}], lr=0.1, momentum=0.9, weight_decay=0.02)
    steps(lars, ours, gradients)
    sgd = torch.optim.SGD(theirs, lr=0.1, momentum=0.9, weight_decay=0.02)
    steps(sgd, theirs, gradients)
    for p, q in zip(ours, theirs, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-12, atol=1e-12)


def norm(values):
    return math.sqrt(sum(value * value for value in values))


def literal_lars(theta, gradients, lr, momentum, decay, trust):
    """You et al., 2017, over the flat list of one layer's weights."""
    velocity = [0.0] * len(theta)
    for gradient in gradients:
        g = [gi + decay * ti for gi, ti in zip(gradient, theta, strict=True)]
        q = trust * norm(theta) / norm(g)
        velocity = [momentum * v + q * gi for v, gi in zip(velocity, g, strict=True)]
        theta = [t - lr * v for t, v in zip(theta, velocity, strict=True)]
    return theta


@pytest.mark.parametrize("shape", [(4, 3), (5, 3, 2, 2), (2, 4, 3)])
def test_lars_takes_each_tensor_as_a_layer(shape):
    (weight,) = parameters(shape)
    gradients = random_gradients([weight])
    flat = [g.flatten().tolist() for (g,) in gradients]
    expected = literal_lars(weight.detach().flatten().tolist(), flat, 0.3, 0.9, 0.05, 0.02)
    lars = LARS([weight], lr=0.3, momentum=0.9, weight_decay=0.05, trust=0.02)
    steps(lars, [weight], gradients)
    assert weight.flatten().tolist() == pytest.approx(expected, rel=1e-10)


def test_lars_takes_each_head_as_a_layer():
    (weight,) = parameters((3, 4, 2))
    with torch.no_grad():
        weight.mul_(torch.tensor([1.0, 10.0, 0.1]).view(3, 1, 1))  # heads of unlike size
    gradients = random_gradients([weight])
    options = {"lr": 0.3, "momentum": 0.9, "weight_decay": 0.05, "trust": 0.02}
    expected = [
        literal_lars(
            weight[c].flatten().tolist(),
            [g[c].flatten().tolist() for (g,) in gradients],
            *(0.3, 0.9, 0.05, 0.02),
        )
        for c in range(3)
    ]
    layers = [nn.Parameter(weight[c].detach().clone()) for c in range(3)]
    steps(LARS(layers, **options), layers, [list(g) for (g,) in gradients])
    steps(LARS([{"params": [weight], "per_head": True}], **options), [weight], gradients)
    for c in range(3):
        assert weight[c].flatten().tolist() == pytest.approx(expected[c], rel=1e-10)
        torch.testing.assert_close(weight[c], layers[c], rtol=1e-12, atol=1e-12)


def test_lars_of_a_method_moves_heads_as_it_would_move_layers():
    method = small_method(SimCLRSettings(heads=2, projector=(8, 6)))
    settings = OptimizerSettings(name="lars", lr=2.0, weight_decay=0.1)
    lars = make_optimizer(method, settings, 256)
    weight, bias = method.heads.layers[0].weight, method.heads.layers[0].bias
    weight.grad, bias.grad = torch.randn_like(weight), torch.randn_like(bias)
    old, old_bias = weight.detach().clone(), bias.detach().clone()
    lars.step()
    for c in range(2):
        step = weight.grad[c] + 0.1 * old[c]
        moved = old[c] - 2.0 * 0.001 * old[c].norm() / step.norm() * step
        torch.testing.assert_close(weight[c], moved)
    torch.testing.assert_close(bias, old_bias - 2.0 * bias.grad)


def test_lars_of_zero_weights_or_a_zero_gradient():
    zero = nn.Parameter(torch.zeros(3, 2))
    still = nn.Parameter(torch.ones(3, 2))
    idle = nn.Parameter(torch.ones(3, 2))
    gradient = torch.randn(3, 2)
    lars = LARS([zero, still, idle], lr=0.1)
    zero.grad, still.grad = gradient.clone(), torch.zeros(3, 2)
    lars.step()
    torch.testing.assert_close(zero.detach(), -0.1 * gradient)  # no size to go by: plain SGD
    assert torch.equal(still, torch.ones(3, 2))
    assert torch.equal(idle, torch.ones(3, 2))
    assert idle not in lars.state


def test_lars_calls_a_closure_with_gradient():
    (weight,) = parameters((3, 2))
    before = weight.detach().clone()
    lars = LARS([weight], lr=0.1)

    def closure():
        loss = weight.square().sum()
        loss.backward()
        return loss

    torch.testing.assert_close(lars.step(closure), before.square().sum())
    assert not torch.equal(weight, before)


@pytest.mark.parametrize("optimizer", ["sgd", "lars", "adamw"])
def test_state_dict_goes_on_where_it_stopped(optimizer):
    settings = OptimizerSettings(name=optimizer, lr=0.1)
    method = simsiam()
    params = list(method.parameters())
    first = make_optimizer(method, settings, 256)
    steps(first, params, random_gradients(params, 2))
    set_lr(first, 0.1, 0.5)

    other = copy.deepcopy(method)
    second = make_optimizer(other, settings, 256)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert [g["lr"] for g in second.param_groups] == [g["lr"] for g in first.param_groups]
    more = random_gradients(params, 2)
    steps(first, params, more)
    steps(second, list(other.parameters()), more)
    for p, q in zip(params, other.parameters(), strict=True):
        assert torch.equal(p, q)


@pytest.mark.parametrize("name", ["adamw", "sgd", "lars"])
def test_weight_decay_follows_a_half_cosine_where_there_is_one(name):
    settings = OptimizerSettings(name=name, weight_decay=0.04, final_weight_decay=0.4)
    for progress, expected in ((0.0, 0.04), (0.5, 0.22), (1.0, 0.4)):
        cosine = 0.4 + 0.5 * (0.04 - 0.4) * (1 + math.cos(math.pi * progress))  # DINO's code
        assert settings.decay(progress) == pytest.approx(expected) == pytest.approx(cosine)
    assert OptimizerSettings(weight_decay=0.04).decay(0.7) == 0.04
    optimizer = make_optimizer(simsiam(), settings, 256)
    set_weight_decay(optimizer, 0.3)
    decays = {group["is_weight"]: group["weight_decay"] for group in optimizer.param_groups}
    assert decays == {True: 0.3, False: 0.0}


def test_a_final_weight_decay_is_checked():
    with pytest.raises(ValueError, match="final_weight_decay must be a finite number"):
        OptimizerSettings(final_weight_decay=-0.1)


@pytest.mark.parametrize("unit_length", [True, False])
def test_prototypes_decay_and_are_layers_of_their_heads(unit_length):
    """The lengths too, which have two dimensions in the original."""
    method = small_method(
        DINOSettings(heads=2, projector=(8, 6), prototypes=9, prototype_unit_length=unit_length)
    )
    groups = group_of(method, OptimizerSettings(name="lars", weight_decay=0.1))
    names = [name for name in groups if name.startswith("prototypes")]
    assert len(names) == (1 if unit_length else 2)
    for name in names:
        assert groups[name]["weight_decay"] == 0.1
        assert groups[name]["per_head"]
    assert not any(name.startswith("teacher") for name in groups)
