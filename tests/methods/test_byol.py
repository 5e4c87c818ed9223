"""BYOL: the published loss and gradient, and the target that follows."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from amcl.backbones import Backbone, BackboneSettings
from amcl.methods import BYOLSettings, make_method
from factories import method_settings
from reference import negative_cosine as literal
from schemes import SCHEMES, items
from toy_methods import make, part_encoders, views


def outputs(method, x):
    """Predictions and targets of both views, (C, N, D)."""
    predictions = [method.predictors(method.project(view)) for view in x]
    return *predictions, *(method.keys(view) for view in x)


def test_the_loss_is_that_of_the_paper_less_its_constant():
    method, x = make("byol", predictor=16), views()
    part_encoders(method)
    expected = literal.byol(*(z[0].tolist() for z in outputs(method, x)))
    assert method(x).item() == pytest.approx(expected - 4.0, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("heads", [1, 3])
def test_the_gradient_is_that_of_the_paper(heads):
    method, (x0, x1) = make("byol", heads=heads), views()
    part_encoders(method)
    slow_backbone, slow_heads = method.keys.module
    total = 0.0
    for c in range(heads):
        project, predict, slow = (
            part.head(c) for part in (method.heads, method.predictors, slow_heads)
        )
        for view, other in ((x0, x1), (x1, x0)):
            q = F.normalize(predict(project(method.backbone(view))), dim=1)
            target = F.normalize(slow(slow_backbone(other)).detach(), dim=1)
            total = total + (q - target).square().sum(1).mean() / heads
    weights = list(method.backbone.parameters())
    got, wanted = (torch.autograd.grad(loss, weights) for loss in (method([x0, x1]), total))
    for g, w in zip(got, wanted, strict=True):
        assert w.abs().max() > 0
        torch.testing.assert_close(g, w, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("scheme", ["constant", "learnable", "adaptive", "first head", "TS"])
def test_with_temperatures_it_is_four_times_the_negative_cosine(scheme):
    method, x = make("byol", heads=3, predictor=16), views()
    part_encoders(method)
    method.loss.temperature = SCHEMES[scheme].make(5).double()
    method.loss.beta = 0.3
    expected = literal.symmetric_negative_cosine(
        3,
        *(items(z, 0) for z in outputs(method, x)),
        SCHEMES[scheme].on_samples(method.loss.temperature),
        "mean",
        beta=0.3,
        prior_tau=1.0,
    )
    assert method(x).item() == pytest.approx(4.0 * expected, rel=1e-10, abs=1e-10)


def test_no_gradient_reaches_the_target():
    method = make("byol", heads=2, temperature="adaptive")
    method(views()).backward()
    assert all(p.grad is None and not p.requires_grad for p in method.keys.parameters())


def test_momentum_rises_to_1_and_the_target_follows_with_it():
    method = make("byol")
    assert method.momentum == 0.996
    part_encoders(method)
    for progress in (0.0, 0.3, 1.0):
        momentum = 1 - (1 - 0.996) * (math.cos(math.pi * progress) + 1) / 2  # the paper's
        old = [p.clone() for p in method.keys.parameters()]
        method.before_step(0.0, progress)
        new = [*method.backbone.parameters(), *method.heads.parameters()]
        for key, o, n in zip(method.keys.parameters(), old, new, strict=True):
            torch.testing.assert_close(key, momentum * o + (1 - momentum) * n.detach())


def test_heads_are_those_of_the_paper():
    assert BYOLSettings().projector == (4096, 256)
    assert BYOLSettings().predictor == 4096
    method = make("byol", heads=2)
    for heads in (method.heads, method.predictors):
        layers = list(heads.head(0))
        assert [type(layer) for layer in layers] == [
            *(nn.Linear, nn.BatchNorm1d, nn.ReLU),
            nn.Linear,
        ]
        assert layers[-1].bias is None


@pytest.mark.parametrize("name", ["byol", "nnclr"])
def test_a_vision_transformer_is_trained_too(name):
    backbone = Backbone(BackboneSettings(name="test_vit", patch=4, pool="mean"), image_size=16)
    small = {"projector": (8, 5), "predictor": 4, "heads": 2, "temperature": "adaptive"}
    small |= {"queue": 16} if name == "nnclr" else {}
    method = make_method(method_settings(name, **small), backbone)
    method.before_step(0.0, 0.0)
    method(torch.randn(2, 6, 3, 16, 16)).backward()
    method.after_step()
    assert all(p.grad is not None for p in method.backbone.parameters())


def test_both_encoders_start_from_given_weights():
    settings = BackboneSettings(name="resnet10t", width=0.125)
    small = method_settings("byol", projector=(8, 5), predictor=4)
    method = make_method(small, Backbone(settings, image_size=16))
    given = Backbone(settings, image_size=16).network.state_dict()
    method.load_backbone(given, "a run")
    for backbone in (method.backbone, method.keys.module[0]):
        for name, value in backbone.network.state_dict().items():
            assert torch.equal(value, given[name]), name
