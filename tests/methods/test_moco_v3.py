"""MoCo v3 written out query by query, and LGP: MoCo v3 held near the weights it starts from."""

import copy
import math

import pytest
import torch
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.config import OptimizerSettings
from amcl.methods import LGPSettings, MoCoV3Settings, make_method
from amcl.training.optimizers import parameter_groups
from factories import method_settings
from reference import masked as literal

IMAGES, SIZE, DEPTH = 5, 16, 6
BACKBONES = {
    "vit": BackboneSettings(name="test_vit", patch=4, pool="mean"),
    "resnet": BackboneSettings(name="resnet10t", width=0.125),
}
BOTH = ["mocov3", "lgp"]
POSITIONS, PATCHES = "backbone.network.pos_embed", "backbone.network.patch_embed."


def make(name="mocov3", on="vit", **options):
    small = {"projector": (8, 7, 5), "predictor": 6}
    backbone = Backbone(BACKBONES[on], SIZE)
    return make_method(method_settings(name, **small | options), backbone).double()


def views():
    return torch.randn(2, IMAGES, 3, SIZE, SIZE, dtype=torch.float64)


def shaken(method):
    """Let what trains be unlike its start, and the key encoder unlike the query encoder."""
    with torch.no_grad():
        for p in method.parameters():
            if p.requires_grad:
                p.add_(torch.randn_like(p), alpha=0.1)
    return method


def query_weights(method):
    return method.backbone.state_dict(), method.heads.state_dict()


def key_weights(method):
    backbone, heads = method.keys.module
    return backbone.state_dict(), heads.state_dict()


def assert_equal(states, others):
    for state, other in zip(states, others, strict=True):
        assert state.keys() == other.keys()
        for name, value in state.items():
            assert torch.equal(value, other[name]), name


# the loss


def ctr(queries, keys, tau):
    """Each query finds its key among the keys of the batch, query by query."""
    losses = []
    for i, query in enumerate(queries):
        logits = [query @ key / (query.norm() * key.norm() * tau) for key in keys]
        losses.append(torch.stack(logits).exp().sum().log() - logits[i])
    return sum(losses) / len(losses)


def written_out(method, x, tau, scale):
    """scale · (ctr(q₀, k₁) + ctr(q₁, k₀)), over heads their mean."""
    total, heads = 0.0, method.heads.num_heads
    backbone, slow_backbone = method.backbone, method.keys.module[0]
    for c in range(heads):
        g, predict = method.heads.head(c), method.predictors.head(c)
        slow_g = method.keys.module[1].head(c)
        q0, q1 = (predict(g(backbone(view))) for view in x)
        k0, k1 = (slow_g(slow_backbone(view)).detach() for view in x)
        total = total + scale * (ctr(q0, k1, tau) + ctr(q1, k0, tau)) / heads
    return total


@pytest.mark.parametrize("on", BACKBONES)
@pytest.mark.parametrize("heads", [1, 3])
def test_the_loss_is_2_tau_times_the_contrast_of_predictions_and_keys(heads, on):
    method, x = shaken(make(on=on, tau=0.3, heads=heads)), views()
    loss, expected = method(x), written_out(method, x, 0.3, 2 * 0.3)
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-12)
    weights = {n: p for n, p in method.backbone.named_parameters() if p.requires_grad}
    got = torch.autograd.grad(loss, list(weights.values()))
    wanted = torch.autograd.grad(expected, list(weights.values()))
    for name, g, w in zip(weights, got, wanted, strict=True):
        assert w.abs().max() > 0, name
        torch.testing.assert_close(g, w, rtol=1e-7, atol=1e-10, msg=name)


def test_lgp_has_the_loss_of_moco_v3():
    lgp, x = shaken(make("lgp", tau=0.3, heads=2)), views()
    torch.testing.assert_close(lgp(x), written_out(lgp, x, 0.3, 2 * 0.3))


@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ({}, 0.4),
        ({"tau": 0.3}, 0.6),
        ({"tau": 0.3, "temperature": "learnable"}, 0.6),
        ({"tau_upper": 0.5, "temperature": "scheduled"}, 0.6),  # twice the middle of the range
        ({"tau": 0.3, "temperature": "uncertainty"}, 0.6),
        ({"tau": 0.3, "temperature": "adaptive"}, 0.6),
        ({"tau": 0.3, "temperature": "adaptive", "prior_tau": 0.7}, 1.4),
        ({"tau": 0.3, "temperature": "adaptive-positive", "prior_tau": 0.7}, 1.4),
        ({"tau": 0.3, "temperature": "adaptive-negative", "prior_tau": 0.7}, 1.4),
        ({"tau": 0.3, "temperature": "first-head", "prior_tau": 0.7}, 1.4),
        ({"temperature": "adaptive", "prior_tau": "literal"}, 2 * 2 / 5),  # D = 5
    ],
)
def test_the_scale_is_2_tau_or_where_pairs_have_their_own_2_prior_tau(options, scale):
    method, x = shaken(make(on="resnet", **options)), views()
    assert method.scale == pytest.approx(scale)
    q0, q1 = (method.predictors(method.heads(method.backbone(view))) for view in x)
    k0, k1 = (method.keys(view) for view in x)
    expected = scale * (method.loss(q0, k1) + method.loss(q1, k0))
    torch.testing.assert_close(method(x), expected)


# encoders


@pytest.mark.parametrize("name", BOTH)
def test_momentum_rises_to_1_and_keys_follow_with_it(name):
    method = shaken(make(name))
    for progress in (0.0, 0.3, 0.5, 0.9, 1.0):
        momentum = 1 - 0.5 * (1 + math.cos(math.pi * progress)) * (1 - 0.99)
        old = [p.clone() for p in method.keys.parameters()]
        method.before_step(0.0, progress)
        assert method.momentum == pytest.approx(momentum, abs=1e-12)
        method.after_step()
        new = [*method.backbone.parameters(), *method.heads.parameters()]
        for key, o, n in zip(method.keys.parameters(), old, new, strict=True):
            torch.testing.assert_close(key, momentum * o + (1 - momentum) * n.detach())


def test_keys_are_backbone_and_projector_without_predictor():
    method, x = make(heads=2), views()[0]
    counts = [sum(p.numel() for p in part.parameters()) for part in (method.backbone, method.heads)]
    assert sum(p.numel() for p in method.keys.parameters()) == sum(counts)
    keys = method.keys(x)
    torch.testing.assert_close(keys, method.project(x))
    assert not keys.requires_grad
    assert (keys - method.predictors(method.project(x))).abs().max() > 0.1


@pytest.mark.parametrize("name", BOTH)
def test_heads_have_no_bias_and_end_in_a_norm_without_scale(name):
    method = make(name, heads=2)
    for heads, widths in ((method.heads, (64, 8, 7, 5)), (method.predictors, (5, 6, 5))):
        layers = list(heads.head(0))
        kinds = [nn.Linear, nn.BatchNorm1d, nn.ReLU] * (len(widths) - 2)
        assert [type(layer) for layer in layers] == [*kinds, nn.Linear, nn.BatchNorm1d]
        linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
        assert [layer.in_features for layer in linears] == list(widths[:-1])
        assert [layer.out_features for layer in linears] == list(widths[1:])
        assert all(layer.bias is None for layer in linears)
        norms = [layer.affine for layer in layers if isinstance(layer, nn.BatchNorm1d)]
        assert norms == [True] * (len(norms) - 1) + [False]


@pytest.mark.parametrize("settings", [MoCoV3Settings(), LGPSettings()])
def test_published_settings(settings):
    assert settings.projector == (4096, 4096, 256)
    assert settings.predictor == 4096
    assert (settings.temperature.tau, settings.momentum, settings.momentum_end) == (0.2, 0.99, 1.0)
    assert settings.fixed_positions
    assert settings.freeze_patches == (settings.name == "mocov3")


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("name", BOTH)
def test_a_frozen_patch_embedding_neither_learns_nor_is_in_a_group(name, frozen):
    method = make(name, freeze_patches=frozen)
    method(views()).backward()
    grouped = {id(p) for g in parameter_groups(method, OptimizerSettings()) for p in g["params"]}
    patches = {n: p for n, p in method.named_parameters() if n.startswith(PATCHES)}
    assert patches
    for key, parameter in patches.items():
        assert (parameter.grad is None) == frozen, key
        assert (id(parameter) not in grouped) == frozen, key
    assert id(method.backbone.network.cls_token) in grouped


@pytest.mark.parametrize("name", BOTH)
def test_positions_are_fixed_sines_and_cosines_unless_they_train(name):
    fixed, free = (make(name, fixed_positions=yes).backbone.network for yes in (True, False))
    expected = torch.tensor(literal.positions(64, 4, 4, True), dtype=torch.float64)
    torch.testing.assert_close(fixed.pos_embed[0], expected, rtol=0, atol=1e-6)
    assert not fixed.pos_embed.requires_grad
    assert free.pos_embed.requires_grad
    assert (free.pos_embed - fixed.pos_embed).abs().max() > 0.5


@pytest.mark.parametrize("name", BOTH)
def test_drawn_weights_are_those_of_keys_too(name):
    method = shaken(make(name))
    heads = copy.deepcopy(method.heads.state_dict())
    method.init_weights()
    assert_equal(query_weights(method), key_weights(method))
    assert_equal([heads], [method.heads.state_dict()])
    bound = math.sqrt(6 / (64 + 64))  # queries, keys and values are a layer each
    for weight in method.backbone.network.blocks[0].attn.qkv.weight.chunk(3):
        assert weight.abs().max().item() == pytest.approx(bound, rel=0.02)


def test_a_resnet_keeps_the_weights_it_was_made_with():
    method = make(on="resnet")
    before = copy.deepcopy(query_weights(method))
    method.init_weights()
    assert_equal(query_weights(method), before)
    assert all(p.requires_grad for p in method.backbone.parameters())


@pytest.mark.parametrize(("name", "on"), [("mocov3", "vit"), ("mocov3", "resnet"), ("lgp", "vit")])
def test_both_encoders_start_from_given_weights_and_heads_do_not(name, on):
    method = shaken(make(name, on=on))
    given = Backbone(BACKBONES[on], SIZE).double().network.state_dict()
    heads = copy.deepcopy(method.heads.state_dict())
    predictors = copy.deepcopy(method.predictors.state_dict())
    method.load_backbone(given, "a run")
    for backbone in (method.backbone, method.keys.module[0]):
        assert_equal([backbone.network.state_dict()], [given])
    assert_equal(
        [heads, heads, predictors],
        [method.heads.state_dict(), key_weights(method)[1], method.predictors.state_dict()],
    )
    assert not any(p.requires_grad for p in method.keys.parameters())


def test_weights_of_another_network_are_refused():
    given = Backbone(BACKBONES["resnet"], SIZE).network.state_dict()
    with pytest.raises(ValueError, match=r"the weights in a run are not those of test_vit"):
        make().load_backbone(given, "a run")


# LGP


def pulled(method):
    """Names of embeddings and of the first half of the blocks."""
    starts = [f"backbone.network.blocks.{i}." for i in range(DEPTH // 2)]
    starts += [PATCHES, "backbone.network.cls_token"]
    return [n for n, _ in method.named_parameters() if n.startswith(tuple(starts))]


def started(pull=0.01, **options):
    """LGP that has gone some way from the weights it started from, and those weights."""
    method = make("lgp", pull=pull, **options)
    method.init_weights()
    method.load_backbone(Backbone(BACKBONES["vit"], SIZE).double().network.state_dict(), "a run")
    start = {name: p.detach().clone() for name, p in method.named_parameters()}
    return shaken(method), start


def test_the_pull_is_the_distance_of_embeddings_and_lower_blocks_from_the_start():
    method, start = started()
    x = views()
    now = dict(method.named_parameters())
    assert len(pulled(method)) == 2 + 1 + 3 * 12
    distance = sum((now[n] - start[n]).abs().sum().item() for n in pulled(method))
    free = make("lgp")
    free.load_state_dict(method.state_dict(), strict=False)
    loss = method(x, watch=True)
    assert loss.item() == pytest.approx(free(x).item() + 0.01 * distance, rel=1e-9)
    assert method.log_metrics()["term/distance"] == pytest.approx(distance)


def test_the_pull_is_nothing_at_the_start():
    method, _ = started()
    method.load_backbone(Backbone(BACKBONES["vit"], SIZE).double().network.state_dict(), "a run")
    free, x = make("lgp"), views()
    free.load_state_dict(method.state_dict(), strict=False)
    torch.testing.assert_close(method(x, watch=True), free(x), rtol=0, atol=0)
    assert method.terms["distance"] == 0


def test_the_gradient_of_the_pull_is_its_sign():
    method, start = started()
    free, x = make("lgp"), views()
    free.load_state_dict(method.state_dict(), strict=False)
    method(x).backward()
    free(x).backward()
    others = dict(free.named_parameters())
    for name, parameter in method.named_parameters():
        if parameter.requires_grad:
            sign = (parameter.detach() - start[name]).sign() if name in pulled(method) else 0.0
            expected = others[name].grad + 0.01 * sign
            torch.testing.assert_close(parameter.grad, expected, rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize(
    ("options", "held"),
    [
        ({}, 2 + 1 + 36),
        ({"fixed_positions": False}, 2 + 1 + 36 + 1),
        ({"freeze_patches": True}, 1 + 36),
    ],
)
def test_only_what_trains_is_pulled(options, held):
    assert len(list(make("lgp", pull=0.1, **options).anchor.buffers())) == held


def anchors(method):
    return {n: v for n, v in method.state_dict().items() if n.startswith("anchor.")}


def test_anchors_are_state_and_do_not_train():
    method, _ = started()
    assert len(anchors(method)) == len(pulled(method))
    assert not any(n.startswith("anchor.") for n, _ in method.named_parameters())
    again, x = make("lgp", pull=0.01), views()
    again.load_state_dict(method.state_dict(), strict=True)
    torch.testing.assert_close(again(x), method(x), rtol=0, atol=0)


def test_without_a_pull_nothing_is_remembered():
    method = make("lgp")
    assert method.anchor is None
    assert not anchors(method)
    method(views(), watch=True)
    assert method.terms == {}


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (MoCoV3Settings, {"predictor": 0}, "predictor must be a whole number, at least 1, got 0"),
        (MoCoV3Settings, {"momentum": 1.01}, r"momentum must lie in \[0, 1\], got 1.01"),
        (LGPSettings, {"thirds": (0.1, -1.0, 1.0)}, "thirds must be a finite number, at least 0"),
        (LGPSettings, {"pull": -1e-5}, "pull must be a finite number, at least 0, got -1e-05: 0"),
        (LGPSettings, {"mae_epochs": 0}, "mae_epochs must be a whole number"),
        (LGPSettings, {"mae_lr": 0.0}, "mae_lr must be a finite number above 0"),
    ],
)
def test_settings_are_checked(cls, options, message):
    with pytest.raises(ValueError, match=message):
        cls(**options)
