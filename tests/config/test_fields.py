"""Fields by their names: types, spelling, ranges of τ, what has an effect."""

import dataclasses
from dataclasses import replace

import pytest

from amcl import recipes
from amcl.config import Config
from amcl.config.fields import (
    changes,
    differing,
    effective,
    field_name,
    has_effect,
    is_field,
    is_number,
    on_machine,
    spelled,
    value_from,
    value_of,
    with_values,
)
from amcl.config.options import values_of
from amcl.methods import METHODS, SimCLRSettings
from amcl.temperature import TEMPERATURES, AdaptiveSettings

SCHEMES = TEMPERATURES.names()


def fields_of(config: Config) -> dict[str, object]:
    hardware = {field.name for field in dataclasses.fields(config.hardware)}
    return {name: value for name, value in values_of(config).items() if name not in hardware}


@pytest.mark.parametrize("method", METHODS)
def test_every_field_is_read_as_it_is_spelled(method):
    config = recipes.default("builtin", method)
    for name, value in fields_of(config).items():
        assert field_name(config, f"--{name.replace('_', '-')}") == name
        assert value_of(config, name) == value
        assert value_from(config, name, spelled(value)) == value, name
    assert with_values(config, fields_of(config)) == config


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("tau", "1", 1.0),
        ("lr", "1e-3", 0.001),
        ("epochs", " 5 ", 5),
        ("projector", "64  32", (64, 32)),
        ("projector", "64", (64,)),
        ("jitter", "0 0.2 1 0.05", (0.0, 0.2, 1.0, 0.05)),
        ("top_k", "none", None),
        ("overlap", "0.5", 0.5),
        ("data", "1", "1"),
        ("data", "true", "true"),
        ("wandb", "none", None),
        ("labels", "none", "none"),
        ("prior_tau", "literal", "literal"),
        ("prior_tau", "0.3", 0.3),
        ("projector_norm", "True", True),
        ("temperature", "first-head", "first-head"),
    ],
)
def test_values_have_the_type_of_their_field(name, text, value):
    found = value_from(Config(), name, text)
    assert (found, type(found)) == (value, type(value))
    if isinstance(value, tuple):
        assert [type(v) for v in found] == [type(v) for v in value]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("tau", "fast", "tau must be float, got 'fast'"),
        ("epochs", "1.5", "epochs must be int, got '1.5'"),
        ("epochs", "none", "epochs must be int"),
        ("seed", "true", "seed must be int"),
        ("projector_norm", "1", "projector_norm must be bool"),
        ("jitter", "0.1 0.2", "jitter must be tuple"),
        ("projector", "64 wide", "projector must be int, got 'wide'"),
        ("temperature", "adaptve", "'adaptive'"),
    ],
)
def test_values_of_another_type_are_refused(name, text, told):
    with pytest.raises(ValueError, match=told):
        value_from(Config(), name, text)


def test_an_unknown_field_is_told_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"simclr is asked for a setting 'tua', .* did you mean 'tau'"
    ):
        field_name(Config(), "tua")
    with pytest.raises(ValueError, match="mae is asked for a setting 'heads'"):
        field_name(recipes.default("builtin", "mae"), "heads")
    with pytest.raises(ValueError, match="mae is asked for a setting 'eta'"):
        field_name(recipes.default("builtin", "mae"), "eta")
    assert is_field(Config(), "eta")
    assert not is_field(Config(), "recipe")


def test_numbers():
    found = {name: is_number(Config(), name) for name in ("tau", "epochs", "top_k", "overlap")}
    assert found == {"tau": float, "epochs": int, "top_k": int, "overlap": float}
    for name in ("projector", "temperature", "projector_norm", "data", "jitter"):
        assert is_number(Config(), name) is None


def test_eta_and_iota_are_the_range_of_tau():
    adaptive = AdaptiveSettings(tau_lower=0.1, tau_upper=0.6)
    config = Config(method=SimCLRSettings(temperature=adaptive))
    assert value_of(config, "eta") == 0.1
    assert value_of(config, "iota") == pytest.approx(0.5)

    def ends(**values):
        temperature = with_values(config, values).method.temperature
        return temperature.tau_lower, temperature.tau_upper

    assert ends(eta=0.2) == pytest.approx((0.2, 0.7))
    assert ends(iota=2.0) == pytest.approx((0.1, 2.1))
    assert ends(eta=0.3, iota=1.0) == pytest.approx((0.3, 1.3))
    assert ends(tau_upper=0.9) == (0.1, 0.9)
    with pytest.raises(ValueError, match="eta and tau_upper are two spellings of one range"):
        with_values(config, {"eta": 0.2, "tau_upper": 0.9})


def test_a_form_without_top_k_lets_go_of_it():
    config = Config(method=SimCLRSettings(form="top_k", top_k=7))
    softmax = with_values(config, {"form": "softmax"}).method
    assert (softmax.form, softmax.top_k) == ("softmax", None)
    assert with_values(config, {"tau": 0.5}).method.top_k == 7
    assert with_values(config, {"form": "top_k_softmax"}).method.top_k == 7


def test_values_are_checked_as_settings_are():
    with pytest.raises(ValueError, match="tau must be a finite number above 0"):
        with_values(Config(), {"tau": -1.0})


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_has_no_effect_leaves_the_temperature_as_it_is(scheme):
    """A field has an effect if and only if the scheme's module or β's weight changes with it."""
    config = Config(method=SimCLRSettings().with_temperature(scheme))
    others = {"tau": 0.5, "tau_lower": 0.12, "tau_upper": 0.8, "tau_period": 3.0}
    others |= {"beta": 3.0, "phi_depth": 2, "phi_input": "raw", "phi_output": "plain"}
    others |= {"phi_scale": 3.0, "phi_gradient": False, "eta": 0.3, "iota": 0.3}

    def made(method):
        module = method.make_temperature()
        plain = {
            (name, key): value
            for name, part in module.named_modules()
            for key, value in vars(part).items()
            if isinstance(value, float | int | str | tuple) and key != "training"
        }
        shapes = {name: tuple(p.shape) for name, p in module.state_dict().items()}
        start = {n: p.tolist() for n, p in module.state_dict().items() if p.numel() == 1}
        return plain, shapes, start, method.temperature.omega(method.dim)[0]

    for name, value in others.items():
        if has_effect(config, name, {}):
            assert made(with_values(config, {name: value}).method) != made(config.method), name
        else:
            with pytest.raises(ValueError, match=f"{name} belongs to --temperature"):
                with_values(config, {name: value})


def test_what_is_missing_of_a_range_follows_from_the_other_values():
    ends = [
        ({"temperature": "adaptive", "prior_tau": 0.5, "eta": 0.05}, (0.05, 0.55)),
        ({"temperature": "adaptive", "prior_tau": 0.5, "iota": 0.2}, (0.25, 0.45)),
        ({"temperature": "scheduled", "eta": 0.2}, (0.2, 1.1)),
    ]
    for values, expected in ends:
        temperature = with_values(Config(), values).method.temperature
        assert (temperature.tau_lower, temperature.tau_upper) == pytest.approx(expected)


def test_effects_hang_on_the_other_values():
    adaptive = {"temperature": "adaptive", "beta": 1.0, "tau": 0.2, "seed": 1}
    assert effective(Config(), adaptive) == adaptive  # τ₀ is τ
    prior = {**adaptive, "prior_tau": 0.3}
    assert effective(Config(), prior) == {name: prior[name] for name in prior if name != "tau"}
    constant = {**adaptive, "temperature": "constant"}
    assert effective(Config(), constant) == {"temperature": "constant", "tau": 0.2, "seed": 1}
    plain = {"temperature": "adaptive", "phi_output": "plain"}
    assert effective(Config(), {**plain, "phi_scale": 3.0}) == plain
    mae = recipes.default("builtin", "mae")
    assert effective(mae, {"mask_ratio": 0.5}) == {"mask_ratio": 0.5}


def test_runs_differ_in_what_they_learn_from_only():
    config = Config()
    moved = replace(
        config,
        data=replace(config.data, workers=7, memory=1.0, data_root="/elsewhere"),
        hardware=replace(config.hardware, threads=3),
    )
    assert differing(config, moved) == []
    adaptive = with_values(config, {"temperature": "adaptive"})
    assert differing(config, adaptive) == ["temperature"]
    assert differing(adaptive, with_values(adaptive, {"eta": 0.2})) == ["tau_lower", "tau_upper"]
    assert differing(config, recipes.default("builtin", "moco")) == ["method"]
    longer = with_values(config, {"epochs": 9})
    assert on_machine(longer, moved) == replace(moved, run=longer.run)


def test_changes_turn_a_configuration_into_another():
    """Settings that only the scheme of the other has are among them."""
    base = recipes.published("builtin", "simclr")
    other = with_values(recipes.with_amcl(base), {"beta": 0.5, "tau_lower": 0.05, "epochs": 3})
    assert set(changes(base, other)) == {"heads", "temperature", "beta", "tau_lower", "epochs"}
    assert with_values(base, changes(base, other)) == other
    assert set(changes(other, base)) == {"heads", "temperature", "epochs"}
    assert with_values(other, changes(other, base)) == base
