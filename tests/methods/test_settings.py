"""Settings of methods: what they reach, their defaults and checks."""

import pytest
from torch import nn

from factories import method_settings
from toy_methods import make


def test_settings_reach_the_temperature_and_the_loss():
    method = make(
        "simclr",
        temperature="adaptive",
        tau_lower=0.2,
        tau_upper=0.7,
        beta=0.3,
        prior_tau=0.25,
        phi_depth=2,
        phi_scale=3.0,
        phi_gradient=False,
        form="top_k",
        top_k=3,
        positive_in_denominator=False,
    )
    loss = method.loss
    assert (loss.temperature.eta, loss.temperature.iota) == pytest.approx((0.2, 0.5))
    assert loss.temperature.phi_scale == 3.0
    assert not loss.temperature.phi_gradient
    linears = [layer for layer in loss.temperature.phi if isinstance(layer, nn.Linear)]
    assert [layer.in_features for layer in linears] == [5, 5]
    assert (loss.beta, loss.prior_tau) == (0.3, 0.25)
    assert (loss.form, loss.top_k, loss.positive_in_denominator) == ("top_k", 3, False)
    assert make("simclr").loss.beta == 0  # no Ω where nothing adapts
    assert make("barlow", temperature="first-head", beta=0.3).loss.beta == 0.3
    paper = make("simclr", temperature="adaptive", omega_place="outside", omega_set="literal")
    assert (paper.loss.omega_place, paper.loss.omega_set) == ("outside", "literal")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (0.05, 0.15)),
        ({"tau": 0.2}, (0.1, 0.3)),  # τ₀ is the method's own τ
        ({"tau": 0.2, "prior_tau": 0.3}, (0.15, 0.45)),
        ({"prior_tau": "literal"}, (0.2, 0.6)),  # 2/D is 0.4 here
        ({"tau_lower": 0.01}, (0.01, 0.15)),
        ({"prior_tau": 0.3, "tau_upper": 0.2}, (0.15, 0.2)),
        ({"temperature": "scheduled"}, (0.1, 1.0)),
        ({"temperature": "scheduled", "tau_upper": 0.5}, (0.1, 0.5)),
    ],
)
def test_the_range_of_tau_follows_from_its_prior(given, expected):
    settings = method_settings("simclr", **{"temperature": "adaptive", "projector": (8, 5)} | given)
    assert settings.temperature.tau_range(5) == pytest.approx(expected)
    made = settings.make_temperature()
    if settings.adapts:
        assert (made.eta, made.eta + made.iota) == pytest.approx(expected)
    else:
        assert (made.tau_min, made.tau_max) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 0.1),
        ({"tau": 0.2}, 0.2),
        ({"tau": 0.2, "prior_tau": 0.3}, 0.3),
        ({"prior_tau": "literal"}, "literal"),
        ({"tau_lower": 0.5, "tau_upper": 1.5}, 1.0),  # τ lies outside: the middle of the range
    ],
)
def test_the_prior_is_the_temperature_unless_another_is_given(given, expected):
    settings = method_settings("simclr", temperature="adaptive", **given)
    assert settings.temperature.omega(settings.dim)[1] == expected
    assert settings.make_loss("both_views").prior_tau == expected


@pytest.mark.parametrize("name", ["simclr", "simsiam", "barlow"])
def test_every_method_takes_the_literal_prior(name):
    assert make(name, temperature="adaptive", prior_tau="literal").loss.prior_tau == "literal"


@pytest.mark.parametrize(
    ("name", "lower", "upper", "scale", "gradient"),
    [
        ("moco", 0.05, 0.15, 2.0, True),
        ("simsiam", 0.5, 1.5, 2.0, False),
        ("barlow", 0.5, 1.5, 1.0, True),
        ("byol", 0.5, 1.5, 2.0, False),
        ("nnclr", 0.05, 0.15, 2.0, True),
    ],
)
def test_methods_have_defaults_of_their_own(name, lower, upper, scale, gradient):
    temperature = make(name, temperature="adaptive").loss.temperature
    assert (temperature.eta, temperature.eta + temperature.iota) == pytest.approx((lower, upper))
    assert (temperature.phi_scale, temperature.phi_gradient) == (scale, gradient)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("simsiam", {"temperature": "uncertainty"}, "pairs of SimSiam do not start there: choose"),
        ("simsiam", {"temperature": "adaptive-negative"}, "SimSiam has none: choose"),
        ("simsiam", {"predictor": 0}, "predictor must be a whole number"),
        ("byol", {"temperature": "uncertainty"}, "pairs of BYOL do not start there: choose"),
        ("byol", {"temperature": "adaptive-negative"}, "BYOL has none: choose"),
        ("byol", {"predictor": 0}, "predictor must be a whole number"),
        ("byol", {"momentum": 1.5}, r"momentum must lie in \[0, 1\], got 1.5"),
        ("nnclr", {"temperature": "uncertainty"}, "pairs of NNCLR do not start there: choose"),
        ("nnclr", {"predictor": 0}, "predictor must be a whole number"),
        ("nnclr", {"queue": 0}, "queue must be a whole number, at least 1, got 0"),
        ("simclr", {"temperature": "adaptve"}, "no temperature 'adaptve': did you mean 'adaptive'"),
        ("simclr", {"projector": ()}, r"\bprojector\b.*\(512, 128\)"),
        ("simclr", {"projector": (512, 0)}, "projector must be a whole number, at least 1"),
        ("simclr", {"heads": 0}, "heads must be a whole number, at least 1, got 0"),
        ("moco", {"momentum": 1.5}, r"momentum must lie in \[0, 1\], got 1.5"),
        ("moco", {"momentum_end": -0.1}, r"momentum_end must lie in \[0, 1\], got -0.1"),
        ("moco", {"queue": -1}, "queue must be 0 or more, got -1"),
        ("barlow", {"loss_scale": 0}, "loss_scale must be a finite number above 0"),
    ],
)
def test_settings_are_checked(name, options, message):
    with pytest.raises(ValueError, match=message):
        method_settings(name, **options)
