"""What a collapse costs, where temperatures adapt and where they do not."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import normalize

import amcl
from amcl.temperature import (
    AdaptiveTemperature,
    ConstantTemperature,
    FirstHeadTemperature,
    SplitTemperature,
)

SPEC = importlib.util.spec_from_file_location(
    "collapse", Path(__file__).parents[2] / "benchmarks" / "collapse.py"
)
collapse = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(collapse)
IMAGES, DIM, UngatedTemperature, similar_projections, lowest_loss = (
    getattr(collapse, name)
    for name in ("IMAGES", "DIM", "UngatedTemperature", "similar_projections", "lowest_loss")
)


@pytest.mark.parametrize("s", [0.9, 0.95, 0.99, 0.999, 0.9999, 1.0])
@pytest.mark.parametrize("negatives", ["batch", "queue"])
def test_a_collapse_costs_what_it_costs_with_a_constant_temperature(s, negatives):
    z, queue = similar_projections(s), None
    if negatives == "queue":
        z, queue = z.chunk(2, dim=1)
    constant = lowest_loss(ConstantTemperature(0.1), z, queue)
    assert lowest_loss(AdaptiveTemperature(DIM), z, queue) == pytest.approx(
        constant, rel=1e-3, abs=1e-3
    )
    if s < 1:
        assert lowest_loss(UngatedTemperature(DIM), z, queue) < 0.2 * constant


def test_a_random_queue_does_not_hide_a_collapse():
    """A queue starts with random directions, which lie apart whatever the network does."""
    z, queue = similar_projections(0.999), torch.randn(1, 64, DIM)
    constant = lowest_loss(ConstantTemperature(0.1), z, queue)
    assert lowest_loss(AdaptiveTemperature(DIM), z, queue) == pytest.approx(constant, rel=1e-3)


def test_temperatures_of_positive_pairs_alone_cannot_pay_for_a_collapse_either():
    z = similar_projections(0.99)
    constant = lowest_loss(ConstantTemperature(0.1), z)
    for make, held in ((AdaptiveTemperature, True), (UngatedTemperature, False)):
        split = SplitTemperature(positive=make(DIM), negative=ConstantTemperature(0.1))
        assert (lowest_loss(split, z) > 0.99 * constant) == held


def test_temperatures_of_the_first_head_close_with_any_head():
    apart = normalize(torch.randn(1, IMAGES, DIM), dim=-1)
    z = torch.cat([apart, similar_projections(0.999)])
    scheme = FirstHeadTemperature(AdaptiveTemperature(DIM))
    _, stats = amcl.ContrastiveLoss(2, scheme)(z, z, return_stats=True)
    assert stats.positive.tau.tolist() == pytest.approx([0.1, 0.1], abs=1e-6)


def test_pictures_alike_in_groups_are_dear_only_where_similarities_are_relative():
    """The gate looks at all projections of a head: groups that lie apart leave it open."""
    z = similar_projections(0.99, groups=8)
    constant = lowest_loss(ConstantTemperature(0.1), z)
    assert lowest_loss(AdaptiveTemperature(DIM), z) < 0.5 * constant
    assert lowest_loss(AdaptiveTemperature(DIM), z, similarity="relative") > 0.9 * constant


def test_the_gate_is_open_where_projections_lie_apart_and_passes_no_gradient():
    scheme = AdaptiveTemperature(DIM)
    z = torch.randn(2, 4 * IMAGES, DIM, requires_grad=True)
    assert scheme.gate(z).min() > 0.9
    assert not scheme.gate(z).requires_grad
    assert scheme.gate(z[:, :1]).tolist() == [[[1.0]], [[1.0]]]  # one image alone
    assert scheme.gate(similar_projections(0.9)).item() < 1e-6


def trained_from_near_collapse(temperature, queue=False):
    """Mean s⁻ of a linear network after 300 steps, from projections that are nearly one."""
    torch.manual_seed(0)
    images, network = torch.randn(IMAGES, 32), nn.Linear(32, 16)
    with torch.no_grad():
        network.weight.mul_(0.005)
        network.bias.copy_(10 * normalize(torch.randn(16), dim=0))
    loss = amcl.ContrastiveLoss(1, temperature, beta=0.1)
    optimizer = torch.optim.Adam([*network.parameters(), *loss.parameters()], lr=1e-3)
    for _ in range(300):
        z0, z1 = (network(images + 0.3 * torch.randn(IMAGES, 32)) for _ in range(2))
        negatives = network(torch.randn(1, 64, 32)).detach() if queue else None
        value = loss(z0.unsqueeze(0), z1.unsqueeze(0), negatives)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    z = normalize(network(images), dim=1)
    return ((z @ z.T).sum() - IMAGES).item() / (IMAGES * (IMAGES - 1))


@pytest.mark.parametrize("queue", [False, True])
def test_training_that_starts_nearly_collapsed_recovers_as_with_a_constant_temperature(queue):
    constant = trained_from_near_collapse(ConstantTemperature(0.1), queue)
    assert constant < 0.6
    adaptive = trained_from_near_collapse(AdaptiveTemperature(16), queue)
    assert adaptive == pytest.approx(constant, abs=0.05)
    if not queue:
        assert trained_from_near_collapse(UngatedTemperature(16)) > 0.95


def test_simsiam_prices_a_collapse_as_with_a_constant_temperature():
    """No temperature makes it dear: −1 is SimSiam's least loss. Nor cheaper than that."""
    z = similar_projections(1.0)[0]
    constant = amcl.NegativeCosineLoss(1, ConstantTemperature(1.0), beta=3.0)
    adaptive = AdaptiveTemperature(DIM, lower=0.5, upper=1.5, phi_gradient=False)
    loss = amcl.NegativeCosineLoss(1, adaptive, beta=3.0)
    assert loss(z, z, z, z).item() == pytest.approx(constant(z, z, z, z).item(), abs=1e-4)


def test_the_gradient_of_simsiam_is_that_of_a_constant_temperature_over_tau():
    """φ reads predictions and passes no gradient, so that each pair is only weighed by 1/τ."""
    z = torch.randn(1, IMAGES, DIM, requires_grad=True)
    h = torch.randn(IMAGES, DIM)
    scheme = AdaptiveTemperature(DIM, lower=0.5, upper=1.5, phi_gradient=False)
    loss = amcl.NegativeCosineLoss(1, scheme, beta=3.0)
    (adaptive,) = torch.autograd.grad(loss(z, z.detach(), h, h), z)
    one = amcl.NegativeCosineLoss(1, ConstantTemperature(1.0))
    (constant,) = torch.autograd.grad(one(z, z.detach(), h, h), z)
    tau = scheme.tau(scheme.keys(z), scheme.keys(h[None]), amcl.functional.paired)
    torch.testing.assert_close(adaptive, constant / tau)


def test_no_temperature_makes_up_for_constant_or_equal_channels_in_barlow_twins():
    """Constant channels cost 1 each whatever τ is; equal ones at least 1/τ of what they cost."""
    scheme = AdaptiveTemperature(DIM, lower=0.5, upper=1.5, phi_scale=1.0)
    loss = amcl.CrossCorrelationLoss(1, scheme)
    assert loss(*torch.ones(2, 1, IMAGES, DIM)).item() == pytest.approx(DIM, rel=1e-4)
    equal = torch.randn(1, IMAGES, 1).expand(1, IMAGES, DIM)
    _, stats = loss(equal, equal, return_stats=True)
    _, plain = amcl.CrossCorrelationLoss(1, ConstantTemperature(1.0))(
        equal, equal, return_stats=True
    )
    bound = 1 / scheme.channel_bounds()[1]
    assert stats.terms["negative"].item() >= bound * plain.terms["negative"].item() * (1 - 1e-5)
    assert bound > 0.8
