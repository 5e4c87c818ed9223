"""Logistic regression against direct calls of scikit-learn."""

import importlib
import json
import warnings

import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import top_k_accuracy_score
from sklearn.preprocessing import StandardScaler

from amcl.data.split import hold_out
from amcl.evaluation.hold_out import hold_out_parts
from amcl.evaluation.protocols.logistic import LogisticSettings, fit, logistic
from amcl.seeds import seed_of


@pytest.fixture
def _large(monkeypatch):
    """These few images chosen from as many are: by one hold-out and its accuracy."""
    monkeypatch.setattr("amcl.evaluation.hold_out.SMALL", 0)


large = pytest.mark.usefixtures("_large")
module = importlib.import_module("amcl.evaluation.protocols.logistic")  # not the function
D = 6


def noisy(n, classes, seed):
    g = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % classes
    centers = torch.randn(classes, D, generator=torch.Generator().manual_seed(99))
    scale = torch.tensor([1.0, 10.0, 0.1, 1.0, 3.0, 1.0])
    return (0.7 * centers[labels] + torch.randn(n, D, generator=g)) * scale + 5, labels


def data(classes=3):
    return *noisy(300, classes, seed=0), *noisy(100, classes, seed=1)


def theirs(x, y, cost, standardize=False):
    """scikit-learn's own regression, and what it predicts from."""
    scaler = StandardScaler(with_mean=standardize, with_std=standardize).fit(x.double().numpy())
    model = LogisticRegression(C=cost, max_iter=1000)
    model.fit(scaler.transform(x.double().numpy()), y.numpy())
    return model, lambda x: scaler.transform(x.double().numpy())


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("cost", [0.001, 1.0])
def test_one_cost_is_scikit_learns_regression(classes, standardize, cost):
    train_x, train_y, test_x, test_y = data(classes)
    made = LogisticSettings(costs=(cost,), standardize=standardize)
    found = logistic(train_x, train_y, test_x, test_y, classes, made)
    model, prepared = theirs(train_x, train_y, cost, standardize)
    assert found["top1"] == pytest.approx(model.score(prepared(test_x), test_y.numpy()))
    assert found["train_top1"] == pytest.approx(model.score(prepared(train_x), train_y.numpy()))
    if classes > 5:
        scores = model.decision_function(prepared(test_x))
        expected = top_k_accuracy_score(test_y.numpy(), scores, k=5)
        assert found["top5"] == pytest.approx(expected)
        assert found["top1"] < found["top5"]
    else:
        assert found["top5"] is None
    assert found["converged"] is True
    assert found["cost"] == cost
    assert (found["hold_out_images"], found["hold_out_top1"], found["notes"]) == (0, {}, [])


@large
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_cost_is_chosen_on_a_hold_out_and_all_images_are_in_the_last_fit(standardize, seed):
    train_x, train_y, test_x, test_y = data()
    made = LogisticSettings(costs=(1.0, 1e-5, 0.01), hold_out=0.2, standardize=standardize)
    found = logistic(train_x, train_y, test_x, test_y, 3, made, seed)
    kept, held = hold_out(train_y, 60, seed_of(seed, "logistic", "hold-out"))
    tops = {}
    for cost in made.costs:
        model, prepared = theirs(train_x[kept], train_y[kept], cost, standardize)
        tops[cost] = model.score(prepared(train_x[held]), train_y[held].numpy())
    assert found["hold_out_images"] == 60
    assert found["hold_out_top1"] == pytest.approx({f"{c:g}": top1 for c, top1 in tops.items()})
    best = min(cost for cost in made.costs if tops[cost] == max(tops.values()))
    assert found["cost"] == best
    model, prepared = theirs(train_x, train_y, best, standardize)
    assert found["top1"] == pytest.approx(model.score(prepared(test_x), test_y.numpy()))


@large
def test_standardization_matters_and_knows_nothing_of_the_hold_out(monkeypatch):
    train_x, train_y, test_x, test_y = data()
    seen = []
    monkeypatch.setattr(
        module, "fit", lambda x, *rest, **more: seen.append(len(x)) or fit(x, *rest, **more)
    )
    made = LogisticSettings(costs=(0.001, 0.01), hold_out=0.2, standardize=True)
    found = logistic(train_x, train_y, test_x, test_y, 3, made)
    assert seen == [240, 240, 300]
    raw = LogisticSettings(costs=(0.001, 0.01), hold_out=0.2)
    other = logistic(train_x, train_y, test_x, test_y, 3, raw)
    assert other["hold_out_loss"] != found["hold_out_loss"]


def test_the_test_set_does_not_choose():
    train_x, train_y, test_x, test_y = data()
    found, other = (
        logistic(train_x, train_y, test_x, truth, 3, LogisticSettings(costs=(1e-5, 0.01, 1.0)))
        for truth in (test_y, test_y.roll(1))
    )
    assert found.pop("top1") != other.pop("top1")
    assert torch.equal(found.pop("predicted"), other.pop("predicted"))
    assert found == other


@large
def test_of_equal_costs_the_smallest_is_chosen_and_none_is_told_to_be_at_the_edge():
    x, y = torch.eye(3).repeat(20, 1), torch.arange(3).repeat(20)
    found = logistic(x, y, x, y, 3, LogisticSettings(costs=(10.0, 0.1, 1.0)))
    assert set(found["hold_out_top1"].values()) == {1.0}
    assert (found["cost"], found["notes"]) == (0.1, [])


def test_few_images_choose_the_cost_by_the_loss_of_every_part_in_turn():
    train_x, train_y, test_x, test_y = data()
    made = LogisticSettings(costs=(1.0, 1e-5, 0.01))
    found = logistic(train_x, train_y, test_x, test_y, 3, made)
    seed = seed_of(0, "logistic", "hold-out")
    parts = hold_out_parts(made.costs, train_y, made.hold_out, seed)
    assert (found["folds"], found["hold_out_images"]) == (5, 300)
    for cost in made.costs:
        losses = []
        for part in parts:
            kept = ~torch.isin(torch.arange(300), part)
            model, prepared = theirs(train_x[kept], train_y[kept], cost)
            likely = torch.from_numpy(model.predict_log_proba(prepared(train_x[part])))
            losses.append(-likely.gather(1, train_y[part][:, None]))
        expected = torch.cat(losses).mean().item()
        assert found["hold_out_loss"][f"{cost:g}"] == pytest.approx(expected, rel=1e-3)
    lowest = min(found["hold_out_loss"], key=found["hold_out_loss"].get)
    assert found["cost"] == float(lowest)


def test_a_fit_that_does_not_converge_is_told_and_not_warned_of():
    train_x, train_y, test_x, test_y = data()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = logistic(
            train_x, train_y, test_x, test_y, 3, LogisticSettings(costs=(1.0,), max_iter=2)
        )
        several = logistic(
            train_x, train_y, test_x, test_y, 3, LogisticSettings(costs=(1.0, 2.0), max_iter=2)
        )
    assert caught == []
    assert found["converged"] is False
    assert found["notes"] == ["the last fit, with cost 1, had not converged: raise max_iter."]
    assert "cost 2 had not converged when it was compared: raise max_iter." in several["notes"]
    del several["predicted"]
    assert json.loads(json.dumps(several, allow_nan=False)) == several


def test_other_warnings_are_passed_on(monkeypatch):
    class Warning_(LogisticRegression):
        def fit(self, x, y):
            warnings.warn("something else", FutureWarning, stacklevel=1)
            warnings.warn("too few steps", ConvergenceWarning, stacklevel=1)
            return super().fit(x, y)

    monkeypatch.setattr("sklearn.linear_model.LogisticRegression", Warning_)
    train_x, train_y, *_ = data()
    with pytest.warns(FutureWarning, match="something else") as caught:
        found = fit(train_x, train_y, 1.0)
    assert len(caught) == 1
    assert not found.converged


def test_a_class_without_training_images_is_never_right():
    train_x, train_y, test_x, test_y = data(7)
    few = train_y < 3
    found = logistic(train_x[few], train_y[few], test_x, test_y, 7, LogisticSettings(costs=(0.1,)))
    assert found["top5"] == pytest.approx((test_y < 3).double().mean().item())
    labels = torch.tensor([2, 4])[train_y % 2].to(torch.uint8)
    model, prepared = theirs(train_x, labels, 0.1)
    expected = model.score(prepared(test_x), test_y.numpy())
    assert fit(train_x, labels, 0.1).accuracy(test_x, test_y) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"costs": ()}, "costs must be one or more different numbers"),
        ({"costs": (1.0, 1.0)}, "costs must be one or more different numbers"),
        ({"costs": (-1.0,)}, "costs must be a finite number above 0"),
        ({"hold_out": 1.5}, "hold_out must be above 0 and below 1"),
        ({"max_iter": 0}, "max_iter must be a whole number"),
    ],
)
def test_settings_say_what_is_wrong(changes, message):
    with pytest.raises(ValueError, match=message):
        LogisticSettings(**changes)


def test_data_that_does_not_fit_is_an_error():
    train_x, train_y, test_x, test_y = data()
    made = LogisticSettings()
    with pytest.raises(ValueError, match="test labels must be whole numbers from 0 to 1"):
        logistic(train_x, train_y % 2, test_x, test_y, 2, made)
    with pytest.raises(ValueError, match="some training features are not finite"):
        logistic(train_x / 0, train_y, test_x, test_y, 3, made)
    with pytest.raises(ValueError, match="all 300 training images are of one"):
        fit(train_x, torch.zeros_like(train_y), 1.0)


def test_one_image_a_class_takes_the_middle_of_the_grid_and_says_so():
    train_x, train_y, test_x, test_y = data()
    found = logistic(train_x[:3], train_y[:3], test_x, test_y, 3, LogisticSettings())
    assert found["cost"] == 1.0
    assert "every class has one training image, so none could choose" in found["notes"][0]


@pytest.mark.parametrize("standardize", [False, True])
def test_a_start_saves_steps(standardize):
    x, y = torch.randn(200, 5), torch.randint(3, (200,))
    whole = fit(x, y, 1.0, standardize=standardize)
    short = fit(x, y, 1.0, max_iter=1, standardize=standardize)
    begun = fit(x, y, 1.0, max_iter=1, standardize=standardize, start=whole)
    assert whole.converged
    assert not short.converged
    assert begun.converged
    expected = whole.model.predict_proba(x.numpy())
    assert begun.model.predict_proba(x.numpy()) == pytest.approx(expected, abs=1e-3)
