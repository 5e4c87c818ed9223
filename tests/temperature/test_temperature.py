"""Schemes as modules: training, state, movement between dtypes, and their errors."""

import io

import pytest
import torch
from torch import nn

import amcl
from amcl import functional as F
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
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.01)
    values = []
    for _ in range(20):
        optimizer.zero_grad()
        value = loss(z0, z1, *targets)
        value.backward()
        optimizer.step()
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
    slow, fast = ScheduledTemperature(0.1, 1.0, period=400), ScheduledTemperature(0.2, 0.4, 100)
    loss = amcl.ContrastiveLoss(2, SplitTemperature(positive=slow, negative=fast))
    z0, z1 = torch.randn(2, 2, 6, 4)
    for epoch, tau_pos, tau_neg in (
        (0, 1.0, 0.4),
        (100, 0.55, 0.4),
        (200, 0.1, 0.4),
        (600, 0.1, 0.4),
        (50, None, 0.2),
    ):
        loss.temperature.set_epoch(epoch)
        _, stats = loss(z0, z1, return_stats=True)
        if tau_pos is not None:
            torch.testing.assert_close(stats.positive.tau, torch.full((2,), tau_pos))
        torch.testing.assert_close(stats.negative.tau, torch.full((2,), tau_neg))


def test_a_learnable_tau_is_put_back_inside_and_can_leave_the_bound_again():
    scheme = LearnableTemperature(init=0.02, lower=0.01, upper=1.0)
    with torch.no_grad():
        scheme.log_tau.fill_(-100.0)
    tau = scheme.keys(torch.randn(1, 3, 4))
    torch.testing.assert_close(tau, torch.full((1, 3, 1), 0.01))
    tau.sum().backward()
    assert scheme.log_tau.grad > 0
    with torch.no_grad():
        scheme.log_tau.fill_(100.0)
    torch.testing.assert_close(scheme.keys(torch.randn(1, 3, 4)), torch.ones(1, 3, 1))


def test_phi_that_no_optimizer_moves_is_noticed(monkeypatch):
    loss = amcl.AMCLLoss(2, 4)
    z0, z1 = torch.randn(2, 2, 6, 4, requires_grad=True)
    for _ in range(300):  # micro-batches of one step: warnings are errors here
        loss(z0, z1)
    monkeypatch.setattr("amcl.temperature.adaptive._USES_BEFORE_WARNING", 620)
    with pytest.warns(UserWarning, match=r"φ has not changed.*loss.parameters\(\)"):
        for _ in range(20):
            loss(z0, z1)


@pytest.mark.parametrize(
    "kind", ["plain", "foreach", "fused", "frozen", "eval", "no_grad", "evaluation"]
)
def test_phi_that_moves_or_need_not_is_left_alone(kind, monkeypatch):
    monkeypatch.setattr("amcl.temperature.adaptive._USES_BEFORE_WARNING", 50)
    loss = amcl.AMCLLoss(2, 4).train(kind != "eval").requires_grad_(kind != "frozen")
    z0, z1 = torch.randn(2, 2, 6, 4, requires_grad=kind != "evaluation")
    options = {kind: True} if kind in ("foreach", "fused") else {}
    optimizer = torch.optim.AdamW(loss.parameters(), **options)
    for _ in range(30):  # warnings are errors here
        with torch.set_grad_enabled(kind != "no_grad"):
            value = loss(z0, z1)
        if kind in ("plain", "foreach", "fused"):
            optimizer.zero_grad()
            value.backward()
            optimizer.step()


def test_tau_u_trains_its_extra_output():
    loss = amcl.ContrastiveLoss(3, UncertaintyTemperature())
    heads = amcl.ProjectionHeads(8, 8, 16 + loss.temperature.extra_outputs, num_heads=3)
    h0, h1 = torch.randn(2, 5, 8)
    loss(heads(h0), heads(h1)).backward()
    last = heads.layers[-1].weight.grad
    assert last[:, -1].abs().min() > 0  # the score is trained


def test_extreme_scores_of_tau_u_stay_finite():
    loss = amcl.ContrastiveLoss(2, UncertaintyTemperature(), beta=0.1)
    z0, z1 = torch.randn(2, 2, 6, 5)
    z0[..., -1], z1[..., -1] = -1e4, 1e4
    z0.requires_grad_()
    value = loss(z0, z1)
    value.backward()
    assert value.isfinite()
    assert z0.grad.isfinite().all()


def test_a_split_scheme_asks_for_the_extra_outputs_of_either_side():
    tau_u, constant = UncertaintyTemperature(), ConstantTemperature()
    assert SplitTemperature(positive=tau_u, negative=constant).extra_outputs == 1
    assert SplitTemperature(positive=constant, negative=tau_u).extra_outputs == 1
    with pytest.raises(TypeError, match=r"negative must be a temperature scheme, got 0\.1"):
        SplitTemperature(positive=constant, negative=0.1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_phi_works_in_the_precision_of_z(dtype):
    """A model moved to another dtype as a whole, and z of another dtype than the module."""
    z0, z1 = torch.randn(2, 2, 6, 4)
    loss = amcl.AMCLLoss(2, 4)
    moved = amcl.AMCLLoss(2, 4)
    moved.load_state_dict(loss.state_dict())
    moved.to(dtype)
    torch.testing.assert_close(moved(z0, z1), loss(z0, z1), rtol=1e-2, atol=1e-2)
    moved(z0.to(dtype), z1.to(dtype)).backward()
    assert all(p.grad.dtype == dtype for p in moved.parameters())
    loss(z0.to(dtype), z1.to(dtype)).backward()


def test_correlations_of_phi_do_not_depend_on_its_scale_or_on_the_width():
    for dim in (16, 2048):
        for output, length in (("plain", 1.0), ("centered", 3.0)):
            options = {"phi_output": output, "phi_scale": 3.0}
            scheme = AdaptiveTemperature(dim, lower=0.5, upper=1.5, **options)
            z = torch.randn(1, 32, dim) + 3.0
            keys = scheme.channel_keys(z)
            diagonal = (keys * keys).sum(-1)
            expected = torch.full_like(diagonal, length)
            torch.testing.assert_close(diagonal, expected, rtol=5e-3, atol=0.0)


@pytest.mark.parametrize("factor", [0.03, 1.0, 30.0])
def test_a_centered_phi_has_its_length_whatever_the_size_of_its_layer(factor):
    scheme = AdaptiveTemperature(8, phi_scale=3.0)
    with torch.no_grad():
        scheme.phi[0].weight.mul_(factor)
    z = torch.randn(2, 5, 8)
    z = torch.cat([z, -z], dim=1)  # spread out, so that the gate is open
    keys = scheme.keys(z)
    torch.testing.assert_close((keys * keys).sum(-1), torch.full((2, 10), 3.0), rtol=1e-3, atol=0.0)


def test_phi_may_read_projections_without_shaping_them():
    """The same τ, and the same gradient of φ, but none of z through τ."""
    z0, z1 = torch.randn(2, 3, 6, 8, requires_grad=True).unbind()
    found = {}
    for passes in (True, False):
        torch.manual_seed(0)
        scheme = AdaptiveTemperature(8, phi_gradient=passes)
        tau = scheme.tau(scheme.keys(z0), scheme.keys(z1), F.all_pairs)
        weight = scheme.phi[0].weight
        of_z, of_phi = torch.autograd.grad(tau.sum(), [z0, weight], allow_unused=True)
        found[passes] = tau, of_z, of_phi
    torch.testing.assert_close(found[True][0], found[False][0])
    torch.testing.assert_close(found[True][2], found[False][2])
    assert found[True][1].abs().max() > 0
    assert found[False][1] is None


def spread_and_mean(output, views, factor, bias):
    """Standard deviation and mean of τ⁻ where φ's layer is scaled and has this bias."""
    temperature = AdaptiveTemperature(8, phi_output=output)
    with torch.no_grad():
        temperature.phi[0].weight.mul_(factor)
        temperature.phi[0].bias.fill_(bias)
    _, stats = amcl.ContrastiveLoss(3, temperature, beta=0.1)(*views, return_stats=True)
    return stats.negative.tau_std.min().item(), stats.negative.tau.mean().item()


def test_a_plain_phi_may_die_at_0_or_saturate_and_a_centered_one_does_neither():
    views = torch.randn(2, 3, 6, 8)
    for factor, bias, dead in ((1e-3, 0.0, 0.1), (1.0, 3.0, 0.05)):
        std, mean = spread_and_mean("plain", views, factor, bias)
        assert std < 1e-3
        assert mean == pytest.approx(dead, abs=1e-3)
        std, mean = spread_and_mean("centered", views, factor, bias)
        assert std > 0.01
        assert mean == pytest.approx(0.1, abs=0.01)


def test_centered_temperatures_stay_where_all_projections_are_alike():
    """A cone of projections lowers the temperatures of a plain φ, which narrows the cone."""
    views = 0.1 * torch.randn(2, 3, 16, 8) + torch.randn(8)
    _, mean = spread_and_mean("centered", views, 1.0, 0.5)
    assert mean == pytest.approx(0.1, abs=0.01)
    _, mean = spread_and_mean("plain", views, 3.0, 0.5)
    assert mean < 0.08


def test_bounds_are_what_temperatures_reach():
    scheme = AdaptiveTemperature(4, lower=0.5, upper=1.5, phi_output="plain")
    lowest, highest = scheme.channel_bounds()
    assert lowest == pytest.approx(0.5 + 0.2689, abs=1e-4)
    assert highest == pytest.approx(0.5 + 0.7311, abs=1e-4)
    assert scheme.channel_bounds(literal=True) == scheme.bounds() == (0.5, 1.5)
    scaled = AdaptiveTemperature(4, lower=0.5, upper=1.5, phi_scale=1.0)
    assert scaled.bounds() == scaled.channel_bounds() == pytest.approx((lowest, highest))
    keys = torch.tensor([[[1.0], [-1.0]]])
    assert scaled.tau(keys, keys[:, :1], F.all_pairs).flatten().tolist() == [lowest, highest]
    first = FirstHeadTemperature(scheme)
    assert first.bounds() == scheme.bounds()
    assert first.channel_bounds() == (lowest, highest)
    assert ScheduledTemperature().bounds() is None  # it does not adapt to pairs


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
        (
            lambda: AdaptiveTemperature(4, eta=0.0),
            "eta must be a finite number above 0, got 0.0: the floor of τ",
        ),
        (lambda: AdaptiveTemperature(4, eta=-1.0), "eta must be a finite number above 0, got -1.0"),
        (
            lambda: AdaptiveTemperature(4, eta=float("nan")),
            "eta must be a finite number above 0, got nan",
        ),
        (lambda: AdaptiveTemperature(4, eta=float("inf")), "above 0, got inf"),
        (lambda: AdaptiveTemperature(4, eta="small"), "above 0, got 'small'"),
        (lambda: AdaptiveTemperature(4, iota=0.0), "iota must be a finite number above 0"),
        (
            lambda: AdaptiveTemperature(4, eta=0.1, upper=1.0),
            r"\(eta, iota\) or as \(lower, upper\)",
        ),
        (lambda: AdaptiveTemperature(4, lower=0.5), "need both, lower < upper"),
        (lambda: AdaptiveTemperature(4, lower=0.5, upper=0.1), "need both, lower < upper"),
        (
            lambda: AdaptiveTemperature(4, lower=0.0, upper=0.1),
            "lower must be a finite number above 0",
        ),
        (
            lambda: AdaptiveTemperature(4, phi_depth=0),
            "phi_depth must be a whole number, at least 1, got 0",
        ),
        (lambda: AdaptiveTemperature(4, phi_input="l2"), "'unit', 'raw'; got 'l2'"),
        (lambda: AdaptiveTemperature(4, phi_output="unit"), "'centered', 'plain'; got 'unit'"),
        (lambda: AdaptiveTemperature(4, phi_scale=0.0), "phi_scale must be a finite number above"),
        (
            lambda: ConstantTemperature(0.0),
            "constant temperature must be a finite number above 0, got 0.0",
        ),
        (lambda: LearnableTemperature(init=2.0), "init=2.0 lies outside lower=0.01 … upper=1.0"),
        (lambda: LearnableTemperature(lower=0.0), "lower must be a finite number above 0"),
        (
            lambda: ScheduledTemperature(tau_min=1.0, tau_max=0.5),
            "tau_max=0.5 is below tau_min=1.0",
        ),
        (lambda: ScheduledTemperature(period=0), "period must be a finite number above 0"),
        (lambda: UncertaintyTemperature(0.0), "scale must be a finite number above 0"),
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
