"""Methods are the published ones with one head and a constant temperature, AMCL with more."""

import math

import pytest
import torch
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.methods import METHODS, make_method
from amcl.seeds import generator
from amcl.temperature import TEMPERATURES
from toy_methods import (
    IMAGES,
    REFUSED,
    SMALL,
    Patched,
    labels_of,
    make,
    part_encoders,
    settings_of,
    views,
)

SCHEMES = TEMPERATURES.names()
WITH_HEADS = [name for name in METHODS if METHODS[name].settings_class.has_heads]
ACCEPTED = [(m, s) for m in WITH_HEADS for s in SCHEMES if (m, s) not in REFUSED]

POSITIONS, PATCHES = "backbone.network.pos_embed", "backbone.network.patch_embed."
UNTRAINED = {
    "moco": ("keys.",),
    "byol": ("keys.",),
    "dino": ("teacher.", "teacher_prototypes."),
    "mae": (POSITIONS,),
    "can": (POSITIONS,),
    "mocov3": ("keys.", POSITIONS, PATCHES),
    "lgp": ("keys.", POSITIONS),
}


def loss_of(method, views, **options):
    """The loss of as many views as the method takes, with the same masks and noise each time."""
    method.set_num_images(views.shape[1])
    method.set_images(torch.arange(views.shape[1]))
    drawn = method.draw(views.shape[1], generator("drawn"))
    beside = {} if drawn is None else {"drawn": drawn}
    beside |= labels_of(method, views.shape[1])
    return method(views[: method.num_views], **beside, **options)


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


@pytest.mark.parametrize("form", ["dcl", "dclw", "hard", "sigmoid"])
@pytest.mark.parametrize("name", [m for m in METHODS if hasattr(METHODS[m].settings_class, "form")])
def test_every_contrastive_method_has_every_form_of_the_loss(name, form):
    method = make(name, heads=2, temperature="adaptive", form=form)
    assert method.loss.contrast_form.name == form
    assert_trained(method, name)


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
    if name in ("simclr", "barlow", "can", "supcon", "vicreg"):
        return project(first), project(second)
    if name == "nnclr":
        queue = method.queue.z[c]
        cosines = torch.nn.functional.cosine_similarity(project(first)[:, None], queue, dim=-1)
        return queue[cosines.argmax(1)], method.predictors.head(c)(project(second))
    slow_backbone, slow_heads = (method.teacher if name == "dino" else method.keys).module
    key = slow_heads.head(c)(slow_backbone(x1))
    if name in ("moco", "dino"):
        return project(first), key
    return method.predictors.head(c)(project(first)), key


@pytest.mark.parametrize("name", WITH_HEADS)
@pytest.mark.parametrize("options", [{}, {"temperature": "uncertainty"}])
def test_methods_say_what_their_loss_compares(name, options):
    options = {} if (name, "uncertainty") in REFUSED else options
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


@pytest.mark.parametrize(
    "name",
    ["simclr", "moco", "mocov3", "lgp", "simsiam", "barlow", "byol", "nnclr", "vicreg", "dino"],
)
def test_pairs_compared_are_those_of_the_loss(name):
    """The statistics of a step, which the loss keeps itself, are those of the pair matrix."""
    options = {"symmetric": False, "queue": 0} if name == "moco" else {}
    method = make(name, heads=2, temperature="adaptive", **options).eval()
    x0, x1 = views()
    method([x0, x1], watch=True)
    matrices = [method.loss.pair_matrix(*method.compared([x0, x1]))]
    if name in ("simclr", "simsiam", "byol", "dino"):  # whose statistics are of both directions
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


def test_vicreg_has_expanders_without_a_last_bias():
    first, second, last = (
        layer for layer in make("vicreg").heads.head(0) if isinstance(layer, nn.Linear)
    )
    assert first.bias is not None
    assert second.bias is not None
    assert last.bias is None


def test_supcon_needs_labels_and_scales_its_loss():
    method, x = make("supcon"), views()
    with pytest.raises(TypeError, match="learns from classes: give labels="):
        method(x)
    assert ("labels", "used in pre-training") in method.settings.facts()
    assert method.settings.describe() == "supcon, 1 head, constant temperature, with labels"
    scaled = make("supcon", loss_scale=3.0)
    scaled.load_state_dict(method.state_dict())
    torch.testing.assert_close(loss_of(scaled, x), 3 * loss_of(method, x))
    with pytest.raises(ValueError, match="loss_scale must be a finite number above 0, got 0"):
        make("supcon", loss_scale=0)


def test_supcon_without_a_shared_class_is_simclr():
    supcon, simclr, x = make("supcon", heads=2), make("simclr", heads=2), views()
    simclr.load_state_dict(supcon.state_dict())
    torch.testing.assert_close(supcon(x, labels=torch.arange(IMAGES)), simclr(x))


def test_simsiam_predictors_keep_their_rate():
    assert make("simsiam").constant_lr_modules()[0].widths == (5, 4, 5)
    assert make("simsiam", fixed_predictor_rate=False).constant_lr_modules() == []
    assert make("simclr").constant_lr_modules() == []
