"""Few labels against direct calls of scikit-learn; exact, nested, independent draws."""

import importlib
import itertools
import json

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from amcl.evaluation.protocols.few_labels import FewLabelsSettings, draw, few_labels
from amcl.evaluation.protocols.logistic import fit

module = importlib.import_module("amcl.evaluation.protocols.few_labels")  # not the function
NAMES = ["owl", "cat", "dog"]


def noisy(sizes, seed):
    g = torch.Generator().manual_seed(seed)
    labels = torch.arange(3).repeat_interleave(torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=g)]
    centers = torch.randn(3, 6, generator=torch.Generator().manual_seed(99))
    return centers[labels] + torch.randn(len(labels), 6, generator=g), labels


def data(sizes=(40, 25, 30)):
    return *noisy(sizes, seed=0), *noisy((30, 30, 30), seed=1)


def test_a_draw_has_exactly_n_of_each_class():
    _, labels = noisy((40, 25, 30), seed=0)
    for n in (1, 10, 25):
        chosen = draw(labels, n, seed=0, number=0)
        assert labels[chosen].bincount().tolist() == [n] * 3
        assert len(chosen.unique()) == 3 * n
        assert torch.equal(chosen, chosen.sort().values)


def test_small_draws_are_within_larger_ones():
    _, labels = noisy((40, 25, 30), seed=0)
    drawn = [set(draw(labels, n, seed=0, number=1).tolist()) for n in (1, 5, 10, 20, 25)]
    assert all(small < large for small, large in itertools.pairwise(drawn))


def test_draws_are_independent_and_the_same_each_time():
    labels = torch.arange(2).repeat(2000)
    first = draw(labels, 1000, seed=0, number=0)
    torch.rand(3)
    assert torch.equal(first, draw(labels, 1000, seed=0, number=0))
    for other in (draw(labels, 1000, seed=0, number=1), draw(labels, 1000, seed=1, number=0)):
        both = torch.isin(first, other).double().mean().item()
        assert both == pytest.approx(0.5, abs=0.05)
    # Classes draw apart: their places are not the same.
    places = [first[first % 2 == label] // 2 for label in (0, 1)]
    assert torch.isin(*places).double().mean().item() == pytest.approx(0.5, abs=0.07)


def test_a_small_class_gives_all_it_has():
    labels = torch.tensor([0, 0, 0, 0, 1, 1])
    assert labels[draw(labels, 3, seed=0, number=0)].tolist() == [0, 0, 0, 1, 1]
    with pytest.raises(ValueError, match=r"\bn\b.*\b0\b"):
        draw(torch.tensor([0, 1]), 0, seed=0, number=0)


@pytest.mark.parametrize("cost", [0.01, 1.0])
def test_accuracies_are_scikit_learns(cost):
    train_x, train_y, test_x, test_y = data()
    made = FewLabelsSettings(per_class=(20, 5), draws=3, cost=cost)
    found = few_labels(train_x, train_y, test_x, test_y, NAMES, made, seed=7)
    assert list(found.features) == [5, 20]
    for n, draws in found.features.items():
        expected = []
        for number in range(3):
            chosen = draw(train_y, n, 7, number)
            model = LogisticRegression(C=cost, max_iter=1000)
            model.fit(train_x[chosen].double().numpy(), train_y[chosen].numpy())
            expected.append(model.score(test_x.double().numpy(), test_y.numpy()))
        assert draws.accuracies == pytest.approx(expected)
        assert draws.mean == pytest.approx(np.mean(expected))
        assert draws.std == pytest.approx(np.std(expected, ddof=1))
        assert found.metrics()[f"n={n}"] == draws.mean
    assert found.details()["std"]["n=5"] > 0
    assert found.details()["notes"] == []
    assert found.supervised == {}


def test_one_draw_has_no_spread():
    made = FewLabelsSettings(per_class=(5,), draws=1)
    found = few_labels(*data(), NAMES, made)
    assert found.features[5].std is None
    assert found.details()["std"] == {"n=5": None}
    assert found.metrics() == {"n=5": found.features[5].accuracies[0]}


def test_the_baseline_gets_the_same_images():
    train_x, train_y, test_x, test_y = data()
    made = FewLabelsSettings(per_class=(5, 10), draws=2, supervised=True)
    calls = []

    def baseline(indices, number):
        calls.append((indices.tolist(), number))
        return len(indices) / 100 + number / 10

    found = few_labels(train_x, train_y, test_x, test_y, NAMES, made, 3, baseline)
    assert calls == [
        (draw(train_y, n, 3, number).tolist(), number) for n in (5, 10) for number in (0, 1)
    ]
    assert found.supervised[10].accuracies == (0.3, 0.4)
    assert found.metrics()["supervised n=10"] == pytest.approx(0.35)
    assert found.details()["std"]["supervised n=10"] == pytest.approx(np.std([0.3, 0.4], ddof=1))
    assert (
        found.features
        == few_labels(
            train_x,
            train_y,
            test_x,
            test_y,
            NAMES,
            FewLabelsSettings(per_class=(5, 10), draws=2),
            3,
        ).features
    )


def test_the_baseline_is_trained_only_where_it_is_asked_for():
    def never(indices, number):
        raise AssertionError

    made = FewLabelsSettings(per_class=(5,), draws=1)
    assert few_labels(*data(), NAMES, made, 0, never).supervised == {}
    with pytest.raises(ValueError, match="supervised=True needs the training of the baseline"):
        few_labels(*data(), NAMES, FewLabelsSettings(per_class=(5,), supervised=True))


def test_sizes_that_half_of_the_classes_cannot_fill_are_left_out_with_a_note():
    made = FewLabelsSettings(per_class=(10, 25, 26, 31, 500), draws=1)
    found = few_labels(*data(), NAMES, made)
    assert list(found.features) == [10, 25, 26]
    why = "half of the classes or more have fewer images; their median is 30"
    assert found.skipped == {31: why, 500: why}
    told = json.loads(json.dumps(found.details(), allow_nan=False))
    assert told["skipped"] == {"31": why, "500": why}
    assert told["notes"] == [
        *(f"n={n} was left out: {why}." for n in (31, 500)),
        "n=26: 1 smaller classes give all they have (cat 25).",
    ]


def test_one_tiny_class_does_not_make_it_impossible():
    found = few_labels(*data((40, 2, 30)), NAMES, FewLabelsSettings(draws=2))
    assert list(found.features) == [10, 20]
    assert "n=10: 1 smaller classes give all they have (cat 2)." in found.notes


@pytest.mark.parametrize(("sizes", "median"), [((40, 25, 30), 30), ((9, 1, 9), 9), ((9, 9, 0), 9)])
def test_where_no_size_can_be_filled_the_median_size_of_classes_is_taken(sizes, median):
    found = few_labels(*data(sizes), NAMES, FewLabelsSettings(per_class=(50, 100), draws=1))
    assert list(found.features) == [median]
    assert list(found.skipped) == [50, 100]


def test_balanced_accuracies_count_each_class_the_same():
    train_x, train_y, test_x, test_y = *noisy((40, 25, 30), 0), *noisy((60, 10, 5), 1)
    found = few_labels(
        *(train_x, train_y, test_x, test_y, NAMES), FewLabelsSettings(per_class=(5,), draws=2)
    )
    expected = []
    for number in range(2):
        at = draw(train_y, 5, 0, number)
        model = LogisticRegression(max_iter=1000).fit(train_x[at].double(), train_y[at])
        expected.append(balanced_accuracy_score(test_y, model.predict(test_x.double())))
    assert found.features[5].balanced == pytest.approx(expected)
    assert found.balanced() == {"balanced n=5": pytest.approx(np.mean(expected))}


def test_draws_of_every_image_are_told_to_be_the_same():
    found = few_labels(*data((12, 12, 12)), NAMES, FewLabelsSettings(per_class=(6, 12), draws=2))
    assert found.notes == ("n=12 takes every training image: all draws are the same.",)
    assert found.features[12].std == 0
    assert found.features[6].std > 0


def test_fits_that_do_not_converge_are_told(monkeypatch):
    monkeypatch.setattr(module, "fit", lambda x, y, cost: fit(x, y, cost, max_iter=2))
    found = few_labels(*data(), NAMES, FewLabelsSettings(per_class=(10,), draws=2))
    assert found.notes == ("n=10: the regression had not converged in draws 0, 1.",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"per_class": ()}, "per_class must be one or more different numbers"),
        ({"per_class": (10, 10)}, "per_class must be one or more different numbers"),
        ({"per_class": (10, 0)}, "per_class must be a whole number"),
        ({"draws": 0}, "draws must be a whole number"),
        ({"cost": 0.0}, "cost must be a finite number above 0"),
    ],
)
def test_settings_say_what_is_wrong(changes, message):
    with pytest.raises(ValueError, match=message):
        FewLabelsSettings(**changes)


def test_data_that_does_not_fit_is_an_error():
    train_x, train_y, test_x, test_y = data()
    made = FewLabelsSettings(per_class=(5,))
    with pytest.raises(ValueError, match="training labels must be whole numbers from 0 to 1"):
        few_labels(train_x, train_y, test_x, test_y, NAMES[:2], made)
    with pytest.raises(ValueError, match=r"\btest\b.*\(90, 6\).*\(89,\)"):
        few_labels(train_x, train_y, test_x, test_y[:-1], NAMES, made)
