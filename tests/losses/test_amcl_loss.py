"""The loss that replaces InfoNCE in one line."""

import pytest
import torch

import amcl
from amcl.temperature import (
    AdaptiveTemperature,
)


def test_the_drop_in_line():
    z0, z1 = torch.randn(2, 3, 32, 128)
    loss = amcl.AMCLLoss(num_heads=3, dim=128)(z0, z1)
    assert loss.ndim == 0
    assert loss.isfinite()


def test_the_drop_in_is_infonce_with_an_adaptive_temperature():
    drop_in = amcl.AMCLLoss(3, 8)
    spelled_out = amcl.ContrastiveLoss(
        3, AdaptiveTemperature(8, eta=0.05, iota=0.1), beta=0.1, prior_tau=0.1
    )
    spelled_out.load_state_dict(drop_in.state_dict())
    z0, z1 = torch.randn(2, 3, 6, 8)
    assert drop_in(z0, z1) == spelled_out(z0, z1)


@pytest.mark.parametrize(
    "option",
    [
        *({"lower": 0.2, "upper": 0.4}, {"eta": 0.2}, {"iota": 0.2}),
        *({"beta": 2.0}, {"prior_tau": 0.3}, {"phi_scale": 4.0}, {"phi_output": "plain"}),
    ],
)
def test_options_of_the_drop_in_arrive(option):
    loss, plain = amcl.AMCLLoss(3, 8, **option), amcl.AMCLLoss(3, 8)
    plain.load_state_dict(loss.state_dict())
    z0, z1 = torch.randn(2, 3, 6, 8)
    assert loss(z0, z1) != plain(z0, z1)


def test_the_drop_in_has_its_range_around_its_prior():
    for given, ends in (({}, (0.5, 1.5)), ({"eta": 0.2}, (0.2, 1.2)), ({"iota": 0.6}, (0.5, 1.1))):
        temperature = amcl.AMCLLoss(3, 8, prior_tau=1.0, phi_gradient=False, **given).temperature
        assert (temperature.eta, temperature.eta + temperature.iota) == pytest.approx(ends)
        assert not temperature.phi_gradient


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": 0.5}, r"AMCLLoss has no setting 'tau': the temperature .* is prior_tau"),
        ({"temperature": 0.5}, r"no setting 'temperature': .* use ContrastiveLoss\(num_heads"),
        ({"phi_deep": 2}, r"no setting 'phi_deep': accepted are .*phi_depth, phi_gradient"),
    ],
)
def test_the_drop_in_names_its_settings(options, message):
    with pytest.raises(TypeError, match=message):
        amcl.AMCLLoss(3, 8, **options)


def test_the_drop_in_takes_all_that_belongs_to_phi():
    temperature = amcl.AMCLLoss(3, 8, phi_input="raw", phi_depth=2, phi_scale=1.5).temperature
    assert (temperature.phi_input, temperature.phi_scale) == ("raw", 1.5)
    assert len(temperature.phi) == 3


@pytest.mark.parametrize(
    ("given", "prior_tau"),
    [
        ({}, 0.1),
        ({"eta": 0.2}, 0.25),
        ({"lower": 0.5, "upper": 1.5}, 1.0),
        ({"lower": 0.05, "upper": 0.5}, 0.1),
    ],
)
def test_the_prior_of_the_drop_in_lies_inside_its_range(given, prior_tau):
    assert amcl.AMCLLoss(3, 8, **given).prior_tau == pytest.approx(prior_tau)
