"""What the losses become in their limits, against formulas written another way."""

import math

import pytest
import torch
import torch.nn.functional as F

import amcl
from amcl.functional import (
    invariance,
    literal_prior_tau,
    mises_fisher_weights,
    most_similar,
    omega,
    pair_logit,
    pair_logsumexp,
    sigma,
    softmax_contrast,
)
from amcl.temperature import AdaptiveTemperature, ConstantTemperature
from schemes import SCHEMES, projections

BETAS = [0.0, 0.1, 10.0]


@pytest.fixture
def views():
    return torch.randn(2, 1, 9, 16, dtype=torch.float64).unbind(0)


def similarities(z0, z1):
    """All 2N × 2N cosines of one head, with −∞ for an item with itself."""
    z = F.normalize(torch.cat([z0[0], z1[0]]), dim=1)
    s = z @ z.T
    return s.masked_fill(torch.eye(len(s), dtype=torch.bool), -torch.inf)


def partners(n):
    return torch.arange(2 * n).roll(n)


def equal(value, expected):
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("beta", BETAS)
def test_one_head_and_constant_tau_is_simclr(views, beta):
    loss = amcl.ContrastiveLoss(1, ConstantTemperature(0.2), beta=beta)
    equal(loss(*views), F.cross_entropy(similarities(*views) / 0.2, partners(9)))


@pytest.mark.parametrize("beta", BETAS)
def test_without_the_positive_in_the_denominator_it_is_the_decoupled_loss(views, beta):
    loss = amcl.ContrastiveLoss(
        1, ConstantTemperature(0.2), positive_in_denominator=False, beta=beta
    )
    s = similarities(*views)
    s_pos = s.gather(1, partners(9)[:, None])
    s_neg = s.scatter(1, partners(9)[:, None], -torch.inf)
    expected = -torch.log((s_pos / 0.2).exp().squeeze(1) / (s_neg / 0.2).exp().sum(1)).mean()
    equal(loss(*views), expected)


TWO_SCHEMES = {
    "constant": lambda: ConstantTemperature(0.2),
    "adaptive": lambda: AdaptiveTemperature(16).double(),
}


@pytest.mark.parametrize("scheme", TWO_SCHEMES)
def test_dcl_is_the_softmax_without_the_positive_in_the_denominator(views, scheme):
    temperature = TWO_SCHEMES[scheme]()
    dcl = amcl.ContrastiveLoss(1, temperature, form="dcl", beta=0.3)
    plain = amcl.ContrastiveLoss(1, temperature, positive_in_denominator=False, beta=0.3)
    assert dcl(*views) == plain(*views)
    assert not dcl.positive_in_denominator


def test_dclw_weights_far_positives_more(views):
    s = similarities(*views)
    s_pos = s.gather(1, partners(9)[:, None]).squeeze(1)
    s_neg = s.scatter(1, partners(9)[:, None], -torch.inf)
    first = (s_pos[:9] / 0.5).exp()
    weight = (2 - first / first.mean()).repeat(2)  # each view by itself, as the authors do
    expected = (torch.logsumexp(s_neg / 0.1, dim=1) - weight * s_pos / 0.1).mean()
    equal(amcl.ContrastiveLoss(1, ConstantTemperature(0.1), form="dclw")(*views), expected)


@pytest.mark.parametrize("scheme", TWO_SCHEMES)
def test_wide_weights_of_dclw_are_one(views, scheme):
    temperature = TWO_SCHEMES[scheme]()
    dclw = amcl.ContrastiveLoss(1, temperature, form="dclw", dclw_sigma=1e9, beta=0.3)
    dcl = amcl.ContrastiveLoss(1, temperature, form="dcl", beta=0.3)
    torch.testing.assert_close(dclw(*views), dcl(*views), rtol=1e-8, atol=1e-8)


def test_weights_of_dclw_have_a_mean_of_one_in_each_head_and_stay_finite():
    s_pos = torch.linspace(-1, 1, 12).view(2, 6, 1)
    for width in (1e-3, 0.5, 1e3):
        weights = mises_fisher_weights(s_pos, width)
        torch.testing.assert_close(weights.mean(1), torch.ones(2, 1))
        assert (weights <= 2).all()
        assert (weights.diff(dim=1) <= 0).all()  # the closer a pair, the less it counts


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("scheme", TWO_SCHEMES)
def test_hard_negatives_without_hardness_and_bias_are_the_softmax(views, scheme, inside):
    temperature = TWO_SCHEMES[scheme]()
    options = {"beta": 0.3, "positive_in_denominator": inside}
    hard = amcl.ContrastiveLoss(1, temperature, form="hard", hard_beta=0, debias=0, **options)
    assert hard(*views) == amcl.ContrastiveLoss(1, temperature, **options)(*views)
    nearly = amcl.ContrastiveLoss(1, temperature, form="hard", hard_beta=1e-9, debias=0, **options)
    torch.testing.assert_close(nearly(*views), hard(*views), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("tau", [0.5, 0.05])
@pytest.mark.parametrize(("hard_beta", "debias"), [(0.0, 0.1), (1.0, 0.1), (2.0, 0.0), (0.5, 0.9)])
def test_hard_negatives_are_those_of_hcl(views, tau, hard_beta, debias):
    """At debias = 0.9 the lower bound of the sum over negatives holds for most anchors."""
    z1 = views[0] + 0.3 * views[1]  # positives closer than negatives
    loss = amcl.ContrastiveLoss(
        1, ConstantTemperature(tau), form="hard", hard_beta=hard_beta, debias=debias
    )
    s = similarities(views[0], z1)
    pos = (s.gather(1, partners(9)[:, None]).squeeze(1) / tau).exp()
    neg = (s.scatter(1, partners(9)[:, None], -torch.inf) / tau).exp()
    importance = neg**hard_beta * (neg > 0)
    weighted = (importance * neg).sum(1) / (importance.sum(1) / 16)
    corrected = (weighted - debias * 16 * pos) / (1 - debias)
    bound = 16 * math.exp(-1 / tau)
    if debias == 0.9:
        assert (corrected < bound).sum() > 9
    expected = -(pos / (pos + corrected.clamp(min=bound))).log().mean()
    torch.testing.assert_close(loss(views[0], z1), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("tau", [1e-3, 1e3])
def test_hard_negatives_stay_finite_at_any_temperature(tau):
    z0, z1 = torch.randn(2, 1, 9, 16).unbind(0)
    for other in (z0.clone(), -z0, z1):  # exp(1/τ) is far outside of float32
        z = z0.clone().requires_grad_()
        value = amcl.ContrastiveLoss(1, ConstantTemperature(tau), form="hard", debias=0.5)(z, other)
        value.backward()
        assert value.isfinite()
        assert z.grad.isfinite().all()


def test_the_sigmoid_of_two_views_is_siglip(views):
    z0, z1 = (F.normalize(z[0], dim=1) for z in views)
    expected = 0.0
    for i in range(9):
        for j in range(9):
            sign = 1 if i == j else -1
            logit = (z0[i] @ z1[j]).item() / 0.1 - 3.0
            expected += math.log(1 + math.exp(-sign * logit)) / 9
    loss = amcl.ContrastiveLoss(
        1, ConstantTemperature(0.1), form="sigmoid", sigmoid_bias=-3.0, negatives="other_view"
    )
    assert loss(*views).item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("beta", BETAS)
def test_one_head_and_a_queue_is_moco(views, beta):
    queue = torch.randn(1, 20, 16, dtype=torch.float64)
    q, k, negatives = (F.normalize(z[0], dim=1) for z in (*views, queue))
    logits = torch.cat([torch.einsum("nd,nd->n", q, k)[:, None], q @ negatives.T], dim=1)
    expected = F.cross_entropy(logits / 0.07, torch.zeros(9, dtype=torch.long))
    loss = amcl.ContrastiveLoss(1, ConstantTemperature(0.07), beta=beta)
    equal(loss(*views, queue), expected)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_where_all_labels_differ_supcon_is_infonce(scheme):
    """For every scheme, with its gradients."""
    temperature = SCHEMES[scheme].make(4).double()
    views = projections(temperature, (2, 6, 4), (2, 6, 4))
    supervised = amcl.SupervisedContrastiveLoss(2, temperature, beta=0.3, prior_tau=0.2)
    contrastive = amcl.ContrastiveLoss(2, temperature, beta=0.3, prior_tau=0.2)
    value, expected = supervised(*views, torch.randperm(6) - 3), contrastive(*views)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    inputs = [*views, *temperature.parameters()]
    for found, wanted in zip(
        torch.autograd.grad(value, inputs), torch.autograd.grad(expected, inputs), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-10)


def test_one_head_and_constant_tau_is_supcon(views):
    """As a cross-entropy with a target spread evenly over the positives."""
    labels = torch.tensor([0, 1, 0, 2, 1, 0, 3, 3, 0]).repeat(2)
    s = similarities(*views)
    positive = (labels[:, None] == labels) & ~torch.eye(len(s), dtype=torch.bool)
    log_share = (s / 0.2).log_softmax(1).masked_fill(~positive, 0.0)
    expected = -(log_share.sum(1) / positive.sum(1)).mean()
    loss = amcl.SupervisedContrastiveLoss(1, ConstantTemperature(0.2))
    equal(loss(*views, labels[:9]), expected)


def test_one_head_against_the_other_view_is_moco_v3(views):
    q, k = (F.normalize(z[0], dim=1) for z in views)
    expected = F.cross_entropy(q @ k.T / 0.2, torch.arange(9))
    equal(
        amcl.ContrastiveLoss(1, ConstantTemperature(0.2), negatives="other_view")(*views), expected
    )


@pytest.mark.parametrize("kappa", [1, 3, 16])
def test_constant_tau_and_top_k_is_a_difference_of_means(views, kappa):
    """κ = K = 16 is the mean over all negatives. It is not NT-Xent, whatever the print says."""
    s = similarities(*views)
    s_pos = s.gather(1, partners(9)[:, None]).squeeze(1)
    s_neg = s.scatter(1, partners(9)[:, None], -torch.inf)
    expected = ((s_neg.sort(1, descending=True).values[:, :kappa].mean(1) - s_pos) / 0.2).mean()
    options = {"positive_in_denominator": False, "beta": 0.7}
    loss = amcl.ContrastiveLoss(1, ConstantTemperature(0.2), form="top_k", top_k=kappa, **options)
    equal(loss(*views), expected)
    if kappa == 1:
        equal(
            amcl.ContrastiveLoss(1, ConstantTemperature(0.2), form="max", **options)(*views),
            expected,
        )


def test_top_k_softmax_over_all_negatives_is_the_softmax(views):
    temperature = AdaptiveTemperature(16).double()
    soft = amcl.ContrastiveLoss(1, temperature, beta=0.3)
    top = amcl.ContrastiveLoss(1, temperature, beta=0.3, form="top_k_softmax", top_k=16)
    equal(top(*views), soft(*views))


@pytest.mark.parametrize("beta", BETAS)
def test_unit_tau_is_simsiam_plus_a_constant(views, beta):
    p0, p1 = views
    h0, h1 = torch.randn(2, 9, 16, dtype=torch.float64)
    loss = amcl.NegativeCosineLoss(1, ConstantTemperature(1.0), beta=beta)
    expected = -0.5 * F.cosine_similarity(p0[0], h1).mean()
    expected -= 0.5 * F.cosine_similarity(p1[0], h0).mean()
    equal(loss(p0, p1, h0, h1), expected + 2 * beta)


@pytest.mark.parametrize("beta", BETAS)
def test_unit_tau_is_barlow_twins_plus_a_constant(views, beta):
    bn = torch.nn.BatchNorm1d(16, affine=False, dtype=torch.float64)
    c = bn(views[0][0]).T @ bn(views[1][0]) / 9
    on_diag = (torch.diagonal(c) - 1).pow(2).sum()
    off_diag = c.flatten()[:-1].view(15, 17)[:, 1:].pow(2).sum()
    loss = amcl.CrossCorrelationLoss(1, ConstantTemperature(1.0), lam=0.005, beta=beta)
    equal(loss(*views), on_diag + 0.005 * off_diag)  # Ω⁺ and Ω⁻ are means of the same number
    literal = amcl.CrossCorrelationLoss(
        1, ConstantTemperature(1.0), lam=0.005, beta=beta, omega_reduction="sum"
    )
    equal(literal(*views), on_diag + 0.005 * off_diag + beta * (16 - 16 * 15))


@pytest.mark.parametrize("images", [9, 40])
def test_unit_tau_is_vicreg_as_its_code_has_it(images):
    """With fewer images than channels, and more."""
    x, y = 0.8 * torch.randn(2, images, 16, dtype=torch.float64) + 0.3
    std = [torch.sqrt(z.var(dim=0) + 1e-4) for z in (x, y)]
    cov = [torch.cov(z.T).fill_diagonal_(0.0) for z in (x, y)]
    expected = 25 * F.mse_loss(x, y) + sum(25 * F.relu(1 - s).mean() / 2 for s in std)
    expected += sum(each.square().sum() / 16 for each in cov)
    equal(amcl.VICRegLoss(1, ConstantTemperature(1.0))(x, y), expected)


def test_the_invariance_of_vicreg_has_its_minimum_inside_whatever_the_distance():
    """d/τ + β (log τ/τ₀ + 1/τ) is least at τ₀ (1 + d/β), also where d = 0."""
    beta, prior_tau = 0.5, 0.8
    for distance in (0.0, 0.1, 2.0):
        expected = prior_tau * (1 + distance / beta)
        grid = expected * torch.linspace(0.5, 2.0, 1501, dtype=torch.float64).view(1, -1, 1)
        z0 = torch.zeros(1, 1501, 4, dtype=torch.float64)
        value = invariance(z0, z0 + math.sqrt(distance), grid, beta, prior_tau)
        assert grid.flatten()[value.argmin()].item() == pytest.approx(expected, rel=1e-3)


def test_at_beta_one_the_pair_form_is_the_log_of_a_gaussian():
    """Eq. 8 with the squared distance 2 − 2s and variance τ."""
    dim, tau = 7, torch.tensor(0.3, dtype=torch.float64)
    z0, z1 = F.normalize(torch.randn(2, dim, dtype=torch.float64), dim=1)
    log_density = torch.distributions.Normal(0.0, tau.sqrt()).log_prob(z0 - z1).sum()
    u = pair_logit(z0 @ z1, tau, 1.0, literal_prior_tau(dim))
    equal(u - dim / 2 * math.log(2 * math.pi), log_density)


@pytest.mark.parametrize("positive_in_denominator", [True, False])
def test_the_softmax_forms_are_the_likelihood_ratio(positive_in_denominator):
    """Eq. 6 (NT-Xent) and Eq. 9 (InfoNCE): a ratio of Gaussians, τ from φ, β = 1, τ₀ = 2/D."""
    n, dim = 6, 4
    z0, z1, queue = torch.randn(3, 2, n, dim, dtype=torch.float64).unbind(0)
    temperature = AdaptiveTemperature(dim, phi_output="plain").double()
    loss = amcl.ContrastiveLoss(
        2,
        temperature,
        positive_in_denominator=positive_in_denominator,
        similarity="plain",
        beta=1.0,
        prior_tau="literal",
        head_reduction="sum",
    )

    def density(a, b):
        a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
        r = (temperature.phi(a) * temperature.phi(b)).sum(-1)
        std = sigma(r, temperature.eta, temperature.iota).sqrt()
        return torch.distributions.Normal(0.0, std[..., None]).log_prob(a - b).sum(-1).exp()

    numerator = density(z0, z1)
    denominator = density(z0[:, :, None], queue[:, None]).sum(-1)
    if positive_in_denominator:
        denominator = denominator + numerator
    equal(loss(z0, z1, queue), -torch.log(numerator / denominator).sum(0).mean())


def test_the_maximum_approximates_the_log_of_the_sum():
    """Eq. 5 as printed, a τ and an Ω for each pair: u of n* ≤ log Σ exp u, and ≤ log K below it
    for the anchors whose most similar negative is also the one with the largest u."""
    s = torch.rand(1, 50, 14, dtype=torch.float64)
    tau = sigma(4 * s, 0.05, 1.0)  # falls with similarity, as σ does
    best = most_similar(s, 1)
    u = pair_logit(s, tau, 1.0, literal_prior_tau(5))
    hard, soft = (
        u.gather(-1, best).squeeze(-1),
        pair_logsumexp(s, tau, None, 1.0, literal_prior_tau(5)),
    )
    assert (hard < soft).all()
    largest = (u.argmax(-1, keepdim=True) == best).squeeze(-1)
    assert largest.any()
    assert (soft[largest] < hard[largest] + math.log(14)).all()


@pytest.mark.parametrize("prior_tau", [0.1, 1.0, literal_prior_tau(128)])
def test_the_minimum_of_omega_is_the_prior(prior_tau):
    grid = prior_tau * torch.linspace(0.5, 2.0, 1501, dtype=torch.float64)
    best = grid[omega(grid, prior_tau).argmin()].item()
    assert best == pytest.approx(prior_tau, rel=1e-3)


def test_the_positive_branch_has_its_minimum_where_the_derivation_says():
    """(β − s)/τ + β (D/2) log τ is least at τ* = 2(β − s)/(βD), for s < β."""
    dim, beta, s = 10, 1.0, 0.4
    expected = 2 * (beta - s) / (beta * dim)
    grid = expected * torch.linspace(0.5, 2.0, 1501, dtype=torch.float64)
    u = pair_logit(torch.tensor(s, dtype=torch.float64), grid, beta, literal_prior_tau(dim))
    assert grid[u.argmax()].item() == pytest.approx(expected, rel=1e-3)


def test_where_positive_temperatures_alone_adapt_a_collapse_is_cheap():
    """All similarities 1: log(1 + K exp(1/τ⁻ − 1/τ⁺)), which is log(1 + K) where both are one."""
    ones = torch.ones(1, 1, 510, dtype=torch.float64)
    tau = torch.full((), 0.1, dtype=torch.float64)
    lowest = AdaptiveTemperature(128, lower=0.05, upper=0.15).bounds()[0]
    free = softmax_contrast(ones[..., :1], torch.as_tensor(lowest), ones, tau)
    held = softmax_contrast(ones[..., :1], tau, ones, tau)
    assert held.item() == pytest.approx(math.log(511))
    assert free.item() == pytest.approx(math.log1p(510 * math.exp(10 - 1 / lowest)))
    assert free < 0.15 * held
