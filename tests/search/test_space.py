"""Spaces: as the paper has them, as they are typed, and the points drawn from them."""

import itertools
from dataclasses import replace

import optuna
import pytest
import torch

from amcl.config import Config
from amcl.config.fields import with_values
from amcl.recipes import names, recipe
from amcl.search.space import Choice, Range, paper_space, space_from, suggest
from factories import change

AMCL = [name for name in names() if name.endswith("-amcl")]
CONTRASTIVE = ("simclr", "moco", "can", "mocov3", "lgp", "nnclr")
FORMS = Choice(("softmax", "top_k", "top_k_softmax"))
SIMCLR = recipe("cifar10-simclr-amcl")


@pytest.fixture
def ask():
    """Asks a study for a trial, all of whose values are random."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0)).ask


def as_typed(space):
    return {name: str(axis) for name, axis in space.items()}


def with_run(config, **run):
    return replace(config, run=replace(config.run, **run))


# The paper's space


@pytest.mark.parametrize("name", AMCL)
def test_the_papers_figures(name):
    config, space = recipe(name), paper_space(recipe(name))
    most = 5.0 if "imagenet" in name else 2.0
    assert space["eta"] == space["iota"] == Range(1e-5, most)
    assert space["beta"] == Range(1e-5, 10.0, log=True)
    assert space["heads"] == Range(2, 6, whole=True)
    others = space.keys() - {"eta", "iota", "beta", "heads"}
    if config.method.name in CONTRASTIVE:
        assert others == {"form", "top_k"}
        assert space["form"] == FORMS
        top_k = space["top_k"]
        assert (top_k.low, top_k.log, top_k.whole) == (1, True, True)
        assert top_k.high == min(256, config.negatives)
    else:
        assert not others


@pytest.mark.parametrize(
    ("name", "run", "method", "available"),
    [
        ("cifar10-simclr-amcl", {"batch_size": 64}, {}, 126),
        ("cifar10-simclr-amcl", {"batch_size": 64, "accumulate": 4}, {}, 30),
        ("cifar10-can-amcl", {"batch_size": 64}, {}, 126),
        ("cifar10-can-amcl", {"batch_size": 64, "accumulate": 2}, {}, 62),
        ("cifar10-moco-amcl", {"batch_size": 64}, {"queue": 200}, 200),
        ("cifar10-moco-amcl", {"batch_size": 64, "accumulate": 4}, {"queue": 200}, 200),
        ("cifar10-moco-amcl", {"batch_size": 64}, {"queue": 0}, 63),
        ("cifar10-moco-amcl", {"batch_size": 64, "accumulate": 4}, {"queue": 0}, 15),
        ("cifar10-mocov3-amcl", {"batch_size": 64}, {}, 63),
        ("cifar10-nnclr-amcl", {"batch_size": 64}, {"queue": 200}, 63),
        ("cifar10-mocov3-amcl", {"batch_size": 64, "accumulate": 4}, {}, 15),
        ("cifar10-lgp-amcl", {"batch_size": 64}, {}, 63),
    ],
)
def test_top_k_is_never_more_than_there_are_negatives(name, run, method, available):
    config = with_values(recipe(name), {**run, **method})
    assert config.negatives == available
    assert paper_space(config)["top_k"].high == available


def test_top_k_ends_at_256():
    assert SIMCLR.negatives == 1022
    assert paper_space(SIMCLR)["top_k"] == Range(1, 256, log=True, whole=True)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_with_one_negative_there_is_no_form_to_choose(batch_size):
    config = with_run(recipe("cifar10-mocov3-amcl"), batch_size=batch_size)
    assert list(paper_space(config)) == ["eta", "iota", "beta", "heads"]


@pytest.mark.parametrize(("name", "now"), [("cifar10-simclr", "constant"), ("imagenet-mae", "no")])
def test_the_paper_searches_adaptive_temperatures_alone(name, now):
    method = name.split("-")[1]
    with pytest.raises(ValueError, match=f"{method} has {now} temperature here: start from"):
        space_from(recipe(name), ["paper"])


@pytest.mark.parametrize(
    "scheme", ["adaptive", "adaptive-negative", "adaptive-positive", "first-head"]
)
def test_every_adaptive_scheme_has_the_papers_space(scheme):
    config = with_values(recipe("cifar10-simclr"), {"temperature": scheme})
    assert paper_space(config) == paper_space(SIMCLR)


# Spaces as they are typed


def test_ranges_and_choices():
    space = space_from(
        SIMCLR,
        [
            "lr=1e-3:1:log",
            "--batch-size=64:256",
            "weight_decay = 0:1e-3",
            "heads=1, 3",
            "projector=512 128,64",
            "optimizer=sgd,adamw",
            "decay-norm-and-bias=true,false",
            "prior_tau=literal,0.1",
            "adam_betas=0.9 0.95,0.9 1",
        ],
    )
    assert space == {
        "lr": Range(1e-3, 1.0, log=True),
        "batch_size": Range(64, 256, whole=True),
        "weight_decay": Range(0.0, 1e-3),
        "heads": Choice((1, 3)),
        "projector": Choice(((512, 128), (64,))),
        "optimizer": Choice(("sgd", "adamw")),
        "decay_norm_and_bias": Choice((True, False)),
        "prior_tau": Choice(("literal", 0.1)),
        "adam_betas": Choice(((0.9, 0.95), (0.9, 1.0))),
    }
    assert isinstance(space["batch_size"].low, int)
    assert isinstance(space["lr"].high, float)


def test_a_mapping_is_read_as_a_list():
    assert space_from(SIMCLR, {"lr": "1e-3:1:log", "heads": "2:6"}) == space_from(
        SIMCLR, ["lr=1e-3:1:log", "heads=2:6"]
    )


def test_what_is_typed_goes_before_the_papers():
    for entries in (["paper", "heads=3"], ["heads=3", "paper"]):
        space = space_from(SIMCLR, entries)
        assert space == {**paper_space(SIMCLR), "heads": Choice((3,))}


def test_the_papers_top_k_goes_where_the_typed_form_has_none():
    assert "top_k" not in space_from(SIMCLR, ["paper", "form=softmax"])
    assert "top_k" in space_from(SIMCLR, ["paper", "form=softmax,top_k"])


@pytest.mark.slow
@pytest.mark.parametrize("name", AMCL)
def test_the_papers_space_is_read_back_from_its_text(name):
    config = recipe(name)
    space = space_from(config, ["paper"])
    assert space == paper_space(config)
    assert space_from(config, as_typed(space)) == space


@pytest.mark.parametrize(
    "entries",
    [
        ["lr=1e-7:0.3:log", "weight_decay=0:0.123456789", "heads=2:6"],
        ["projector=512 128,64", "prior_tau=literal,0.05", "decay_norm_and_bias=false,true"],
        ["temperature=adaptive,first-head", "form=softmax,top_k", "top_k=3:200:log"],
        ["tau_lower=1:3", "tau_upper=4:5", "batch_size=96,192", "accumulate=1,3"],
    ],
)
def test_a_space_is_read_back_from_its_text(entries):
    space = space_from(SIMCLR, entries)
    again = space_from(SIMCLR, as_typed(space))
    assert list(again.items()) == list(space.items())


def test_none_is_read_back_too():
    moco = recipe("cifar10-moco-amcl")
    space = space_from(moco, ["momentum_end=none,1.0"])
    assert space == {"momentum_end": Choice((None, 1.0))}
    assert space_from(moco, as_typed(space)) == space


def test_what_others_hang_on_is_drawn_first():
    entries = ["top_k=1:9", "beta=1:2", "form=softmax,top_k", "lr=1:2", "temperature=adaptive"]
    space = space_from(SIMCLR, entries)
    assert list(space) == ["form", "temperature", "top_k", "beta", "lr"]


ERRORS = [
    (["bata=1:2"], r"simclr .*'bata'.* did you mean '[bd].ta'\?"),
    (["batch_sise=1:2"], "did you mean 'batch_size'"),
    (["devices=1,2"], "'devices', which is unknown"),
    (["name=moco,simclr"], "'name', which is unknown"),
    ([], "one point.*lr=1e-3:1:log"),
    (["lr=1", "heads=3"], "one point.*lr=1e-3:1:log"),
    ([""], "'' is no part of a space: write a field and where to look"),
    (["lr"], "'lr' is no part of a space"),
    (["lr= "], "'lr= ' is no part of a space"),
    (["seed=0,1"], "seed is no setting to search for.* with --seed"),
    (["validation=10:20"], "validation is no setting to search for.* with --validation"),
    (["--probe=test,validation"], "probe is no setting to search for"),
    (["data-root=a,b"], "data_root is no setting to search for.* with --data-root"),
    (["lr=0:1:log"], "lr=0:1:log: a logarithmic range begins above 0"),
    (["heads=0:6:log"], "heads=0:6:log: a logarithmic range begins above 0"),
    (["lr=1:1"], "lr=1:1: the low end must be below the high end"),
    (["lr=2:1"], "lr=2:1: the low end must be below the high end"),
    (["lr=nan:1"], "lr=nan:1: the low end must be below the high end"),
    (["lr=1:2:3"], "lr=1:2:3 is no range: write low:high or low:high:log"),
    (["lr=1:2:lin"], "lr=1:2:lin is no range"),
    (["lr=1:log"], "lr=1:log is no range"),
    (["lr=a:b"], "lr must be float, got 'a'"),
    (["lr=fast"], "lr must be float, got 'fast'"),
    (["heads=two"], "heads must be int, got 'two'"),
    (["heads=1.5:3"], "heads must be int, got '1.5'"),
    (["heads=true"], "heads must be int, got 'true'"),
    (["heads=2,"], "heads must be int, got ''"),
    (["heads=2,3,2"], "heads=2,3,2 has a value twice"),
    (["heads=2:3", "heads=4:5"], "the space has heads twice"),
    (["batch-size=2:3", "batch_size=4:5"], "the space has batch_size twice"),
    (["prior_tau=literal:1"], "prior_tau=literal:1 is no range of numbers"),
    (["projector=128:512"], "projector is no number: list its values"),
    (["decay_norm_and_bias=0:1"], "decay_norm_and_bias is no number"),
    (["optimizer=sgd:adamw"], "optimizer is no number"),
    (["projector=wide"], "projector must be int, got 'wide'"),
    (
        ["projector=512 0,64"],
        "projector=512 0,64: projector must be a whole number, at least 1, got 0",
    ),
    (["adam_betas=0.9"], r"adam_betas must be tuple\[float, float\], got \[0.9\]"),
    (["optimizer=sdg"], "optimizer must be one of 'sgd', 'lars', 'adamw'; got 'sdg'"),
    (["lr=0:1"], "lr=0.0:1.0: lr must be a finite number above 0, got 0.0"),
    (["lr=0.1:inf"], "lr=0.1:inf: lr must be a finite number above 0, got inf"),
    (["heads=0:3"], "heads=0:3: heads must be a whole number, at least 1, got 0"),
    (["eta=0:1"], "eta=0.0:1.0: lower must be a finite number above 0, got 0.0"),
    (["iota=0:1"], "iota=0.0:1.0: need both, lower < upper"),
    (["beta=-1:1"], "beta=-1.0:1.0: beta must be a finite number, at least 0"),
    (["batch_size=0:8"], "batch_size=0:8: batch_size must be a whole number"),
    (["accumulate=1:3"], "accumulate=1:3: batch_size=512 does not divide into accumulate=3"),
    (["backbone=resnet18,resnet19"], "there is no timm model called 'resnet19'"),
    (["top_k=5:20"], "top_k has no effect with form=softmax: leave it"),
    (
        ["phi_scale=1:4", "phi_output=plain"],
        "phi_scale has no effect with .*phi_output=plain.*: leave",
    ),
    (["top_k=5:20", "form=softmax,max"], "top_k has no effect with .*form=softmax,max"),
    (["tau=0.1:1", "prior_tau=0.1:1"], "tau has no effect with"),
    (["tau_period=1:9"], "tau_period has no effect with temperature=adaptive"),
    (["beta=1:2", "temperature=constant"], "beta has no effect with temperature=constant"),
    (["form=softmax,top_k"], "form=softmax,top_k: top_k must be a whole number"),
    (["top_k=0:9", "form=softmax,top_k"], "top_k=0:9: top_k must be a whole number, at least 1"),
    (["top_k=none,9", "form=top_k"], "top_k=none,9: top_k must be a whole number, .* got None"),
    (["top_k=1:1023", "form=top_k"], "top_k=1023 .* more than the 1022 negatives an anchor has"),
    (["top_k=1:99", "form=top_k", "batch_size=8:16"], "more than the 14 negatives"),
    (["eta=0.1:1", "tau_upper=1:2"], "eta and tau_upper are two spellings of one range"),
    (["paper", "tau_lower=1:2"], "eta and iota and tau_lower are two spellings of one range"),
]


@pytest.mark.parametrize(("entries", "message"), ERRORS, ids=[" ".join(e) for e, _ in ERRORS])
def test_errors_say_what_is_wrong(entries, message):
    with pytest.raises(ValueError, match=message):
        space_from(SIMCLR, entries)


def test_ends_are_tried_where_they_have_an_effect():
    constant = recipe("cifar10-simclr")
    for name in ("eta", "beta"):
        with pytest.raises(ValueError, match=rf"^{name}=-1\.0:1\.0: "):
            space_from(constant, [f"{name}=-1:1", "temperature=constant,adaptive"])
    simsiam = recipe("cifar10-simsiam-amcl")
    with pytest.raises(ValueError, match="SimSiam has none: choose"):
        space_from(simsiam, ["temperature=adaptive,adaptive-negative"])


def test_ends_are_accepted_that_go_with_those_of_others():
    moco = recipe("cifar10-moco-amcl")  # a step of 512 images brings 1024 keys
    with pytest.raises(ValueError, match="a step brings 1024 projections"):
        space_from(moco, ["queue=128:1024"])
    assert space_from(moco, ["queue=128:1024", "batch_size=16:64"])
    with pytest.raises(ValueError, match=r"^tau_lower=1\.0:3\.0: .*lower=1\.0, upper=0\.75"):
        space_from(SIMCLR, ["tau_lower=1:3"])
    assert space_from(SIMCLR, ["tau_lower=1:3", "tau_upper=4:5"])
    assert space_from(SIMCLR, ["top_k=1:1023", "form=top_k", "batch_size=256:1024"])


# Points


def test_numbers_lie_in_their_ranges_on_their_scales(ask):
    space = space_from(SIMCLR, ["lr=1e-4:1:log", "weight_decay=1e-4:1", "heads=2:6"])
    points = [suggest(ask(), space, SIMCLR) for _ in range(300)]
    rates, decays = ([point[name] for point in points] for name in ("lr", "weight_decay"))
    for values in (rates, decays):
        assert 1e-4 <= min(values) < max(values) <= 1
    # Half of a logarithmic range lies below the root of the product of its ends.
    assert 120 < sum(rate < 1e-2 for rate in rates) < 180
    assert sum(decay < 1e-2 for decay in decays) < 15
    assert {point["heads"] for point in points} == {2, 3, 4, 5, 6}
    assert all(type(point["heads"]) is int for point in points)


def test_choices_come_back_as_they_are(ask):
    choices = {
        "projector": ((512, 128), (64,)),
        "prior_tau": ("literal", 0.1),
        "decay_norm_and_bias": (True, False),
        "optimizer": ("sgd", "lars"),
        "image_size": (None, 24),
    }
    space = {name: Choice(values) for name, values in choices.items()}
    points = [suggest(ask(), space, SIMCLR) for _ in range(40)]
    for name, values in choices.items():
        assert {point[name] for point in points} == set(values)
        assert {type(point[name]) for point in points} == set(map(type, values))


def test_a_study_keeps_plain_values(ask):
    space = {"projector": Choice(((512, 128), (64,))), "image_size": Choice((None,))}
    trial = ask()
    suggest(trial, space, SIMCLR)
    assert trial.params["projector"] in ("512 128", "64")
    assert trial.params["image_size"] == "none"


def test_top_k_is_drawn_only_where_the_form_has_one(ask):
    space = space_from(SIMCLR, ["paper", "form=softmax,top_k,top_k_softmax,max"])
    points = [suggest(ask(), space, SIMCLR) for _ in range(60)]
    having = {point["form"]: "top_k" in point for point in points}
    assert having == {"softmax": False, "top_k": True, "top_k_softmax": True, "max": False}
    assert all(("top_k" in point) == having[point["form"]] for point in points)


def test_a_form_without_top_k_forgets_that_of_the_start(ask):
    start = with_values(SIMCLR, {"form": "top_k", "top_k": 7})
    space = space_from(start, ["form=softmax,top_k_softmax"])
    made = [with_values(start, suggest(ask(), space, start)).method for _ in range(20)]
    assert {(method.form, method.top_k) for method in made} == {
        ("softmax", None),
        ("top_k_softmax", 7),
    }


def test_fields_of_a_temperature_are_drawn_only_where_it_has_them(ask):
    schemes = ("adaptive", "adaptive-positive", "first-head", "constant", "learnable", "scheduled")
    of = {
        "beta": {"adaptive", "adaptive-positive", "first-head"},
        "prior_tau": {"adaptive", "adaptive-positive", "first-head"},
        "eta": {"adaptive", "adaptive-positive", "first-head", "scheduled"},
        "tau": {"adaptive-positive", "constant", "learnable"},
        "tau_period": {"scheduled"},
        "heads": set(schemes),
    }
    space = space_from(
        SIMCLR,
        [
            *("beta=0.1:1", "prior_tau=0.1:1", "eta=0.1:0.9", "tau=0.1:1", "tau_period=1:9"),
            *("heads=1:3", f"temperature={','.join(schemes)}"),
        ],
    )
    seen = set()
    for _ in range(60):
        point = suggest(ask(), space, SIMCLR)
        scheme = point["temperature"]
        seen.add(scheme)
        drawn = point.keys() - {"temperature"}
        assert drawn == {name for name, having in of.items() if scheme in having}
        assert with_values(SIMCLR, point).method.temperature.name == scheme
    assert seen == set(schemes)


def test_every_point_of_the_papers_spaces_is_a_valid_configuration(ask):
    """60 of them, from every recipe with AMCL in turn."""
    configs = [recipe(name) for name in AMCL]
    spaces = [space_from(config, ["paper"]) for config in configs]
    every = itertools.cycle(zip(configs, spaces, strict=True))
    for config, space in itertools.islice(every, 60):
        point = suggest(ask(), space, config)
        made = with_values(config, point)
        expected = dict(point)
        eta, iota = expected.pop("eta"), expected.pop("iota")
        expected |= {"tau_lower": eta, "tau_upper": round(eta + iota, 12)}
        assert made == replace(config, method=change(config.method, **expected))
        assert Config.from_toml(made.to_toml()) == made
        with torch.device("meta"):
            adaptive = made.method.make_temperature()
        assert (adaptive.eta, adaptive.iota) == pytest.approx((eta, iota))
        top_k = getattr(made.method, "top_k", None)
        assert (top_k is None) == (point.get("form", "softmax") == "softmax")
        assert top_k is None or 1 <= top_k <= made.negatives
