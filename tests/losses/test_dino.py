"""DINO's loss as users meet it: schedule, center, memory, wrong input."""

import math

import numpy as np
import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

import amcl
from amcl.functional import unit
from amcl.temperature import AdaptiveTemperature, ConstantTemperature

C, N, D, K = 2, 6, 5, 11


def make(temperature=None, **options):
    options = {"num_prototypes": K, "teacher_tau_warmup": 0} | options
    return amcl.DINOLoss(C, temperature or ConstantTemperature(0.1), **options)


def batch(views=3, k=K):
    prototypes, of_teacher = unit(torch.randn(2, C, k, D))
    return torch.randn(views, C, N, D), torch.randn(2, C, N, D), prototypes, of_teacher


@pytest.mark.parametrize("warmup", [0, 1, 2, 30])
def test_the_teacher_warms_up_epoch_by_epoch_as_in_the_original(warmup):
    loss = make(teacher_tau=0.07, teacher_tau_start=0.04, teacher_tau_warmup=warmup)
    expected = [*np.linspace(0.04, 0.07, warmup), *[0.07] * 5]
    for epoch, tau in enumerate(expected):
        for fraction in (0.0, 0.5):
            loss.set_epoch(epoch + fraction)
            assert loss.teacher_tau == pytest.approx(tau, rel=1e-12)


def test_the_teachers_temperature_enters_the_loss():
    inputs = batch()
    rising, last = make(teacher_tau_warmup=3), make()
    assert rising(*inputs) != last(*inputs)
    rising.set_epoch(3)
    assert rising(*inputs) == last(*inputs)


def test_the_center_is_a_moving_average_of_the_teachers_similarities():
    loss = make(center_momentum=0.75)
    centers = []
    for _ in range(2):
        student, teacher, prototypes, of_teacher = batch()
        loss(student, teacher, prototypes, of_teacher)
        centers.append((unit(teacher) @ of_teacher.mT).mean((0, 2)))
    assert not loss.center.any()  # the loss reads the center until its backward pass is over
    loss.update_center()  # a step of two parts
    expected = 0.25 * torch.stack(centers).mean(0)
    torch.testing.assert_close(loss.center.squeeze(1), expected)
    loss.update_center()  # nothing new was seen
    torch.testing.assert_close(loss.center.squeeze(1), expected)
    loss.eval()(*batch())
    loss.update_center()
    torch.testing.assert_close(loss.center.squeeze(1), expected)


def test_heads_have_centers_of_their_own():
    loss = make()
    loss(*batch())
    loss.update_center()
    assert (loss.center[0] != loss.center[1]).any()
    assert "center" in loss.state_dict()
    assert "center" not in make(centering="sinkhorn").state_dict()


def test_the_center_changes_the_targets():
    inputs = batch()
    loss = make()
    before = loss(*inputs)
    loss.update_center()
    assert loss(*inputs) != before


def kept_values(views, k):
    """Values that the loss keeps for its backward pass, those of its inputs apart."""
    student, teacher, prototypes, of_teacher = batch(views, k)
    student.requires_grad_()
    prototypes.requires_grad_()
    inputs = {x.untyped_storage().data_ptr() for x in (student, teacher, prototypes, of_teacher)}
    kept = {}

    def pack(x):
        storage = x.untyped_storage()
        if storage.data_ptr() not in inputs:
            kept[storage.data_ptr()] = storage.nbytes() // x.element_size()
        return x

    loss = make(AdaptiveTemperature(D, lower=0.075, upper=0.125), num_prototypes=k, beta=1.0)
    with saved_tensors_hooks(pack, lambda x: x):
        loss(student, teacher, prototypes, of_teacher)
    return sum(kept.values())


def test_memory_does_not_grow_by_k_values_for_each_view():
    k = 4096
    few, many = kept_values(2, k), kept_values(12, k)
    assert many - few < 10 * C * N * k / 20  # each view has C·N·K similarities
    assert few >= 2 * C * N * k  # the targets are kept


def test_a_view_of_the_teacher_is_not_compared_with_itself():
    student, teacher, prototypes, of_teacher = batch(views=2)
    loss = make()
    value = loss(student, teacher[:1], prototypes, of_teacher)
    other = student.clone()
    other[0] = torch.randn(C, N, D)
    assert loss(other, teacher[:1], prototypes, of_teacher) == value
    other[1] = torch.randn(C, N, D)
    assert loss(other, teacher[:1], prototypes, of_teacher) != value


def test_terms_are_entropy_and_divergence_and_sum_to_the_loss():
    loss = make(AdaptiveTemperature(D), beta=0.3)
    value, stats = loss(*batch(), return_stats=True)
    torch.testing.assert_close(torch.stack(list(stats.terms.values())).sum(), value)
    assert 0 < stats.terms["entropy"] < math.log(K)
    assert stats.terms["divergence"] > 0
    assert stats.negative is None
    assert stats.positive.count.tolist() == [4 * N] * C


def test_a_uniform_collapse_costs_log_k_at_any_temperature():
    student, teacher, prototypes, of_teacher = batch()
    same = prototypes[:, :1].expand(-1, K, -1)
    for temperature in (ConstantTemperature(0.1), AdaptiveTemperature(D, phi_output="plain")):
        value = make(temperature)(student, teacher, same, of_teacher)
        assert value.item() == pytest.approx(math.log(K), rel=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s, t, p, q: (s[:1], t, p, q), "got 1 and 2 views"),
        (lambda s, t, p, q: (s, t[:0], p, q), "got 3 and 0 views"),
        (lambda s, t, p, q: (s, t, p[:, 1:], q), r"prototypes must be \(C, K, D\) = \(2, 11, 5\)"),
        (lambda s, t, p, q: (s, t, p, q[..., 1:]), r"teacher_prototypes .* got \(2, 11, 4\)"),
        (lambda s, t, p, q: (s, t[:, :, 1:], p, q), "must show the same N images"),
        (lambda s, t, p, q: (s[:, :1], t, p, q), r"student\[0\] must be \(C, N, D\) with C = 2"),
    ],
)
def test_wrong_shapes(change, words):
    with pytest.raises(ValueError, match=words):
        make()(*change(*batch()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_prototypes": 0}, "num_prototypes must be a whole number"),
        ({"teacher_tau": 0.0}, "teacher_tau must be a finite number above 0"),
        ({"teacher_tau_start": -1.0}, "teacher_tau_start must be a finite number above 0"),
        ({"teacher_tau_warmup": -1}, "teacher_tau_warmup must be a whole number"),
        ({"centering": "mean"}, "centering must be one of 'center', 'sinkhorn'"),
        ({"center_momentum": 1.5}, r"center_momentum must lie in \[0, 1\]"),
        ({"sinkhorn_iterations": 0}, "sinkhorn_iterations must be a whole number"),
    ],
)
def test_wrong_settings(options, words):
    with pytest.raises(ValueError, match=words):
        make(**options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_full(dtype):
    inputs = [x.to(dtype) for x in batch()]
    value = make()(*inputs)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, make()(*(x.float() for x in inputs)))


def test_what_all_images_have_in_common_does_not_close_the_gate():
    """DINO's center takes it away, and so projections may well be alike."""
    temperature = AdaptiveTemperature(D, lower=0.075, upper=0.125)
    student, teacher, prototypes, of_teacher = batch()
    common = 10.0 * torch.ones(D)
    _, stats = make(temperature)(
        common + student, common + teacher, prototypes, of_teacher, return_stats=True
    )
    assert (stats.positive.s > 0.9).all()
    assert (stats.positive.tau_std > 0.002).all()
