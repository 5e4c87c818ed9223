"""Methods are the published ones with one head and a constant temperature, AMCL with more."""

import math

import pytest
import torch
import torch.nn.functional as F
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.methods import METHODS, make_method
from amcl.seeds import generator
from factories import method_settings

IMAGES, SIZE = 6, 4
SCHEMES = (
    "constant",
    "learnable",
    "adaptive",
    "adaptive-positive",
    "adaptive-negative",
    "first-head",
    "uncertainty",
    "scheduled",
)
REFUSED = {("simsiam", "uncertainty"), ("simsiam", "adaptive-negative")}
WITH_HEADS = [name for name in METHODS if METHODS[name].settings_class.has_heads]
ACCEPTED = [(m, s) for m in WITH_HEADS for s in SCHEMES if (m, s) not in REFUSED]

POSITIONS, PATCHES = "backbone.network.pos_embed", "backbone.network.patch_embed."
UNTRAINED = {
    "moco": ("keys.",),
    "mae": (POSITIONS,),
    "can": (POSITIONS,),
    "mocov3": ("keys.", POSITIONS, PATCHES),
    "lgp": ("keys.", POSITIONS),
}


class Flat(nn.Module):
    """The least of a backbone."""

    dim = 7

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3 * SIZE * SIZE, self.dim)

    def forward(self, images):
        return self.layer(images.flatten(1)).relu()


class Patched(nn.Module):
    """The least of a vision transformer."""

    dim = 8

    def __init__(self):
        super().__init__()
        self.network = VisionTransformer(
            SIZE, 1, num_classes=0, embed_dim=self.dim, depth=2, num_heads=2, mlp_ratio=2
        )

    def forward(self, images):
        return self.network(images)


DECODER = {"decoder_dim": 8, "decoder_depth": 1, "decoder_heads": 2}
SMALL = {
    "simclr": (Flat, {"projector": (8, 5)}),
    "moco": (Flat, {"projector": (8, 5), "queue": 16}),
    "simsiam": (Flat, {"projector": (8, 5), "predictor": 4}),
    "barlow": (Flat, {"projector": (8, 8, 5)}),
    "mae": (Patched, DECODER),
    "can": (Patched, {"projector": (8, 5), **DECODER}),
    "mocov3": (Patched, {"projector": (8, 5), "predictor": 4}),
    "lgp": (Patched, {"projector": (8, 5), "predictor": 4}),
}


def settings_of(name, **options):
    return method_settings(name, **SMALL[name][1] | options)


def make(name, **options):
    backbone, _ = SMALL[name]
    return make_method(settings_of(name, **options), backbone()).double()


def views():
    return torch.randn(2, IMAGES, 3, SIZE, SIZE, dtype=torch.float64)


def loss_of(method, views, **options):
    """The loss of as many views as the method takes, with the same masks and noise each time."""
    drawn = method.draw(views.shape[1], generator("drawn"))
    beside = {} if drawn is None else {"drawn": drawn}
    return method(views[: method.num_views], **beside, **options)


def singles(heads):
    return [heads.head(c) for c in range(heads.num_heads)]


def nt_xent(z0, z1, tau):
    """SimCLR: each of 2N views finds its partner among the 2N − 1 others."""
    z = F.normalize(torch.cat([z0, z1]), dim=1)
    logits = (z @ z.T / tau).fill_diagonal_(-math.inf)
    return F.cross_entropy(logits, torch.arange(2 * IMAGES).roll(IMAGES))


def info_nce(q, k, queue, tau):
    """MoCo: each query finds its key among it and the queue."""
    q, k, queue = (F.normalize(x, dim=1) for x in (q, k, queue))
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.T], dim=1) / tau
    return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


def batch_info_nce(q, k, tau):
    """MoCo v3: each query finds its key among the batch's keys."""
    logits = F.normalize(q, dim=1) @ F.normalize(k, dim=1).T / tau
    return F.cross_entropy(logits, torch.arange(len(q)))


def barlow_twins(z0, z1, lam):
    norm = nn.BatchNorm1d(z0.shape[1], affine=False).double()
    c = norm(z0).T @ norm(z1) / len(z0)
    off = c - torch.diag(c.diagonal())
    return (c.diagonal() - 1).square().sum() + lam * off.square().sum()


def assert_same_loss_and_gradient(method, loss, expected):
    """`expected` is a function of the weights of backbone alone, whose gradient is compared."""
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-12)
    weights = list(method.backbone.parameters())
    got = torch.autograd.grad(loss, weights)
    wanted = torch.autograd.grad(expected, weights)
    for g, w in zip(got, wanted, strict=True):
        assert w.abs().max() > 0
        torch.testing.assert_close(g, w, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("heads", [1, 3])
def test_simclr_is_nt_xent(heads):
    method, (x0, x1) = make("simclr", tau=0.3, heads=heads), views()
    h0, h1 = method.backbone(x0), method.backbone(x1)
    losses = [nt_xent(g(h0), g(h1), 0.3) for g in singles(method.heads)]
    assert_same_loss_and_gradient(method, method([x0, x1]), sum(losses) / heads)


def part_encoders(method):
    """Let the key encoder be unlike the query encoder."""
    with torch.no_grad():
        for p in [*method.backbone.parameters(), *method.heads.parameters()]:
            p.add_(0.3 * torch.randn_like(p))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
def test_moco_is_info_nce_over_the_queue(heads, symmetric):
    method = make("moco", tau=0.2, heads=heads, symmetric=symmetric)
    part_encoders(method)
    x0, x1 = views()
    backbone, old_backbone = method.backbone, method.keys.module[0]
    losses = []
    for c in range(heads):
        g, old_g = method.heads.head(c), method.keys.module[1].head(c)
        queue = method.queue.z[c].clone()
        forth = info_nce(g(backbone(x0)), old_g(old_backbone(x1)), queue, 0.2)
        back = info_nce(g(backbone(x1)), old_g(old_backbone(x0)), queue, 0.2)
        losses.append(0.5 * (forth + back) if symmetric else forth)
    assert_same_loss_and_gradient(method, method([x0, x1]), sum(losses) / heads)


def test_moco_without_a_queue_contrasts_with_the_keys_of_the_batch():
    method, (x0, x1) = make("moco", tau=0.2, queue=0), views()
    part_encoders(method)
    q0, q1 = method.project(x0)[0], method.project(x1)[0]
    k0, k1 = method.keys(x0)[0], method.keys(x1)[0]
    expected = 0.5 * (batch_info_nce(q0, k1, 0.2) + batch_info_nce(q1, k0, 0.2))
    assert_same_loss_and_gradient(method, method([x0, x1]), expected)
    method.after_step()
    assert not any("queue" in name for name in method.state_dict())


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
def test_simsiam_is_the_negative_cosine_with_fixed_targets(heads, shared):
    method = make("simsiam", heads=heads, shared_projector=shared)
    assert method.heads.num_heads == (1 if shared else heads)
    x0, x1 = views()
    losses = []
    for c in range(heads):
        f, p = method.heads.head(0 if shared else c), method.predictors.head(c)
        z0, z1 = f(method.backbone(x0)), f(method.backbone(x1))
        cosines = F.cosine_similarity(p(z0), z1.detach()), F.cosine_similarity(p(z1), z0.detach())
        losses.append(-0.5 * cosines[0].mean() - 0.5 * cosines[1].mean())
    assert_same_loss_and_gradient(method, method([x0, x1]), sum(losses) / heads)


@pytest.mark.parametrize("heads", [1, 3])
def test_barlow_twins_is_the_cross_correlation(heads):
    method, (x0, x1) = make("barlow", lam=0.03, heads=heads, loss_scale=0.1), views()
    h0, h1 = method.backbone(x0), method.backbone(x1)
    losses = [barlow_twins(g(h0), g(h1), 0.03) for g in singles(method.heads)]
    assert_same_loss_and_gradient(method, method([x0, x1]), 0.1 * sum(losses) / heads)


CONTRAST_ALONE = {"can": {"reconstruction_weight": 0.0, "denoising_weight": 0.0}}


@pytest.mark.parametrize("name", WITH_HEADS)
def test_losses_of_heads_are_averaged_or_as_printed_summed(name):
    options = {"heads": 3} | CONTRAST_ALONE.get(name, {})
    mean, total = make(name, **options), make(name, head_reduction="sum", **options)
    total.load_state_dict(mean.state_dict())
    x = views()
    torch.testing.assert_close(3 * loss_of(mean, x), loss_of(total, x))


@pytest.mark.parametrize("name", WITH_HEADS)
def test_base_and_amcl_are_one_class(name):
    base, amcl = make(name), make(name, heads=3, temperature="adaptive")
    assert type(base) is type(amcl) is METHODS[name]
    phi = [n for n, _ in amcl.named_parameters() if n.startswith("loss.temperature")]
    assert phi  # it is trained with the rest
    assert not any(n.startswith("loss.temperature") for n, _ in base.named_parameters())


def assert_trained(method, name):
    """Every parameter gets a gradient, but those that are fixed by right."""
    method.before_step(epoch=1.5, progress=0.1)
    loss = loss_of(method, views())
    assert loss.shape == ()
    loss.backward()
    for key, parameter in method.named_parameters():
        assert parameter.requires_grad != key.startswith(UNTRAINED.get(name, ())), key
        if not parameter.requires_grad:
            assert parameter.grad is None, key
            continue
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        if parameter.ndim != 1:  # biases before a norm get zero by right
            assert parameter.grad.abs().max() > 1e-12, key
    method.after_step()


@pytest.mark.parametrize(("name", "scheme"), ACCEPTED)
def test_every_trained_parameter_gets_a_gradient(name, scheme):
    assert_trained(make(name, heads=2, temperature=scheme), name)


def test_every_trained_parameter_gets_a_gradient_without_heads():
    assert_trained(make("mae"), "mae")


RESNET = BackboneSettings(name="resnet10t", width=0.125)
VIT = BackboneSettings(name="test_vit", patch=4, pool="mean")


@pytest.mark.parametrize("name", METHODS)
def test_training_on_a_real_backbone_lowers_the_loss(name):
    backbone = Backbone(VIT if SMALL[name][0] is Patched else RESNET, image_size=16)
    amcl = {"heads": 2, "temperature": "adaptive"} if name in WITH_HEADS else {}
    method = make_method(settings_of(name, **amcl), backbone)
    optimizer = torch.optim.SGD((p for p in method.parameters() if p.requires_grad), lr=0.02)
    x = torch.randn(2, 8, 3, 16, 16)
    losses = []
    for step in range(6):
        method.before_step(step, step / 6)
        loss = loss_of(method, x)
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in method.parameters() if p.requires_grad)
        optimizer.step()
        losses.append(loss.item())  # MoCo's queue is left as it was, so that losses compare
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", WITH_HEADS)
def test_a_scheduled_temperature_is_told_the_epoch(name):
    limits = {"tau_lower": 0.6, "tau_upper": 1.3, "tau_period": 10.0}
    swinging, x = make(name, temperature="scheduled", **limits), views()
    for epoch, tau in ((0.0, 1.3), (5.0, 0.6), (2.5, 0.95)):
        constant = make(name, tau=tau)
        constant.load_state_dict(swinging.state_dict(), strict=False)
        swinging.before_step(epoch, 0.0)
        # MoCo v3 multiplies its loss by 2τ, where τ is the one of its settings.
        losses = [loss_of(m, x) / getattr(m, "scale", 1.0) for m in (swinging, constant)]
        torch.testing.assert_close(*losses)


@pytest.mark.parametrize("name", METHODS)
def test_watching_leaves_statistics_and_the_same_loss(name):
    with_heads = name in WITH_HEADS
    amcl = {"heads": 2, "temperature": "adaptive"} if with_heads else {}
    method, x = make(name, **amcl), views()
    loss = loss_of(method, x)
    assert method.log_metrics() == {}
    torch.testing.assert_close(loss_of(method, x, watch=True), loss)
    assert not with_heads or method.stats.positive.s.shape == (2,)
    assert with_heads or method.terms["reconstruction"] == loss
    measured = method.log_metrics()
    assert measured
    assert all(math.isfinite(value) for value in measured.values())


@pytest.mark.parametrize("name", WITH_HEADS)
def test_project_gives_the_heads_outputs(name):
    method, (x0, _) = make(name, heads=1), views()
    assert method.project(x0).shape == (1, IMAGES, 5)
    h = method.backbone(x0)
    torch.testing.assert_close(method.project(x0)[0], method.heads.head(0)(h))


def compared_by_hand(method, name, x0, x1, c):
    """What head c compares of two views, as the papers have it."""
    first, second = (method.backbone(x) for x in (x0, x1))
    if name == "simsiam":
        project, predict = method.heads.head(c % method.heads.num_heads), method.predictors.head(c)
        return predict(project(first)), project(second)
    project = method.heads.head(c)
    if name in ("simclr", "barlow", "can"):
        return project(first), project(second)
    slow_backbone, slow_heads = method.keys.module
    key = slow_heads.head(c)(slow_backbone(x1))
    if name == "moco":
        return project(first), key
    return method.predictors.head(c)(project(first)), key


@pytest.mark.parametrize("name", WITH_HEADS)
@pytest.mark.parametrize("options", [{}, {"temperature": "uncertainty"}])
def test_methods_say_what_their_loss_compares(name, options):
    options = {} if name == "simsiam" else options
    method, (x0, x1) = make(name, heads=2, **options).eval(), views()
    part_encoders(method)
    z0, z1 = method.compared([x0, x1])
    width = 5 + method.loss.temperature.extra_outputs
    assert z0.shape == z1.shape == (2, IMAGES, width)
    for c in range(2):
        expected = compared_by_hand(method, name, x0, x1, c)
        torch.testing.assert_close((z0[c], z1[c]), expected)


def test_simsiam_with_a_projector_a_head_compares_with_each():
    method, (x0, x1) = make("simsiam", heads=2, shared_projector=False).eval(), views()
    z0, z1 = method.compared([x0, x1])
    for c in range(2):
        expected = compared_by_hand(method, "simsiam", x0, x1, c)
        torch.testing.assert_close((z0[c], z1[c]), expected)


@pytest.mark.parametrize("name", ["simclr", "moco", "mocov3", "lgp", "simsiam", "barlow"])
def test_pairs_compared_are_those_of_the_loss(name):
    """The statistics of a step, which the loss keeps itself, are those of the pair matrix."""
    options = {"symmetric": False, "queue": 0} if name == "moco" else {}
    method = make(name, heads=2, temperature="adaptive", **options).eval()
    x0, x1 = views()
    method([x0, x1], watch=True)
    matrices = [method.loss.pair_matrix(*method.compared([x0, x1]))]
    if name in ("simclr", "simsiam"):  # whose statistics are of both directions
        matrices.append(method.loss.pair_matrix(*method.compared([x1, x0])))
    own = torch.stack([m.tau.diagonal(dim1=1, dim2=2).mean(1) for m in matrices]).mean(0)
    torch.testing.assert_close(own, method.stats.positive.tau)
    s = torch.stack([m.s.diagonal(dim1=1, dim2=2).mean(1) for m in matrices]).mean(0)
    torch.testing.assert_close(s, method.stats.positive.s)


@pytest.mark.parametrize("name", [n for n in WITH_HEADS if (n, "uncertainty") not in REFUSED])
def test_tau_makes_heads_one_wider(name):
    plain, tau = make(name), make(name, temperature="uncertainty")
    assert plain.heads.widths[-1] == 5
    assert tau.heads.widths[-1] == 6
    if name == "moco":
        assert tau.queue.z.shape == (1, 16, 6)


def test_settings_reach_the_temperature_and_the_loss():
    method = make(
        "simclr",
        temperature="adaptive",
        tau_lower=0.2,
        tau_upper=0.7,
        beta=0.3,
        prior_tau=0.25,
        phi_depth=2,
        phi_scale=3.0,
        phi_gradient=False,
        form="top_k",
        top_k=3,
        positive_in_denominator=False,
    )
    loss = method.loss
    assert (loss.temperature.eta, loss.temperature.iota) == pytest.approx((0.2, 0.5))
    assert loss.temperature.phi_scale == 3.0
    assert not loss.temperature.phi_gradient
    linears = [layer for layer in loss.temperature.phi if isinstance(layer, nn.Linear)]
    assert [layer.in_features for layer in linears] == [5, 5]
    assert (loss.beta, loss.prior_tau) == (0.3, 0.25)
    assert (loss.form, loss.top_k, loss.positive_in_denominator) == ("top_k", 3, False)
    assert make("simclr").loss.beta == 0  # no Ω where nothing adapts
    assert make("barlow", temperature="first-head", beta=0.3).loss.beta == 0.3
    paper = make("simclr", temperature="adaptive", omega_place="outside", omega_set="literal")
    assert (paper.loss.omega_place, paper.loss.omega_set) == ("outside", "literal")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (0.05, 0.15)),
        ({"tau": 0.2}, (0.1, 0.3)),  # τ₀ is the method's own τ
        ({"tau": 0.2, "prior_tau": 0.3}, (0.15, 0.45)),
        ({"prior_tau": "literal"}, (0.2, 0.6)),  # 2/D is 0.4 here
        ({"tau_lower": 0.01}, (0.01, 0.15)),
        ({"prior_tau": 0.3, "tau_upper": 0.2}, (0.15, 0.2)),
        ({"temperature": "scheduled"}, (0.1, 1.0)),
        ({"temperature": "scheduled", "tau_upper": 0.5}, (0.1, 0.5)),
    ],
)
def test_the_range_of_tau_follows_from_its_prior(given, expected):
    settings = method_settings("simclr", **{"temperature": "adaptive", "projector": (8, 5)} | given)
    assert settings.temperature.tau_range(5) == pytest.approx(expected)
    made = settings.make_temperature()
    if settings.adapts:
        assert (made.eta, made.eta + made.iota) == pytest.approx(expected)
    else:
        assert (made.tau_min, made.tau_max) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 0.1),
        ({"tau": 0.2}, 0.2),
        ({"tau": 0.2, "prior_tau": 0.3}, 0.3),
        ({"prior_tau": "literal"}, "literal"),
        ({"tau_lower": 0.5, "tau_upper": 1.5}, 1.0),  # τ lies outside: the middle of the range
    ],
)
def test_the_prior_is_the_temperature_unless_another_is_given(given, expected):
    settings = method_settings("simclr", temperature="adaptive", **given)
    assert settings.temperature.omega(settings.dim)[1] == expected
    assert settings.make_loss("both_views").prior_tau == expected


@pytest.mark.parametrize("name", ["simclr", "simsiam", "barlow"])
def test_every_method_takes_the_literal_prior(name):
    assert make(name, temperature="adaptive", prior_tau="literal").loss.prior_tau == "literal"


@pytest.mark.parametrize(
    ("name", "lower", "upper", "scale", "gradient"),
    [
        ("moco", 0.05, 0.15, 2.0, True),
        ("simsiam", 0.5, 1.5, 2.0, False),
        ("barlow", 0.5, 1.5, 1.0, True),
    ],
)
def test_methods_have_defaults_of_their_own(name, lower, upper, scale, gradient):
    temperature = make(name, temperature="adaptive").loss.temperature
    assert (temperature.eta, temperature.eta + temperature.iota) == pytest.approx((lower, upper))
    assert (temperature.phi_scale, temperature.phi_gradient) == (scale, gradient)


def test_moco_keys_enter_the_queue_after_the_step_in_order():
    method, (x0, x1) = make("moco", heads=2, queue=20), views()
    k0, k1 = method.keys(x0), method.keys(x1)
    before = method.queue.z.clone()
    method([x0, x1]).backward()
    assert torch.equal(method.queue.z, before)  # the backward pass still reads it
    method.after_step()
    torch.testing.assert_close(method.queue.z[:, : 2 * IMAGES], torch.cat([k0, k1], dim=1))
    assert torch.equal(method.queue.z[:, 2 * IMAGES :], before[:, 2 * IMAGES :])
    newer = method.keys(x0), method.keys(x1)
    method([x0, x1])
    method.after_step()
    pushed = torch.cat(newer, dim=1)
    torch.testing.assert_close(method.queue.z[:, 2 * IMAGES :], pushed[:, :8])
    torch.testing.assert_close(method.queue.z[:, :4], pushed[:, 8:])


def test_moco_pushes_every_part_of_an_accumulated_step():
    method = make("moco", queue=16, symmetric=False)
    (a0, a1), (b0, b1) = views(), views()
    expected = torch.cat([method.keys(a1), method.keys(b1)], dim=1)
    method([a0, a1])
    method([b0, b1])
    method.after_step()
    torch.testing.assert_close(method.queue.z[:, : 2 * IMAGES], expected)
    method([a0, a1])
    method.after_step()
    assert method.queue.start == (3 * IMAGES) % 16  # what was pushed before is not pushed again


def test_moco_keeps_no_keys_outside_of_training():
    method = make("moco", queue=2 * IMAGES).eval()
    for _ in range(3):
        method(views())
    method.train()
    method(views())
    method.after_step()
    assert method.queue.start == 0  # the keys of one step went around once


def test_moco_computes_keys_with_the_momentum_of_the_same_step():
    """As MoCo v3's code does: its momentum at a step moves the encoder before that step's keys."""
    method = make("moco", momentum=0.9, momentum_end=1.0)
    part_encoders(method)
    (view, _), old = views(), [p.clone() for p in method.keys.parameters()]
    new = [*method.backbone.parameters(), *method.heads.parameters()]
    method.before_step(0.0, 0.5)
    moved = [0.95 * o + 0.05 * n.detach() for o, n in zip(old, new, strict=True)]
    for key, expected in zip(method.keys.parameters(), moved, strict=True):
        torch.testing.assert_close(key, expected)
    moved = [p.clone() for p in method.keys.parameters()]
    method([view, view])
    method.after_step()
    assert all(map(torch.equal, method.keys.parameters(), moved))


def test_moco_key_encoder_follows_with_the_scheduled_momentum():
    method = make("moco", momentum=0.9, momentum_end=1.0)
    part_encoders(method)
    for progress, momentum in ((0.0, 0.9), (0.5, 0.95), (1.0, 1.0)):
        old = [p.clone() for p in method.keys.parameters()]
        new = [*method.backbone.parameters(), *method.heads.parameters()]
        method.before_step(0.0, progress)
        method(views())
        method.after_step()
        for key, o, n in zip(method.keys.parameters(), old, new, strict=True):
            torch.testing.assert_close(key, momentum * o + (1 - momentum) * n.detach())


def test_moco_momentum_stays_without_an_end():
    method = make("moco", momentum=0.97)
    method.before_step(3.0, 0.7)
    assert method.momentum == 0.97


def test_moco_goes_on_from_its_state_dict():
    method, again = make("moco", heads=2), make("moco", heads=2)
    part_encoders(method)
    method(views())
    method.after_step()
    assert {"queue.z", "queue.start"} <= method.state_dict().keys()
    again.load_state_dict(method.state_dict(), strict=True)
    x0, x1 = views()
    losses = []
    for m in (method, again):
        first = m([x0, x1])
        m.after_step()
        losses.append((first, m([x0, x1])))
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)


def test_moco_queue_must_hold_a_step():
    method = make("moco", queue=2 * IMAGES - 1)
    method(views())
    with pytest.raises(ValueError, match="12 projections a step do not fit into a queue of 11"):
        method.after_step()


def test_simsiam_predictors_keep_their_rate():
    assert make("simsiam").constant_lr_modules()[0].widths == (5, 4, 5)
    assert make("simsiam", fixed_predictor_rate=False).constant_lr_modules() == []
    assert make("simclr").constant_lr_modules() == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("simsiam", {"temperature": "uncertainty"}, "pairs of SimSiam do not start there: choose"),
        ("simsiam", {"temperature": "adaptive-negative"}, "SimSiam has none: choose"),
        ("simsiam", {"predictor": 0}, "predictor must be a whole number"),
        ("simclr", {"temperature": "adaptve"}, "no temperature 'adaptve': did you mean 'adaptive'"),
        ("simclr", {"projector": ()}, "at least one width, such as"),
        ("simclr", {"projector": (512, 0)}, "projector must be a whole number, at least 1"),
        ("simclr", {"heads": 0}, "heads must be a whole number, at least 1, got 0"),
        ("moco", {"momentum": 1.5}, r"momentum must lie in \[0, 1\], got 1.5"),
        ("moco", {"momentum_end": -0.1}, r"momentum_end must lie in \[0, 1\], got -0.1"),
        ("moco", {"queue": -1}, "queue must be 0 or more, got -1"),
        ("barlow", {"loss_scale": 0}, "loss_scale must be a finite number above 0"),
    ],
)
def test_settings_are_checked(name, options, message):
    with pytest.raises(ValueError, match=message):
        method_settings(name, **options)
