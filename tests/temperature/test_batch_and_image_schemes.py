"""Schemes that depend on the batch, on the images or on the loss of anchors, against literal loops.

What a scheme detaches passes no gradient: the gradient of z is that of the loss at fixed values.
"""

import math

import pytest
import torch

import amcl
from amcl.temperature import (
    AdaptiveTemperature,
    AlignmentTemperature,
    ConstantTemperature,
    FirstHeadTemperature,
    IndividualTemperature,
    OneSidedTemperature,
    PositiveScaleTemperature,
    SimilarityTemperature,
)
from reference.temperature import omega, sim

C, N, D = 2, 5, 4


def views():
    torch.manual_seed(3)
    return torch.randn(2, C, N, D, dtype=torch.float64, requires_grad=True).unbind(0)


def negatives_of(z0, z1, c, view, i):
    """Similarities of an anchor with all other images in both views, and with its positive."""
    both = (z0[c].tolist(), z1[c].tolist())
    anchor = both[view][i]
    negatives = [sim(anchor, both[v][j]) for v in (0, 1) for j in range(N) if j != i]
    return sim(anchor, both[1 - view][i]), negatives


def anchors():
    return [(c, view, i) for c in range(C) for view in (0, 1) for i in range(N)]


def infonce(s_pos, negatives, tau):
    return -s_pos / tau + math.log(sum(math.exp(s / tau) for s in [s_pos, *negatives]))


def test_macl_divides_the_loss_of_an_anchor_by_the_probability_of_a_negative():
    z0, z1 = views()
    value = amcl.ContrastiveLoss(C, AlignmentTemperature(0.2, alpha=0.5, baseline=0.1))(z0, z1)
    total = 0.0
    for c, view, i in anchors():
        alignment = sum(negatives_of(z0, z1, c, 0, j)[0] for j in range(N)) / N
        tau = 0.2 * (1 + 0.5 * (alignment - 0.1))
        loss = infonce(*negatives_of(z0, z1, c, view, i), tau)
        total += loss / (1 - math.exp(-loss))
    assert value.item() == pytest.approx(total / (2 * N * C), rel=1e-10)


def test_the_weight_of_macl_passes_no_gradient():
    z0, z1 = views()
    weighted = amcl.ContrastiveLoss(C, AlignmentTemperature(0.2, alpha=0.0))(z0, z1)
    (gradient,) = torch.autograd.grad(weighted, z0)
    # The same in plain autograd operations: a constant τ, and weights that are numbers.
    unit = torch.nn.functional.normalize(torch.cat([z0, z1], dim=1), dim=-1)
    logits = unit @ unit.mT / 0.2 - 1e9 * torch.eye(2 * N, dtype=torch.float64)
    target = torch.arange(2 * N).roll(N).expand(C, -1)
    losses = torch.nn.functional.cross_entropy(logits.mT, target, reduction="none")
    expected = (losses / (1 - torch.exp(-losses)).detach()).mean()
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, z0)[0])


@pytest.mark.parametrize(
    "scheme",
    [
        AlignmentTemperature(0.2, reweight=False),
        PositiveScaleTemperature(0.3),
        SimilarityTemperature(0.1, 0.4),
    ],
    ids=lambda scheme: type(scheme).__name__,
)
def test_the_gradient_of_detached_temperatures_is_that_of_fixed_ones(scheme):
    z0, z1 = views()
    loss = amcl.ContrastiveLoss(C, scheme, negatives="other_view")
    matrix = loss.pair_matrix(z0, z1)
    unit0, unit1 = (torch.nn.functional.normalize(z, dim=-1) for z in (z0, z1))
    logits = unit0 @ unit1.mT / matrix.tau.detach()
    target = torch.arange(N).expand(C, -1)
    expected = torch.nn.functional.cross_entropy(logits.mT, target)
    value = loss(z0, z1)
    torch.testing.assert_close(value, expected)
    for z in (z0, z1):
        (gradient,) = torch.autograd.grad(value, z, retain_graph=True)
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, z, retain_graph=True)[0])


@pytest.mark.parametrize(
    "form", [{"form": "top_k", "top_k": 2}, {"positive_in_denominator": False}]
)
def test_the_weight_of_macl_is_for_infonce(form):
    with pytest.raises(ValueError, match=r"reweight=False \(--no-macl-reweight\)"):
        amcl.ContrastiveLoss(C, AlignmentTemperature(), **form)
    amcl.ContrastiveLoss(C, AlignmentTemperature(reweight=False), **form)


@pytest.mark.parametrize("loss", [amcl.NegativeCosineLoss, amcl.CrossCorrelationLoss])
def test_the_weight_of_macl_is_refused_by_losses_without_probabilities(loss):
    with pytest.raises(ValueError, match="reweight=False"):
        loss(C, AlignmentTemperature(1.0))


def test_a_scheme_of_the_batch_asks_for_its_positive_pairs():
    with pytest.raises(RuntimeError, match="observe"):
        AlignmentTemperature().keys(torch.randn(1, 2, 3))


def test_the_scale_of_equal_positives_is_held_above_zero():
    z = torch.nn.functional.normalize(torch.randn(1, 4, 8), dim=-1)
    scheme = PositiveScaleTemperature()
    scheme.observe(z, z)
    assert scheme.keys(z).unique().tolist() == pytest.approx([0.01])


def isogclr(**options):
    return IndividualTemperature(
        0.2, rho=0.3, lower=0.05, upper=0.7, lr=0.01, momentum=0.9, gamma=0.6, **options
    )


def literal_isogclr(z0, z1, steps):
    """Steps of iSogCLR on the same projections: last objective, τ and u of each image and head."""
    tau = {(c, i): 0.2 for c in range(C) for i in range(N)}
    momentum = dict.fromkeys(tau, 0.0)
    average = dict.fromkeys(tau)
    for _ in range(steps):
        objective, gradients, means = 0.0, {key: [] for key in tau}, {key: [] for key in tau}
        for c, view, i in anchors():
            t = tau[c, i]
            s_pos, negatives = negatives_of(z0, z1, c, view, i)
            h = [s - s_pos for s in negatives]
            exponentials = [math.exp(x / t) for x in h]
            g = sum(exponentials) / len(h)
            u = g if average[c, i] is None else 0.4 * average[c, i] + 0.6 * g
            pull = sum(e * x / t for e, x in zip(exponentials, h, strict=True)) / len(h) / u
            gradients[c, i].append(math.log(u) + 0.3 - pull)
            means[c, i].append(math.log(g))
            objective += t * (math.log(g) + 0.3)
        for key in tau:
            gradient = sum(gradients[key]) / 2
            momentum[key] = 0.1 * momentum[key] + 0.9 * gradient
            tau[key] = min(max(tau[key] - 0.01 * momentum[key], 0.05), 0.7)
            g = math.exp(sum(means[key]) / 2)
            average[key] = g if average[key] is None else 0.4 * average[key] + 0.6 * g
    return objective / (2 * N * C), tau, average


@pytest.mark.parametrize("max_pairs", [None, 10])
def test_isogclr(max_pairs):
    z0, z1 = views()
    scheme = isogclr()
    loss = amcl.ContrastiveLoss(C, scheme, positive_in_denominator=False, max_pairs=max_pairs)
    scheme.set_num_images(20)
    indices = torch.tensor([7, 3, 19, 0, 4])
    scheme.double()
    for _ in range(3):
        loss.set_images(indices)
        value = loss(z0, z1)
        if scheme.individual_tau.dtype != torch.float64:
            scheme.double()
    objective, tau, average = literal_isogclr(z0.detach(), z1.detach(), steps=3)
    assert value.item() == pytest.approx(objective, rel=1e-6)
    for (c, i), expected in tau.items():
        image = indices[i]
        assert scheme.individual_tau[c, image].item() == pytest.approx(expected, rel=1e-6)
        assert scheme.log_average[c, image].item() == pytest.approx(
            math.log(average[c, i]), rel=1e-5
        )
    others = [i for i in range(20) if i not in indices.tolist()]
    assert (scheme.individual_tau[:, others] == torch.tensor(0.2)).all()


def test_the_gradient_of_isogclr_is_that_of_the_moving_average():
    z0, z1 = views()
    scheme = isogclr()
    loss = amcl.ContrastiveLoss(
        C, scheme, positive_in_denominator=False, negatives="other_view"
    ).double()
    scheme.set_num_images(N)
    for _ in range(2):
        before = scheme.log_average.clone(), scheme.individual_tau.clone()
        loss.set_images(torch.arange(N))
        value = loss(z0, z1)
    (gradient,) = torch.autograd.grad(value, z0)
    log_u, tau = (x.double().unsqueeze(-1) for x in before)
    unit0, unit1 = (torch.nn.functional.normalize(z, dim=-1) for z in (z0, z1))
    s = unit0 @ unit1.mT
    h = s - s.diagonal(dim1=1, dim2=2).unsqueeze(-1)
    off = ~torch.eye(N, dtype=torch.bool)
    g = (torch.exp(h / tau) * off).sum(-1) / (N - 1)
    u = 0.4 * log_u.squeeze(-1).exp() + 0.6 * g
    expected = (tau.squeeze(-1) / u.detach() * g).mean()  # ∇(τ log u) with u held in 1/u
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, z0)[0], rtol=1e-5, atol=1e-8)


def test_isogclr_is_evaluated_with_the_mean_temperature_and_left_alone():
    scheme = isogclr()
    loss = amcl.ContrastiveLoss(C, scheme)
    scheme.set_num_images(N)
    loss.set_images(torch.arange(N))
    z0, z1 = (z.float() for z in views())
    loss(z0, z1)
    state = {name: value.clone() for name, value in scheme.state_dict().items()}
    loss.eval()
    tau = loss.pair_matrix(z0, z1).tau
    expected = scheme.individual_tau.mean(1).view(C, 1, 1).expand_as(tau)
    torch.testing.assert_close(tau, expected)
    loss(z0, z1)
    for name, value in scheme.state_dict().items():
        assert torch.equal(value, state[name])


def test_the_state_of_isogclr_comes_back_in_its_size():
    scheme = isogclr()
    loss = amcl.ContrastiveLoss(C, scheme)
    scheme.set_num_images(12)
    loss.set_images(torch.arange(N))
    loss(*(z.float() for z in views()))
    again = isogclr()
    again.load_state_dict(scheme.state_dict())
    assert again.individual_tau.shape == (C, 12)
    assert torch.equal(again.individual_tau, scheme.individual_tau)
    assert (again.individual_tau != 0.2).any()


def test_isogclr_names_what_it_misses():
    loss = amcl.ContrastiveLoss(C, isogclr())
    z0, z1 = views()
    with pytest.raises(ValueError, match=r"none were given: call loss\.set_images"):
        loss(z0, z1)
    loss.set_images(torch.arange(3))
    with pytest.raises(ValueError, match="3 were given"):
        loss(z0, z1)
    loss.set_images(torch.arange(N))
    with pytest.raises(ValueError, match="set_num_images"):
        loss(z0, z1)


@pytest.mark.parametrize("scheme", [isogclr(), OneSidedTemperature(D)])
def test_temperatures_of_images_are_none_of_channels(scheme):
    with pytest.raises(ValueError, match="channels are none"):
        amcl.CrossCorrelationLoss(C, scheme.double())(*views())


def test_a_one_sided_direction_is_learned():
    scheme = OneSidedTemperature(D).double()
    amcl.ContrastiveLoss(C, scheme)(*views()).backward()
    assert scheme.direction.grad.abs().sum() > 0
    assert all(p.grad.abs().sum() > 0 for p in scheme.phi.parameters())


RANGES = {"lower": (0.05, 0.2), "upper": (0.15, 0.6)}
PRIORS = (0.1, 0.4)


@pytest.mark.parametrize("max_pairs", [None, 30])
@pytest.mark.parametrize("form", [{}, {"form": "top_k", "top_k": 3}, {"omega_place": "outside"}])
def test_heads_with_priors_of_their_own_are_losses_of_one_head_each(max_pairs, form):
    z0, z1 = views()
    scheme = AdaptiveTemperature(D, **RANGES).double()
    settings = {"beta": 0.3, "max_pairs": max_pairs, **form}
    value, stats = amcl.ContrastiveLoss(C, scheme, prior_tau=PRIORS, **settings)(
        z0, z1, return_stats=True
    )
    parts = []
    for c, prior_tau in enumerate(PRIORS):
        single = AdaptiveTemperature(D, lower=RANGES["lower"][c], upper=RANGES["upper"][c]).double()
        single.load_state_dict(scheme.state_dict())
        loss = amcl.ContrastiveLoss(1, single, prior_tau=prior_tau, **settings)
        parts.append(loss(z0[c : c + 1], z1[c : c + 1]))
    expected = torch.stack(parts).mean()
    torch.testing.assert_close(value, expected)
    (gradient,) = torch.autograd.grad(value, z0, retain_graph=True)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, z0)[0])
    low, high = stats.negative.tau.tolist()
    assert 0.05 < low < 0.15
    assert 0.2 < high < 0.6


def test_priors_of_heads_hold_in_other_losses_too():
    z0, z1 = views()
    h0, h1 = torch.randn(2, C, N, D, dtype=torch.float64)
    scheme = AdaptiveTemperature(D, **RANGES).double()
    cosine = amcl.NegativeCosineLoss(C, scheme, beta=0.3, prior_tau=PRIORS)(z0, z1, h0, h1)
    total = 0.0
    for c, prior_tau in enumerate(PRIORS):
        for z, h in ((z0, h1), (z1, h0)):
            keys = [scheme.keys(x)[c] for x in (z, h)]
            for i in range(N):
                r = (keys[0][i] * keys[1][i]).sum().item()
                lower, upper = RANGES["lower"][c], RANGES["upper"][c]
                tau = lower + (upper - lower) / (1 + math.exp(r))
                s = sim(z[c, i].tolist(), h[c, i].tolist())
                total += (-s / (2 * tau) + 0.3 * omega(tau, prior_tau)) / N
    assert cosine.item() == pytest.approx(total / C, rel=1e-10)


def test_the_drop_in_takes_a_prior_for_each_head():
    loss = amcl.AMCLLoss(3, D, prior_tau=(0.05, 0.1, 0.2))
    assert loss.prior_tau == (0.05, 0.1, 0.2)
    ranges = [(round(eta, 6), round(eta + iota, 6)) for eta, iota in loss.temperature.ranges]
    assert ranges == [(0.025, 0.075), (0.05, 0.15), (0.1, 0.3)]
    assert torch.isfinite(loss(*torch.randn(2, 3, 6, D)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: amcl.AMCLLoss(3, D, prior_tau=(0.1, 0.2)), "2 temperatures and there are 3 heads"),
        (lambda: amcl.AMCLLoss(2, D, prior_tau=(0.1, 0.0)), "prior_tau"),
        (lambda: amcl.AMCLLoss(2, D, prior_tau=(0.1, 0.2), lower=0.1, upper=0.2), "leave out eta"),
        (lambda: AdaptiveTemperature(D, lower=(0.1, 0.2), upper=(0.3,)), "one for each head"),
        (
            lambda: FirstHeadTemperature(AdaptiveTemperature(D, **RANGES)),
            "ranges for 2 heads: give one range",
        ),
        (lambda: AlignmentTemperature(alpha=2.0), r"alpha and baseline must lie in \[0, 1\]"),
        (lambda: AlignmentTemperature(baseline=-0.1), "alpha and baseline"),
        (lambda: SimilarityTemperature(0.3, 0.1), "swap them"),
        (lambda: PositiveScaleTemperature(0.0), "factor"),
        (lambda: IndividualTemperature(1.0), "choose one inside"),
        (lambda: IndividualTemperature(gamma=0.0), "gamma must lie"),
        (lambda: IndividualTemperature(rho=-1.0), "rho"),
        (
            lambda: amcl.ContrastiveLoss(1, ConstantTemperature(), head_diversity=1.0),
            "there is one head",
        ),
        (lambda: amcl.AMCLLoss(3, D, head_diversity=-1.0), "head_diversity"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_ranges_of_another_number_of_heads_are_named():
    scheme = AdaptiveTemperature(D, **RANGES)
    with pytest.raises(ValueError, match="2 heads, and 3 heads"):
        amcl.ContrastiveLoss(3, scheme)(*torch.randn(2, 3, 4, D))
