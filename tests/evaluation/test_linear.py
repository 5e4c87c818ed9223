"""The linear probe against one torch loop a rate, and how it chooses a rate."""

import json
import math

import pytest
import torch

from amcl.evaluation.hold_out import top_k
from amcl.evaluation.linear_layers import FixedFeatures, train_layers
from amcl.evaluation.protocols import linear
from amcl.evaluation.protocols.linear import LinearSettings, linear_probe
from toy_features import D, K, held_out, literal, noisy, probe, settings

CPU64 = torch.empty(0, dtype=torch.float64)


@pytest.fixture
def _large(monkeypatch):
    """These few images chosen from as many are: by one hold-out and its accuracy."""
    monkeypatch.setattr("amcl.evaluation.hold_out.SMALL", 0)


large = pytest.mark.usefixtures("_large")


VARIANTS = [
    {},
    {"nesterov": False},
    {"nesterov": False, "momentum": 0.0},
    {"weight_decay": 0.01},
    {"norm": "batch"},
    {"batch_size": 512},
    {"batch_size": 2, "epochs": 1},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
@pytest.mark.parametrize("lr", [0.1, 1.0])
def test_a_rate_is_that_of_a_literal_loop(changes, lr):
    x, y = noisy()
    test, _ = noisy(60, seed=1)
    made = settings(lrs=(lr,), **changes)
    found = probe(made, seed=5)
    expected = literal(x, y, lr, made, seed=5)
    torch.testing.assert_close(
        test @ found.weight.T + found.bias, expected(test), rtol=1e-9, atol=1e-9
    )
    assert found.weight.shape == (K, D)
    assert found.bias.shape == (K,)


@large
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_the_choice_and_the_scores_are_those_of_literal_loops(changes):
    (x, y), (test, truth) = noisy(), noisy(60, seed=1)
    made = settings(**changes, lrs=(10.0, 0.01, 0.1))
    found = probe(made)
    held = held_out(y)
    assert found.hold_out_images == len(held) == 30
    for lr in made.lrs:
        kept = literal(x, y, lr, made, held=held)
        right = (kept(x[held]).argmax(1) == y[held]).double().mean()
        assert found.hold_out_top1[lr] == pytest.approx(right.item())
    most = max(found.hold_out_top1.values())
    assert found.lr == min(lr for lr in made.lrs if found.hold_out_top1[lr] == most)
    every = literal(x, y, found.lr, made)
    assert found.top1 == pytest.approx((every(test).argmax(1) == truth).double().mean().item())
    assert found.train_top1 == pytest.approx((every(x).argmax(1) == y).double().mean().item())
    assert 0.4 < found.top1 < 1


def test_both_groups_learn_what_literal_loops_learn():
    x, y = noisy()
    held = held_out(y)
    layers = train_layers(FixedFeatures(x, y), [held], K, settings(), 0, CPU64)
    assert layers.shape == (2, 3, K, D + 1)
    for group, unseen in enumerate([held, ()]):
        for place, lr in enumerate((0.1, 1.0, 10.0)):
            expected = literal(x, y, lr, settings(), held=unseen)
            layer = layers[group, place]
            torch.testing.assert_close(layer[:, :-1], expected.weight, rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(layer[:, -1], expected.bias, rtol=1e-9, atol=1e-9)


def test_a_rate_does_not_depend_on_the_others():
    alone = probe(settings(lrs=(1.0,)))
    x, y = noisy()
    for lrs in [(1.0, 2.0), (0.001, 1.0, 30.0), (1e300, 1.0)]:
        layers = train_layers(FixedFeatures(x, y), [held_out(y)], K, settings(lrs=lrs), 0, CPU64)
        layer = layers[1, sorted(lrs).index(1.0)]
        torch.testing.assert_close(layer[:, :-1], alone.weight, rtol=1e-9, atol=1e-12)


def test_the_test_set_does_not_choose():
    test, truth = noisy(60, seed=1)
    found = probe(settings())
    other = probe(settings(), truth=truth.roll(1))
    assert other.top1 != found.top1
    assert (other.lr, other.hold_out_top1) == (found.lr, found.hold_out_top1)
    assert torch.equal(other.weight, found.weight)
    assert torch.equal(other.bias, found.bias)
    assert probe(settings(), test=test.roll(1, 0)).hold_out_top1 == found.hold_out_top1


def test_labels_of_the_hold_out_reach_only_those_that_see_it():
    x, y = noisy()
    held = held_out(y)
    wrong = y.index_put((held,), (y[held] + 1) % K)
    first, other = (
        train_layers(FixedFeatures(x, labels), [held], K, settings(), 0, CPU64)
        for labels in (y, wrong)
    )
    assert torch.equal(first[0], other[0])
    assert (first[1] != other[1]).any()


def test_features_of_the_hold_out_reach_only_those_that_see_it():
    x, y = noisy()
    held = held_out(y)
    moved = x.index_add(0, held, torch.ones(len(held), D).double())
    first, other = (
        train_layers(FixedFeatures(values, y), [held], K, settings(), 0, CPU64)
        for values in (x, moved)
    )
    assert torch.equal(first[0], other[0])
    assert (first[1] != other[1]).any()


@large
def test_of_equal_rates_the_smallest_is_chosen():
    x = torch.eye(4).repeat(20, 1)
    y = torch.arange(4).repeat(20)
    made = settings(lrs=(10.0, 1.0, 3.0), epochs=20)
    found = linear_probe(FixedFeatures(x, y), x, y, 4, made)
    assert set(found.hold_out_top1.values()) == {1.0}
    assert found.lr == 1.0


def test_separable_classes_are_told_apart_and_random_labels_are_not():
    x = torch.randn(600, 8)
    y = x[:, :4].argmax(1)
    keep = x[:, :4].topk(2).values.diff().abs()[:, 0] > 0.5
    x, y = x[keep], y[keep]
    made = LinearSettings(epochs=60, batch_size=64)
    half = len(x) // 2
    found = linear_probe(FixedFeatures(x[:half], y[:half]), x[half:], y[half:], 4, made)
    assert found.top1 > 0.97
    assert found.train_top1 == 1
    chance = torch.randint(4, (2000,))
    x = torch.randn(2000, 8)
    found = linear_probe(
        FixedFeatures(x[:1000], chance[:1000]), x[1000:], chance[1000:], 4, settings()
    )
    assert found.top1 == pytest.approx(0.25, abs=0.06)


def test_a_rate_that_diverges_harms_no_other_and_is_not_chosen():
    usual = probe(settings(weight_decay=0.1))
    found = probe(settings(weight_decay=0.1, lrs=(0.1, 1.0, 10.0, 1e300)))
    assert found.hold_out_top1.pop(1e300) is None
    assert found.hold_out_top1 == usual.hold_out_top1
    assert (found.lr, found.top1) == (usual.lr, usual.top1)
    torch.testing.assert_close(found.weight, usual.weight)


def test_a_rate_whose_second_classifier_alone_diverges_is_not_chosen(monkeypatch):
    train = linear.train_layers

    def spoilt(*arguments):
        layers = train(*arguments)
        layers[-1, sorted(usual.hold_out_top1).index(usual.lr)] = math.nan
        return layers

    usual = probe(settings())
    monkeypatch.setattr(linear, "train_layers", spoilt)
    found = probe(settings())
    assert found.hold_out_top1[usual.lr] is None
    assert found.lr != usual.lr
    assert f"training diverged at the learning rate {usual.lr:g}." in found.details()["notes"]


@pytest.mark.parametrize("lrs", [(1e300,), (1e300, 2e300)])
def test_where_all_rates_diverge_it_is_an_error(lrs):
    with pytest.raises(ValueError, match=r"diverged at every rate of lrs=.*give smaller"):
        probe(settings(lrs=lrs, weight_decay=0.1))


def test_it_is_the_same_each_time_and_leaves_the_global_stream_alone():
    state = torch.random.get_rng_state()
    first = probe(settings(), seed=3)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.rand(5)
    again, other = probe(settings(), seed=3), probe(settings(), seed=4)
    assert torch.equal(first.weight, again.weight)
    assert first.metrics() == again.metrics()
    assert not torch.equal(first.weight, other.weight)


def test_top_five_is_told_for_more_than_five_classes():
    assert probe(settings()).top5 is None
    assert "top5" not in probe(settings()).metrics()
    found = probe(settings(), classes=8)
    test, truth = noisy(60, 8, seed=1)
    logits = test @ found.weight.T + found.bias
    five = logits.argsort(1, descending=True)[:, :5]
    expected = (five == truth[:, None]).any(1).double().mean().item()
    assert found.top5 == pytest.approx(expected)
    assert found.top1 < found.metrics()["top5"] < 1


def test_top_k_leaves_out_what_has_no_score():
    scores = torch.tensor([[0.0, -torch.inf, 2.0], [torch.nan, 1.0, 2.0]])
    assert top_k(scores, torch.tensor([1, 2]), 3).tolist() == [False, True]
    assert top_k(scores, torch.tensor([2, 2]), 1).tolist() == [True, False]


def test_scores_in_blocks_are_the_same(monkeypatch):
    whole = probe(settings())
    monkeypatch.setattr(linear, "BLOCK", 7)
    assert probe(settings()).metrics() == whole.metrics()


@pytest.mark.parametrize("small", [0, 200])
def test_the_notes_tell_a_rate_at_the_edge_if_it_is_clearly_better(monkeypatch, small):
    monkeypatch.setattr("amcl.evaluation.hold_out.SMALL", small)
    low = probe(settings(lrs=(0.1, 1e-9)))
    assert low.lr == 0.1
    assert low.details()["notes"] == [
        "the chosen learning rate, 0.1, is the largest of the grid: widen it."
    ]
    assert probe(settings(lrs=(0.1, 0.1000001))).details()["notes"] == []  # a tie
    assert probe(settings(lrs=(0.1,))).details()["notes"] == []
    assert probe(settings(lrs=(1e-9, 0.1, 0.1000001))).details()["notes"] == []


def test_what_is_told_fits_a_json_file():
    found = probe(settings(lrs=(0.1, 1.0, 1e300), weight_decay=0.1))
    told = json.loads(json.dumps([found.metrics(), found.details()], allow_nan=False))
    assert told[0].keys() == {"top1", "train_top1"}
    assert told[1]["hold_out_top1"].keys() == {"0.1", "1", "1e+300"}
    assert told[1]["hold_out_loss"].keys() == {"0.1", "1", "1e+300"}
    assert (told[1]["hold_out_images"], told[1]["folds"]) == (301, 5)


def test_one_rate_trains_on_everything_and_holds_nothing_out():
    found = probe(settings(lrs=(0.1,)))
    assert (found.hold_out_images, found.hold_out_top1) == (0, {})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number"),
        ({"batch_size": 0}, "batch_size must be a whole number"),
        ({"batch_size": 1, "norm": "batch"}, "norm='batch' needs a batch_size of 2"),
        ({"lrs": ()}, "lrs must be one or more different numbers"),
        ({"lrs": (0.1, 0.1)}, "lrs must be one or more different numbers"),
        ({"lrs": (0.1, 0.0)}, "lrs must be a finite number above 0"),
        ({"momentum": 1.0}, "momentum must be below 1"),
        ({"momentum": 0.0}, "nesterov needs a momentum above 0"),
        ({"weight_decay": -1.0}, "weight_decay must be a finite number, at least 0"),
        ({"hold_out": 0.0}, "hold_out must be above 0 and below 1"),
        ({"hold_out": 1.0}, "hold_out must be above 0 and below 1"),
        ({"crop_scale": (0.5, 0.2)}, "crop_scale must be the least and the most"),
        ({"norm": "layer"}, "norm must be one of 'none', 'batch'"),
    ],
)
def test_settings_say_what_is_wrong(changes, message):
    with pytest.raises(ValueError, match=message):
        LinearSettings(**changes)


def test_data_that_does_not_fit_is_an_error():
    (x, y), (test, truth) = noisy(), noisy(60, seed=1)
    train = FixedFeatures(x, y)
    broken = test.clone()
    broken[3, 2] = math.inf
    for given, message in [
        ({"train": FixedFeatures(x, y[:-1])}, r"training features of shape \(301, 7\) and labels"),
        ({"train": FixedFeatures(x, y + 1)}, "training labels must be whole numbers from 0 to 2"),
        ({"train": FixedFeatures(x, y.double())}, "training labels must be whole numbers"),
        ({"truth": truth - 1}, "test labels must be whole numbers from 0 to 2"),
        ({"test": test[:0], "truth": truth[:0]}, r"test features of shape \(0, 7\)"),
        ({"test": test[:, :5]}, "have 7 numbers an image.*test images 5: take all from one model"),
        ({"test": broken}, "some test features are not finite"),
        ({"train": train, "plain": x[:5]}, r"training features of shape \(5, 7\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            probe(settings(), **given)
