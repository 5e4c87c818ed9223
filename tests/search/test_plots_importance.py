"""Which fields matter, and the picture of it."""

import logging
import math

import numpy as np
import optuna
import pytest

from amcl.search.plots import Axis, importance, importances
from amcl.search.records import Record
from search.test_plots import AXES, FORMS, OTHERS, draw, trials, words

MANY = trials(30)


@pytest.fixture(scope="module")
def found():
    return importances(MANY, AXES)


def test_what_rules_the_value_is_more_important_than_what_does_nothing(found):
    assert set(found) == set(AXES)
    assert next(iter(found)) == "beta"
    assert found["beta"] > 5 * found["iota"]
    assert sum(found.values()) == pytest.approx(1)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_bars_are_the_importances(found):
    (ax,) = importance(MANY, AXES).axes
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], list(found.values()))
    names = [t.get_text().rpartition("(")[2].rstrip(")") for t in ax.get_yticklabels()]
    assert sorted(names) == sorted(["η", "ι", "β", "C", "form", "κ"])
    assert names[0] == "β"
    assert ax.yaxis_inverted()  # the greatest on top
    assert "30 complete trials" in ax.get_xlabel()


def test_a_conditional_field_that_matters_is_found():
    rng = np.random.default_rng(3)
    records = []
    for number in range(40):
        form, iota = FORMS[number % 3], float(rng.uniform(0.1, 2))
        point = {"iota": iota, "form": form}
        if form != "softmax":
            point["top_k"] = draw(rng, AXES["top_k"])
        value = 0.5 + 0.1 * math.log(point.get("top_k", 16))
        records.append(Record(number=number, ending="complete", point=point, value=value))
    found = importances(records, {name: AXES[name] for name in ("iota", "form", "top_k")})
    assert found["top_k"] > 3 * found["iota"]


def test_choices_of_any_kind_are_ranked():
    records = trials(24, OTHERS)
    records = [
        Record(number=r.number, ending="complete", point=r.point, value=float(r.point["symmetric"]))
        for r in records
    ]
    found = importances(records, OTHERS)
    assert next(iter(found)) == "symmetric"
    as_lists = [
        Record(
            number=r.number,
            ending="complete",
            value=r.value,
            point=r.point | {"projector": list(r.point["projector"])},
        )
        for r in records
    ]
    assert importances(as_lists, OTHERS) == found


def test_a_value_outside_of_the_space_is_ranked():
    odd = {"eta": 3.0, "iota": 0.1, "beta": 20.0, "heads": 8, "form": "mean"}
    records = [*trials(12), Record(number=12, ending="complete", point=odd, value=0.4)]
    assert set(importances(records, AXES)) == set(AXES)


def test_importance_is_of_what_makes_the_best_not_the_worst():
    rng = np.random.default_rng(0)
    records = []
    for number in range(40):
        point = {"eta": float(rng.uniform(0, 2)), "iota": float(rng.uniform(0, 2))}
        worst = -1.0 if point["iota"] < 0.5 else 0.0
        value = 1.0 if point["eta"] > 1.5 else worst
        value += 0.01 * float(rng.normal())
        records.append(Record(number=number, ending="complete", point=point, value=value))
    found = importances(records, {"eta": Axis(0.0, 2.0), "iota": Axis(0.0, 2.0)})
    assert found["eta"] > 3 * found["iota"]


def test_ranking_says_nothing_of_its_studies():
    said, before = [], optuna.logging.get_verbosity()
    listener = logging.Handler()
    listener.emit = said.append
    logger = logging.getLogger("optuna")
    logger.addHandler(listener)
    optuna.logging.set_verbosity(optuna.logging.INFO)
    try:
        importances(trials(12), AXES)
        assert not said
        assert optuna.logging.get_verbosity() == optuna.logging.INFO
        optuna.create_study()
        assert said  # it would have been heard
    finally:
        optuna.logging.set_verbosity(before)
        logger.removeHandler(listener)


@pytest.mark.parametrize(
    ("records", "axes", "said"),
    [
        ([], AXES, "needs 8 complete trials or more;\nthere are 0"),
        (trials(1), AXES, "there is 1"),
        (trials(8, lost={0: "failed"}), AXES, "there are 7"),
        (trials(9), {"beta": AXES["beta"]}, "two fields or more"),
        (
            [
                Record(number=i, ending="complete", point={"eta": i / 9}, value=1.0)
                for i in range(9)
            ],
            {"eta": AXES["eta"], "iota": AXES["iota"]},
            "the same value",
        ),
        (
            [
                Record(number=i, ending="complete", point={"form": "top_k"}, value=i)
                for i in range(9)
            ],
            {"form": Axis(choices=("top_k",)), "heads": AXES["heads"]},
            "no field sets them apart",
        ),
    ],
)
def test_without_a_ranking_the_figure_says_why(records, axes, said):
    figure = importance(records, axes)
    assert said in words(figure)
    assert not figure.axes[0].patches
