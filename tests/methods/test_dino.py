"""DINO: teacher and student, crops of several sizes, schedules, frozen prototypes."""

import math

import pytest
import torch

from amcl.backbones import Backbone, BackboneSettings
from amcl.functional import unit
from amcl.methods import DINOSettings, make_method
from amcl.modules import cosine_momentum
from toy_methods import make, part_encoders, settings_of, views

RESNET = BackboneSettings(name="resnet10t", width=0.125)
VIT = BackboneSettings(name="test_vit", patch=4)


def crops(full=16, small=8, n=4):
    return [*torch.randn(2, n, 3, full, full), *torch.randn(3, n, 3, small, small)]


def real(backbone, **options):
    return make_method(settings_of("dino", **options), Backbone(backbone, image_size=16))


def dino_by_hand(method, x, head):
    """The loss of a head as the original computes it, with every view on its own."""
    project = method.heads.head(head)
    slow_backbone, slow_heads = method.teacher.module
    slow = slow_heads.head(head)
    layer, slow_layer = method.prototypes()[head], method.teacher_prototypes()[head]
    logits = [unit(project(method.backbone(view))) @ layer.T for view in x]
    center = method.loss.center[head]
    terms = []
    for t in range(2):
        targets = unit(slow(slow_backbone(x[t]))) @ slow_layer.T
        q = ((targets - center) / method.loss.teacher_tau).softmax(-1).detach()
        for v, logit in enumerate(logits):
            if v != t:
                terms.append((-q * (logit / 0.1).log_softmax(-1)).sum(-1).mean())
    return torch.stack(terms).mean()


@pytest.mark.parametrize("heads", [1, 3])
def test_one_head_and_a_constant_temperature_is_dino(heads):
    method = make("dino", heads=heads)
    part_encoders(method)
    with torch.no_grad():
        method.prototypes.weight.add_(torch.randn_like(method.prototypes.weight))
        method.loss.center.copy_(0.1 * torch.randn_like(method.loss.center))
    x = [*views(), *views()]
    expected = sum(dino_by_hand(method, x, c) for c in range(heads)) / heads
    value = method(x)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)
    weights = [*method.backbone.parameters(), method.prototypes.weight]
    for got, wanted in zip(
        torch.autograd.grad(value, weights), torch.autograd.grad(expected, weights), strict=True
    ):
        assert wanted.abs().max() > 0
        torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("backbone", [RESNET, VIT], ids=["resnet", "vit"])
def test_networks_take_crops_of_several_sizes(backbone):
    method = real(backbone, heads=2, temperature="adaptive").eval()
    x = crops()
    value = method(x, watch=True)
    value.backward()
    assert torch.isfinite(value)
    assert method.stats.positive.count.tolist() == [2 * 4 * 4] * 2  # two teachers, four students
    assert all(p.grad is not None for p in method.backbone.parameters())
    # Each image's features are its own: the sizes did not get mixed up.
    student = method.heads(torch.cat([method.backbone(view) for view in x]))
    seen = torch.cat([method.backbone(torch.cat(x[:2])), method.backbone(torch.cat(x[2:]))])
    torch.testing.assert_close(method.heads(seen), student, rtol=1e-4, atol=1e-5)


def test_batch_norm_sees_all_views_of_one_size_together():
    method = real(RESNET)
    seen = []
    method.backbone.register_forward_pre_hook(lambda _, args: seen.append(tuple(args[0].shape)))
    method(crops())
    assert seen == [(8, 3, 16, 16), (12, 3, 8, 8)]


def test_the_teacher_sees_the_first_two_views_alone():
    method = make("dino")
    x = [*views(), *views()]
    seen = []
    method.teacher.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    method(x)
    (images,) = seen
    torch.testing.assert_close(images, torch.cat(x[:2]))


def test_the_teacher_follows_the_student_after_the_step():
    method = make("dino", momentum=0.75, momentum_end=1.0)
    part_encoders(method)
    with torch.no_grad():
        method.prototypes.weight.mul_(2.0)
    pairs = [
        *zip(method.student.parameters(), method.teacher.parameters(), strict=True),
        (method.prototypes.weight, method.teacher_prototypes.module.weight),
    ]
    before = [slow.clone() for _, slow in pairs]
    for progress in (0.0, 0.5):
        method.before_step(epoch=1.0, progress=progress)
        assert all(map(torch.equal, before, [slow for _, slow in pairs]))
        method.after_step()
        momentum = cosine_momentum(0.75, 1.0, progress)
        before = [
            momentum * b + (1 - momentum) * p for (p, _), b in zip(pairs, before, strict=True)
        ]
        torch.testing.assert_close([slow for _, slow in pairs], before)
        before = [slow.clone() for _, slow in pairs]
    method.before_step(epoch=2.0, progress=1.0)
    method.after_step()
    assert all(map(torch.equal, before, [slow for _, slow in pairs]))


@pytest.mark.parametrize(("epoch", "frozen"), [(0.0, True), (0.99, True), (1.0, False)])
def test_prototypes_do_not_learn_in_the_first_epoch(epoch, frozen):
    method = make("dino", prototype_unit_length=False)
    optimizer = torch.optim.AdamW(
        (p for p in method.parameters() if p.requires_grad), lr=0.1, weight_decay=0.5
    )
    before = {name: p.clone() for name, p in method.named_parameters()}
    method.before_step(epoch=epoch, progress=0.0)
    method(views()).backward()
    method.after_backward()
    optimizer.step()
    for name, parameter in method.named_parameters():
        if name.startswith("prototypes"):
            assert torch.equal(parameter, before[name]) == frozen, name
    assert not torch.equal(method.heads.layers[0].weight, before["heads.layers.0.weight"])


def test_the_center_is_updated_once_a_step_with_all_its_parts():
    method = make("dino", heads=2)
    x = views()
    method(list(x[:, :3]))
    method(list(x[:, 3:]))
    assert not method.loss.center.any()
    teacher = unit(method.teacher(torch.cat(list(x)))) @ method.teacher_prototypes().mT
    method.after_step()
    torch.testing.assert_close(method.loss.center, 0.1 * teacher.mean(1, keepdim=True))


def test_heads_start_as_in_the_original():
    method = make_method(
        DINOSettings(projector=(64, 64, 16), prototypes=64), Backbone(RESNET, image_size=16)
    )
    for layer in method.heads.layers:
        if hasattr(layer, "weight"):
            assert layer.weight.std().item() == pytest.approx(0.02, rel=0.1)
            assert not layer.bias.any()
    assert [type(layer).__name__ for layer in method.heads.layers].count("GELU") == 2
    assert method.prototypes.weight.std().item() == pytest.approx(0.25 / math.sqrt(3), rel=0.1)
    for student, teacher in zip(
        method.student.parameters(), method.teacher.parameters(), strict=True
    ):
        assert torch.equal(student, teacher)


def test_the_student_alone_skips_blocks():
    method = real(VIT, drop_path=0.5)
    x = torch.randn(8, 3, 16, 16)
    student, teacher = method.backbone, method.trained_backbone
    assert student is not teacher
    torch.manual_seed(0)
    assert not torch.equal(student(x), student(x))
    assert torch.equal(teacher(x), teacher(x))
    method.eval()
    torch.testing.assert_close(student(x), teacher(x))


def test_skipping_blocks_needs_blocks():
    with pytest.raises(ValueError, match=r"drop_path=0.1 .* 'resnet10t'.*--drop-path 0"):
        real(RESNET, drop_path=0.1)


def test_another_runs_backbone_is_loaded_into_student_and_teacher():
    method, source = real(RESNET), real(RESNET)
    method.load_backbone(source.backbone.network.state_dict(), "a run")
    for name, value in source.backbone.network.state_dict().items():
        assert torch.equal(method.backbone.network.state_dict()[name], value)
        assert torch.equal(method.trained_backbone.network.state_dict()[name], value)


def test_adaptive_temperatures_stay_above_the_teachers():
    """Otherwise the student would be the sharper one, and be taught to prefer no prototype."""
    settings = DINOSettings().amcl()
    assert settings.heads == 3
    lowest, highest = settings.make_temperature().bounds()
    assert settings.teacher_tau < lowest < 0.1 < highest


def test_phi_does_not_shape_projections():
    """The gradient of the student is DINO's at each pair's τ."""
    method = make("dino", heads=2, temperature="adaptive")
    assert not method.loss.temperature.phi_gradient
    method(views()).backward()
    assert all(p.grad.abs().sum() > 0 for p in method.loss.temperature.parameters() if p.ndim > 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prototypes": 0}, "num_prototypes must be a whole number"),
        ({"prototype_freeze": -1.0}, "prototype_freeze must be"),
        ({"momentum": 1.5}, r"momentum must lie in \[0, 1\]"),
        ({"momentum_end": -0.5}, r"momentum_end must lie in \[0, 1\]"),
        ({"drop_path": 1.0}, r"drop_path must lie in \[0, 1\)"),
        ({"temperature": "adaptive-negative"}, "DINO has none: choose"),
    ],
)
def test_wrong_settings(options, words):
    with pytest.raises(ValueError, match=words):
        settings_of("dino", **options).check()


def test_facts_name_the_prototypes():
    assert ("prototypes", "65,536") in DINOSettings().facts()
