"""Schemes as modules: training, state, movement between dtypes, and their errors."""

import io

import pytest
import torch
from torch import nn

import amcl
from amcl.temperature import (
    AdaptiveTemperature,
    ConstantTemperature,
    FirstHeadTemperature,
    LearnableTemperature,
    ScheduledTemperature,
    SplitTemperature,
    UncertaintyTemperature,
)
from schemes import SCHEMES, projections

SIZE = (2, 6, 4)


@pytest.mark.parametrize("name", ["learnable", "adaptive", "adaptive, depth 2", "first head"])
@pytest.mark.parametrize("kind", ["contrastive", "negative_cosine", "cross_correlation"])
def test_parameters_of_the_scheme_train_through_every_loss(name, kind):
    temperature = SCHEMES[name].make(4).double()
    z0, z1 = projections(temperature, SIZE, SIZE)
    targets = ()
    if kind == "contrastive":
        loss = amcl.ContrastiveLoss(2, temperature, beta=0.1)
    elif kind == "negative_cosine":
        loss = amcl.NegativeCosineLoss(2, temperature, beta=0.1)
        targets = torch.randn(2, 6, 4, dtype=torch.float64).unbind(0)
    else:
        loss = amcl.CrossCorrelationLoss(2, temperature, beta=0.1)
    optimiser = torch.optim.SGD(loss.parameters(), lr=0.01)
    values = []
    for _ in range(20):
        optimiser.zero_grad()
        value = loss(z0, z1, *targets)
        value.backward()
        optimiser.step()
        values.append(value.item())
    assert values[-1] < values[0]


@pytest.mark.parametrize("name", SCHEMES)
def test_state_comes_back(name):
    torch.manual_seed(0)
    temperature = SCHEMES[name].make(4)
    loss = amcl.ContrastiveLoss(2, temperature, beta=0.1)
    file = io.BytesIO()
    torch.save(loss.state_dict(), file)
    file.seek(0)
    torch.manual_seed(1)
    again = amcl.ContrastiveLoss(2, SCHEMES[name].make(4), beta=0.1)
    if name == "TS":
        again.temperature.set_epoch(0)
    again.load_state_dict(torch.load(file, weights_only=True))
    z0, z1 = (z.float() for z in projections(temperature, SIZE, SIZE))
    assert loss(z0, z1) == again(z0, z1)


@pytest.mark.parametrize("name", SCHEMES)
def test_schemes_move_between_devices(name):
    """The meta device stands in for an accelerator: every tensor must have come along."""
    loss = amcl.ContrastiveLoss(2, SCHEMES[name].make(4), beta=0.1, validate=False).to("meta")
    width = 4 + loss.temperature.extra_outputs
    z0, z1 = torch.randn(2, 2, 6, width, device="meta")
    assert loss(z0, z1).device.type == "meta"


def test_the_schedule_follows_the_epoch():
    scheme = ScheduledTemperature(0.1, 1.0, period=400)
    loss = amcl.ContrastiveLoss(2, SplitTemperature(positive=scheme, negative=scheme))
    z0, z1 = torch.randn(2, 2, 6, 4)
    for epoch, tau in ((0, 1.0), (100, 0.55), (200, 0.1), (600, 0.1)):
        loss.temperature.set_epoch(epoch)
        _, stats = loss(z0, z1, return_stats=True)
        torch.testing.assert_close(stats.positive.tau, torch.full((2,), tau))


def test_a_learnable_tau_is_put_back_inside_and_can_leave_the_bound_again():
    scheme = LearnableTemperature(init=0.02, lower=0.01, upper=1.0)
    with torch.no_grad():
        scheme.log_tau.fill_(-100.0)
    tau = scheme.keys(torch.randn(1, 3, 4))
    torch.testing.assert_close(tau, torch.full((1, 3, 1), 0.01))
    tau.sum().backward()
    assert scheme.log_tau.grad > 0


def test_phi_that_no_optimiser_moves_is_noticed():
    loss = amcl.AMCLLoss(2, 4)
    z0, z1 = torch.randn(2, 2, 6, 4)
    with pytest.warns(UserWarning, match=r"φ .* has not changed.*loss.parameters\(\)"):
        for _ in range(300):
            loss(z0, z1)
    loss = amcl.AMCLLoss(2, 4)
    optimiser = torch.optim.AdamW(loss.parameters())
    for _ in range(300):  # warnings are errors here
        optimiser.zero_grad()
        loss(z0, z1).backward()
        optimiser.step()


def test_tau_u_trains_its_extra_output():
    loss = amcl.ContrastiveLoss(3, UncertaintyTemperature())
    heads = amcl.ProjectionHeads(8, 8, 16 + loss.temperature.extra_outputs, num_heads=3)
    h0, h1 = torch.randn(2, 5, 8)
    loss(heads(h0), heads(h1)).backward()
    last = heads.layers[-1].weight.grad
    assert last[:, -1].abs().min() > 0  # the score is trained


def test_first_head_gives_all_heads_the_same_tau():
    loss = amcl.ContrastiveLoss(3, FirstHeadTemperature(AdaptiveTemperature(4)))
    z0, z1 = torch.randn(2, 3, 6, 4)
    _, stats = loss(z0, z1, return_stats=True)
    assert stats.positive.tau.unique().numel() == 1
    _, own = amcl.ContrastiveLoss(3, AdaptiveTemperature(4))(z0, z1, return_stats=True)
    assert own.positive.tau.unique().numel() == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdaptiveTemperature(4, eta=0.0), "eta must be above 0, got 0.0: it is the floor"),
        (lambda: AdaptiveTemperature(4, eta=-1.0), "eta must be above 0, got -1.0"),
        (lambda: AdaptiveTemperature(4, eta=float("nan")), "eta must be above 0, got nan"),
        (lambda: AdaptiveTemperature(4, iota=0.0), "iota must be above 0"),
        (
            lambda: AdaptiveTemperature(4, eta=0.1, upper=1.0),
            r"\(eta, iota\) or as \(lower, upper\)",
        ),
        (lambda: AdaptiveTemperature(4, lower=0.5), "need both, lower < upper"),
        (lambda: AdaptiveTemperature(4, lower=0.5, upper=0.1), "need both, lower < upper"),
        (lambda: AdaptiveTemperature(4, lower=0.0, upper=0.1), "eta must be above 0"),
        (lambda: AdaptiveTemperature(4, phi_depth=0), "phi_depth must be at least 1, got 0"),
        (lambda: AdaptiveTemperature(4, phi_input="l2"), "'unit' or 'raw', got 'l2'"),
        (lambda: ConstantTemperature(0.0), "constant temperature must be above 0, got 0.0"),
        (lambda: LearnableTemperature(init=2.0), "init=2.0 lies outside lower=0.01 … upper=1.0"),
        (lambda: LearnableTemperature(lower=0.0), "lower must be above 0"),
        (
            lambda: ScheduledTemperature(tau_min=1.0, tau_max=0.5),
            "tau_max=0.5 is below tau_min=1.0",
        ),
        (lambda: ScheduledTemperature(period=0), "period must be above 0"),
        (lambda: UncertaintyTemperature(0.0), "scale must be above 0"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_first_head_wants_an_adaptive_scheme():
    with pytest.raises(TypeError, match="copies an AdaptiveTemperature, got a ConstantTemperature"):
        FirstHeadTemperature(ConstantTemperature())


def test_both_spellings_of_the_range_are_one():
    a, b = (
        AdaptiveTemperature(4, eta=0.05, iota=0.95),
        AdaptiveTemperature(4, lower=0.05, upper=1.0),
    )
    assert a.bounds() == pytest.approx(b.bounds())


def test_phi_is_one_module_for_all_heads():
    loss = amcl.AMCLLoss(num_heads=5, dim=8)
    assert [tuple(p.shape) for p in loss.parameters()] == [(8, 8), (8,)]
    assert isinstance(loss.temperature.phi[0], nn.Linear)
