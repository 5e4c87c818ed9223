"""Vectorized against literal: every loss, form and scheme to 1e-10 in float64, and gradcheck."""

import itertools
from unittest import mock

import pytest
import torch
from torch.func import functional_call

import amcl
from amcl.losses.forms import FORMS as LOSS_FORMS
from amcl.temperature import AdaptiveTemperature, FirstHeadTemperature
from covering import cover
from reference import contrastive, cross_correlation, negative_cosine, supervised, vicreg
from schemes import (
    ON_CHANNELS,
    PAIR_BY_PAIR,
    SCHEMES,
    WITH_GRADIENT,
    items,
    pair_up,
    phi_layers,
    projections,
    samples,
    scale_of,
)

FORMS = {
    "softmax": {"form": "softmax"},
    "top_k": {"form": "top_k", "top_k": 2},
    "top_k_softmax": {"form": "top_k_softmax", "top_k": 2},
    "max": {"form": "max"},
    "top_k, set form of Ω": {"form": "top_k", "top_k": 2, "omega_set": "literal"},
    "softmax, Ω outside": {"form": "softmax", "omega_place": "outside"},
    "softmax, set form of Ω outside": {
        "form": "softmax",
        "omega_place": "outside",
        "omega_set": "literal",
    },
    "dcl": {"form": "dcl"},
    "dclw": {"form": "dclw", "dclw_sigma": 0.5},
    "dclw, Ω outside": {"form": "dclw", "dclw_sigma": 0.2, "omega_place": "outside"},
    "hard": {"form": "hard", "hard_beta": 0.7, "debias": 0.1},
    "hard, not debiased": {"form": "hard", "hard_beta": 0.7, "debias": 0.0},
    "hard, Ω outside": {
        "form": "hard",
        "hard_beta": 0.7,
        "debias": 0.1,
        "omega_place": "outside",
        "omega_set": "literal",
    },
    "debiased": {"form": "hard", "hard_beta": 0.0, "debias": 0.3},
    "sigmoid": {"form": "sigmoid", "sigmoid_bias": -2.0},
    "sigmoid, Ω outside": {"form": "sigmoid", "sigmoid_bias": -2.0, "omega_place": "outside"},
}
SIZES = [((1, 2, 3), "mean"), ((3, 4, 5), "sum"), ((2, 5, 3), "mean")]
# β with τ₀, and the sizes with the reduction
OMEGAS = [(0.0, 0.1), (0.3, 0.1), (2.0, "literal")]


def close(value, expected):
    assert value.dtype == torch.float64
    assert value.item() == pytest.approx(expected, rel=1e-10, abs=1e-10)


def accepted(form, positive_in_denominator, similarity):
    """The options that a form takes beside its own."""
    form = LOSS_FORMS[FORMS[form]["form"]]
    options = {"similarity": similarity if form.shift_invariant else "plain"}
    if form.positive_in_denominator is None:
        options["positive_in_denominator"] = positive_in_denominator
    return options


def reference_options(options, beta, prior_tau, dim):
    names = {"top_k": "kappa", "sigmoid_bias": "bias"}
    options = {names.get(k, k): v for k, v in options.items()}
    return {**options, "beta": beta, "prior_tau": 2 / dim if prior_tau == "literal" else prior_tau}


def check_gradients(loss, *inputs):
    """gradcheck with respect to the inputs and to the scheme's parameters.

    Of each it tries one random direction instead of every element (`fast_mode`), with tolerances
    far below the usual (1e-5 and 1e-3), so that an error in one element alone still shows. The gate
    of adaptive temperatures and the weights of DCLW, which pass no gradient, are held fixed.
    """
    loss.eval()
    named = dict(loss.named_parameters())

    def call(*args):
        given = dict(zip(named, args[len(inputs) :], strict=True))
        return functional_call(loss, given, args[: len(inputs)])

    tight = {"atol": 1e-7, "rtol": 1e-5}
    gate = mock.patch.object(
        AdaptiveTemperature, "gate", lambda _, z, shared=False: z.new_full((len(z), 1, 1), 0.7)
    )
    weights = mock.patch.object(
        amcl.functional,
        "mises_fisher_weights",
        lambda s, sigma: torch.linspace(0.5, 1.5, s.shape[1]).to(s)[:, None].expand_as(s),
    )
    with gate, weights:
        assert torch.autograd.gradcheck(call, (*inputs, *named.values()), fast_mode=True, **tight)


OPTIONS = {
    "scheme_name": list(SCHEMES),
    "form": list(FORMS),
    "negatives": ["both_views", "other_view", "queue"],
    "size": SIZES,
    "omega": OMEGAS,
    "positive_in_denominator": [True, False],
    "similarity": ["plain", "relative"],
}
NAMES = ("scheme_name", "form", "positive_in_denominator", "similarity")


def name_of(options):
    return "-".join(map(str, options.values()))


@pytest.mark.parametrize("options", cover(OPTIONS, strength=3), ids=name_of)
def test_contrastive(options):
    check_contrastive(**options)


@pytest.mark.slow
@pytest.mark.parametrize("scheme_name", SCHEMES)
@pytest.mark.parametrize("form", FORMS)
def test_contrastive_in_all_combinations(scheme_name, form):
    others = {
        name: values for name, values in OPTIONS.items() if name not in ("scheme_name", "form")
    }
    for values in itertools.product(*others.values()):
        check_contrastive(scheme_name, form, **dict(zip(others, values, strict=True)))


def check_contrastive(
    scheme_name, form, negatives, size, omega, positive_in_denominator, similarity
):
    (c, n, d), reduction = size
    beta, prior_tau = omega
    if negatives == "other_view" and n < 3:
        n = 3  # κ = 2 wants two negatives
    scheme = SCHEMES[scheme_name]
    temperature = scheme.make(d).double()
    loss = amcl.ContrastiveLoss(
        c,
        temperature,
        negatives="other_view" if negatives == "other_view" else "both_views",
        beta=beta,
        prior_tau=prior_tau,
        head_reduction=reduction,
        **FORMS[form],
        **accepted(form, positive_in_denominator, similarity),
    )
    z0, z1, queue = projections(temperature, (c, n, d), (c, n, d), (c, 6, d))
    extra = temperature.extra_outputs
    view0, view1, given = items(z0, extra), items(z1, extra), items(queue, extra)
    pair_up(view0, view1)
    options = reference_options(FORMS[form], beta, prior_tau, d)
    options |= accepted(form, positive_in_denominator, similarity)
    tau = scheme.on_samples(temperature)
    if negatives == "queue":
        expected = contrastive.queue(c, view0, view1, given, tau, reduction, **options)
        close(loss(z0, z1, queue), expected)
    else:
        literal = getattr(contrastive, negatives)
        close(loss(z0, z1), literal(c, view0, view1, tau, reduction, **options))


@pytest.mark.parametrize(
    "options",
    cover({name: OPTIONS[name] for name in NAMES} | {"scheme_name": WITH_GRADIENT}, strength=2),
    ids=name_of,
)
def test_contrastive_gradients(options):
    check_contrastive_gradients(**options)


@pytest.mark.slow
@pytest.mark.parametrize("scheme_name", WITH_GRADIENT)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("positive_in_denominator", [True, False])
@pytest.mark.parametrize("similarity", ["plain", "relative"])
def test_contrastive_gradients_in_all_combinations(
    scheme_name, form, positive_in_denominator, similarity
):
    check_contrastive_gradients(scheme_name, form, positive_in_denominator, similarity)


def check_contrastive_gradients(scheme_name, form, positive_in_denominator, similarity):
    temperature = SCHEMES[scheme_name].make(3).double()
    loss = amcl.ContrastiveLoss(
        2,
        temperature,
        beta=0.3,
        **FORMS[form],
        **accepted(form, positive_in_denominator, similarity),
    ).double()
    z0, z1, queue = projections(temperature, (2, 3, 3), (2, 3, 3), (2, 4, 3))
    check_gradients(loss, z0, z1)
    check_gradients(loss, z0, z1, queue)


@pytest.mark.parametrize("scheme_name", SCHEMES)
@pytest.mark.parametrize("shared_target", [True, False])
def test_negative_cosine(scheme_name, shared_target):
    scheme = SCHEMES[scheme_name]
    for ((c, n, d), reduction), (beta, prior_tau) in itertools.product(SIZES, OMEGAS):
        temperature = scheme.make(d).double()
        loss = amcl.NegativeCosineLoss(
            c, temperature, beta=beta, prior_tau=prior_tau, head_reduction=reduction
        )
        z0, z1 = projections(temperature, (c, n, d), (c, n, d))
        targets = torch.randn(2, 1 if shared_target else c, n, d, dtype=torch.float64)
        h0, h1 = targets.squeeze(1) if shared_target else targets
        predictions = [items(z, temperature.extra_outputs) for z in (z0, z1)]
        targets = [items(h.expand(c, n, d), 0) for h in (h0, h1)]
        pair_up(predictions[0], targets[1])
        pair_up(predictions[1], targets[0])
        expected = negative_cosine.symmetric_negative_cosine(
            c,
            *predictions,
            *targets,
            scheme.on_samples(temperature),
            reduction,
            **reference_options({}, beta, prior_tau, d),
        )
        close(loss(z0, z1, h0, h1), expected)


@pytest.mark.parametrize("scheme_name", WITH_GRADIENT)
def test_negative_cosine_gradients(scheme_name):
    temperature = SCHEMES[scheme_name].make(3).double()
    loss = amcl.NegativeCosineLoss(2, temperature, beta=0.3)
    z0, z1 = projections(temperature, (2, 3, 3), (2, 3, 3))
    h0, h1 = torch.randn(2, 3, 3, dtype=torch.float64)
    check_gradients(loss, z0, z1, h0, h1)


def test_negative_cosine_stops_the_gradient_at_targets_but_trains_phi():
    loss = amcl.NegativeCosineLoss(2, AdaptiveTemperature(3), beta=0.3)
    z0, z1 = torch.randn(2, 2, 4, 3).unbind(0)
    h0, h1 = torch.randn(2, 4, 3, requires_grad=True).unbind(0)
    loss(z0, z1, h0, h1).backward()  # the only way to φ that needs no gradient of z
    assert all(p.grad.abs().sum() > 0 for p in loss.parameters())
    assert h0.grad_fn is not None
    assert h0._base.grad is None


@pytest.mark.parametrize("scheme_name", ON_CHANNELS)
@pytest.mark.parametrize("omega_reduction", ["mean", "sum"])
def test_cross_correlation(scheme_name, omega_reduction):
    scheme = SCHEMES[scheme_name]
    sizes = [((1, 3, 2), "mean"), ((3, 4, 5), "sum"), ((2, 5, 3), "mean")]
    for ((c, n, d), reduction), (beta, prior_tau) in itertools.product(sizes, OMEGAS):
        temperature = scheme.make(d).double()
        loss = amcl.CrossCorrelationLoss(
            c,
            temperature,
            lam=0.05,
            beta=beta,
            prior_tau=prior_tau,
            omega_reduction=omega_reduction,
            head_reduction=reduction,
        )
        z0, z1 = projections(temperature, (c, n, d), (c, n, d))
        expected = cross_correlation.cross_correlation(
            c,
            items(z0, temperature.extra_outputs),
            items(z1, temperature.extra_outputs),
            scheme.on_channels(temperature),
            reduction,
            lam=0.05,
            omega_reduction=omega_reduction,
            **reference_options({}, beta, prior_tau, d),
        )
        close(loss(z0, z1), expected)


@pytest.mark.parametrize("first_head", [False, True])
def test_cross_correlation_with_phi_on_channels_as_printed(first_head):
    c, n, d = 2, 5, 3
    adaptive = AdaptiveTemperature(n).double()
    temperature = FirstHeadTemperature(adaptive) if first_head else adaptive
    loss = amcl.CrossCorrelationLoss(c, temperature, beta=0.3, phi_on="channels")
    z0, z1 = projections(temperature, (c, n, d), (c, n, d))
    tau = cross_correlation.phi_on_channels(
        phi_layers(adaptive), adaptive.eta, adaptive.iota, scale_of(adaptive)
    )
    if first_head:
        tau = cross_correlation.first_head(tau)
    expected = cross_correlation.cross_correlation(
        c,
        items(z0, 0),
        items(z1, 0),
        tau,
        "mean",
        lam=5e-3,
        omega_reduction="mean",
        beta=0.3,
        prior_tau=1.0,
    )
    close(loss(z0, z1), expected)
    check_gradients(loss, z0, z1)


def test_cross_correlation_as_printed():
    """Eq. 2.3 with 𝒞_lm = Σ z_ln z⁺_mn and φ on the raw values of a channel, sums everywhere."""
    c, n, d, lam, beta = 2, 5, 3, 0.05, 0.3
    scheme = AdaptiveTemperature(
        n, lower=0.5, upper=1.5, phi_input="raw", phi_output="plain"
    ).double()
    loss = amcl.CrossCorrelationLoss(
        *(c, scheme),
        lam=lam,
        beta=beta,
        prior_tau="literal",
        omega_reduction="sum",
        phi_on="channels",
        standardize=False,
        head_reduction="sum",
    )
    z0, z1 = projections(scheme, (c, n, d), (c, n, d))
    total, layers = 0.0, phi_layers(scheme)
    for head in range(c):
        columns0, columns1 = z0[head].T.tolist(), z1[head].T.tolist()
        for k in range(d):
            for m in range(d):
                r = samples.dot(samples.phi(layers, columns0[k]), samples.phi(layers, columns1[m]))
                tau = samples.sigma(r, scheme.eta, scheme.iota)
                entry = samples.dot(columns0[k], columns1[m])
                omega = samples.omega(tau, 2 / d)
                if k == m:
                    total += (1.0 - entry / tau) ** 2 + beta * omega
                else:
                    total += lam * entry**2 / tau - beta * omega
    close(loss(z0, z1), total)
    check_gradients(loss, z0, z1)


@pytest.mark.parametrize("scheme_name", [n for n in WITH_GRADIENT if n in ON_CHANNELS])
def test_cross_correlation_gradients(scheme_name):
    temperature = SCHEMES[scheme_name].make(3).double()
    loss = amcl.CrossCorrelationLoss(2, temperature, lam=0.05, beta=0.3)
    check_gradients(loss, *projections(temperature, (2, 4, 3), (2, 4, 3)))


@pytest.mark.parametrize("scheme_name", PAIR_BY_PAIR)
@pytest.mark.parametrize("weights", [(25.0, 25.0, 1.0), (0.3, 2.0, 0.7)], ids=str)
def test_vicreg(scheme_name, weights):
    """With fewer images than channels, as many, and more."""
    scheme = SCHEMES[scheme_name]
    sizes = [((1, 3, 4), "mean"), ((3, 4, 4), "sum"), ((2, 5, 3), "mean")]
    for ((c, n, d), reduction), (beta, prior_tau) in itertools.product(sizes, OMEGAS):
        temperature = scheme.make(d).double()
        loss = amcl.VICRegLoss(
            c,
            temperature,
            invariance_weight=weights[0],
            variance_weight=weights[1],
            covariance_weight=weights[2],
            beta=beta,
            prior_tau=prior_tau,
            head_reduction=reduction,
        )
        z0, z1 = projections(temperature, (c, n, d), (c, n, d))
        expected = vicreg.vicreg(
            c,
            items(z0, temperature.extra_outputs),
            items(z1, temperature.extra_outputs),
            scheme.on_samples(temperature),
            reduction,
            weights=weights,
            **reference_options({}, beta, prior_tau, d),
        )
        close(loss(z0, z1), expected)


@pytest.mark.parametrize("scheme_name", WITH_GRADIENT)
@pytest.mark.parametrize("images", [3, 6])
def test_vicreg_gradients(scheme_name, images):
    temperature = SCHEMES[scheme_name].make(4).double()
    loss = amcl.VICRegLoss(2, temperature, beta=0.3, covariance_weight=3.0)
    check_gradients(loss, *projections(temperature, (2, images, 4), (2, images, 4)))


LABELS = {"all differ": (4, 1, 2, 0, 3), "two classes": (0, 1, 1, 0, 1), "one class": (7,) * 5}


@pytest.mark.parametrize("scheme_name", SCHEMES)
@pytest.mark.parametrize("labels", LABELS)
def test_supervised_contrastive(scheme_name, labels):
    scheme = SCHEMES[scheme_name]
    for ((c, n, d), reduction), (beta, prior_tau) in itertools.product(SIZES, OMEGAS):
        temperature = scheme.make(d).double()
        loss = amcl.SupervisedContrastiveLoss(
            c, temperature, beta=beta, prior_tau=prior_tau, head_reduction=reduction
        )
        z0, z1 = projections(temperature, (c, n, d), (c, n, d))
        views = [items(z, temperature.extra_outputs) for z in (z0, z1)]
        pair_up(*views)
        expected = supervised.supcon(
            c,
            *views,
            LABELS[labels][:n],
            scheme.on_samples(temperature),
            reduction,
            **reference_options({}, beta, prior_tau, d),
        )
        close(loss(z0, z1, torch.tensor(LABELS[labels][:n])), expected)


@pytest.mark.parametrize("scheme_name", WITH_GRADIENT)
def test_supervised_contrastive_gradients(scheme_name):
    temperature = SCHEMES[scheme_name].make(3).double()
    loss = amcl.SupervisedContrastiveLoss(2, temperature, beta=0.3)
    z0, z1 = projections(temperature, (2, 4, 3), (2, 4, 3))
    check_gradients(loss, z0, z1, torch.tensor([0, 1, 0, 2]))


def test_raw_input_to_phi():
    temperature = AdaptiveTemperature(3, phi_input="raw", phi_output="plain").double()
    loss = amcl.ContrastiveLoss(2, temperature, beta=0.3, similarity="plain")
    z0, z1 = projections(temperature, (2, 4, 3), (2, 4, 3))
    tau = samples.adaptive(phi_layers(temperature), temperature.eta, temperature.iota, raw=True)
    options = reference_options({"form": "softmax"}, 0.3, 0.1, 3)
    close(
        loss(z0, z1),
        contrastive.both_views(2, items(z0, 0), items(z1, 0), tau, "mean", **options),
    )
