"""How the value depends on each field, read back from the pictures."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from amcl.search.plots import Axis, heads_and_top_k, sensitivity, told
from amcl.search.plots.sensitivity import running_median
from amcl.search.records import Record
from search.test_plots import AXES, FORMS, OTHERS, by_label, complete, legend, line, marked, trials

ALL = AXES | OTHERS
LOST = {1: "collapsed", 4: "diverged", 6: "failed", 8: "pruned"}
RECORDS = trials(14, ALL, lost=LOST)
DONE = complete(RECORDS)


@pytest.fixture(scope="module")
def by_field():
    return sensitivity(RECORDS, ALL, "kNN accuracy", share=True)


@pytest.fixture(scope="module")
def of_heads():
    return by_label(heads_and_top_k(RECORDS, ALL, "kNN accuracy", share=True))


def test_sensitivity_has_a_panel_a_field_but_those_with_a_picture_of_their_own(by_field):
    panels = by_label(by_field)
    assert list(panels) == ["η", "ι", "β", "lr", "projector", "temperature", "symmetric"]
    assert {name: ax.get_xscale() for name, ax in panels.items() if name in "ηιβlr"} == {
        "η": "linear", "ι": "linear", "β": "log", "lr": "log"
    }  # fmt: skip
    for symbol, name in [("η", "eta"), ("β", "beta"), ("lr", "lr")]:
        expected = sorted([r.point[name], 100 * r.value] for r in DONE)
        np.testing.assert_allclose(marked(panels[symbol], "complete"), expected)
        low, high = panels[symbol].get_xlim()
        assert low < ALL[name].low < ALL[name].high < high  # the whole range is shown


def test_choices_are_strips_in_their_order(by_field):
    panels = by_label(by_field)
    for name in ("projector", "temperature", "symmetric"):
        choices, ax = OTHERS[name].choices, panels[name]
        dots = marked(ax, "complete")
        assert np.all(np.abs(dots[:, 0] - dots[:, 0].round()) < 0.25)
        found = sorted(zip(dots[:, 0].round().tolist(), dots[:, 1].tolist(), strict=True))
        assert found == sorted((choices.index(r.point[name]), 100 * r.value) for r in DONE)
        labels = [text.get_text().replace("\n", " ") for text in ax.get_xticklabels()]
        assert labels == [told(choice) for choice in choices]


def test_sensitivity_has_lost_trials_at_their_x(by_field):
    panels = by_label(by_field)
    for symbol, name in [("η", "eta"), ("ι", "iota"), ("β", "beta"), ("lr", "lr")]:
        for number, ending in [(1, "collapsed"), (4, "diverged")]:
            ((x, height),) = marked(panels[symbol], ending)
            assert x == RECORDS[number].point[name]
            assert height < 0.12
        assert marked(panels[symbol], "failed") is None
        assert len(marked(panels[symbol], "complete")) == len(DONE)


def test_true_is_not_one():
    axes = {"flag": Axis(choices=(1, True))}
    (ax,) = sensitivity(trials(8, axes), axes, "kNN accuracy", share=True).axes
    dots = marked(ax, "complete")[:, 0].round().tolist()
    assert dots == sorted(float(r.point["flag"] is True) for r in trials(8, axes))
    assert {0, 1} == set(dots)


def test_running_median_is_the_median_of_neighbors():
    rng = np.random.default_rng(0)
    x, y = rng.permutation(20) / 7, rng.normal(size=20)
    order = sorted(range(20), key=lambda i: x[i])
    expected = []
    for start in range(20 - 5 + 1):
        near = order[start : start + 5]
        expected.append([np.median([x[i] for i in near]), np.median([y[i] for i in near])])
    np.testing.assert_allclose(np.transpose(running_median(x, y, 5)), expected)


def test_the_running_median_is_drawn_from_ten_trials_on(by_field):
    drawn = line(by_label(by_field)["β"], "running median")
    ordered = sorted((r.point["beta"], 100 * r.value) for r in DONE)
    assert len(ordered) == 10
    medians = [np.median(ordered[i : i + 5], axis=0) for i in range(6)]
    np.testing.assert_allclose(drawn.get_xydata(), medians)
    assert "running median of 5 trials" in legend(by_field)

    fewer = sensitivity(DONE[1:], {"beta": AXES["beta"]}, "effective rank", share=False)
    (ax,) = fewer.axes
    assert line(ax, "running median") is None
    assert legend(fewer) == ["complete"]
    np.testing.assert_allclose(marked(ax, "complete")[:, 1].sum(), sum(r.value for r in DONE[1:]))
    assert ax.get_ylabel() == "effective rank"


def test_a_value_outside_of_the_space_is_drawn():
    odd = Record(number=99, ending="complete", point={"beta": 20.0, "form": "mean"}, value=0.4)
    axes = {"beta": AXES["beta"], "form": AXES["form"]}
    (ax,) = heads_and_top_k([*DONE, odd], {"form": axes["form"]}, "kNN accuracy", share=True).axes
    assert [text.get_text() for text in ax.get_xticklabels()] == [*FORMS, "mean"]
    (ax,) = sensitivity([*DONE, odd], axes, "kNN accuracy", share=True).axes
    assert ax.get_xlim()[1] > 20


def test_heads_have_dots_and_the_mean_of_each_count(of_heads):
    ax = of_heads["C"]
    dots = marked(ax, "complete")
    found = sorted(zip(dots[:, 0].round().tolist(), dots[:, 1].tolist(), strict=True))
    assert found == sorted((r.point["heads"], 100 * r.value) for r in DONE)
    bars = next(c for c in ax.collections if c.get_label() == "mean").get_segments()
    means = {(bar[0, 0] + bar[1, 0]) / 2: bar[0, 1] for bar in bars}
    assert means == {
        count: pytest.approx(100 * np.mean([r.value for r in DONE if r.point["heads"] == count]))
        for count in {r.point["heads"] for r in DONE}
    }
    assert round(marked(ax, "diverged")[0, 0]) == RECORDS[4].point["heads"]


def test_top_k_tells_forms_apart_and_has_the_softmax_at_the_right_end(of_heads):
    ax = of_heads["κ"]
    assert ax.get_xscale() == "log"
    for form in ("top_k", "top_k_softmax"):
        expected = [(r.point["top_k"], 100 * r.value) for r in DONE if r.point["form"] == form]
        np.testing.assert_allclose(marked(ax, form), sorted(expected))
    plain = marked(ax, "softmax")
    assert len(plain) == sum(r.point["form"] == "softmax" for r in DONE) > 0
    (border,) = [one.get_xdata()[0] for one in ax.lines]
    assert 254 < border < plain[:, 0].min() < plain[:, 0].max() < ax.get_xlim()[1]
    labels = dict(zip([t.get_text() for t in ax.get_xticklabels()], ax.get_xticks(), strict=True))
    assert list(labels) == ["1", "3", "10", "30", "100", "softmax"]
    assert plain[:, 0].min() <= labels["softmax"] <= plain[:, 0].max()
    colors = {c.get_label(): to_hex(c.get_facecolor()[0]) for c in ax.collections}
    assert len({colors[form] for form in FORMS}) == 3


def test_top_k_by_choices():
    axes = {"form": AXES["form"], "top_k": Axis(choices=(1, 8, 64))}
    records = trials(20, axes)
    (ax,) = heads_and_top_k(records, axes, "kNN accuracy", share=False).axes
    assert [t.get_text() for t in ax.get_xticklabels()] == ["1", "8", "64", "softmax"]
    for form in ("top_k", "top_k_softmax"):
        having = [r for r in records if r.point["form"] == form]
        expected = sorted(((1, 8, 64).index(r.point["top_k"]), r.value) for r in having)
        np.testing.assert_allclose(marked(ax, form), expected)
    assert marked(ax, "softmax")[:, 0].min() > 2.5


@pytest.mark.parametrize(
    ("names", "drawn"),
    [
        (["heads"], ["C"]),
        (["form"], ["form"]),
        (["top_k"], ["κ"]),
        (["form", "top_k", "eta"], ["κ"]),
        (["form", "heads"], ["C", "form"]),
    ],
)
def test_absent_panels_are_left_out(names, drawn):
    axes = {name: AXES[name] for name in names}
    records = trials(10, axes)
    figure = heads_and_top_k(records, axes, "kNN accuracy", share=True)
    assert list(by_label(figure)) == drawn
    dots = [c for c in figure.axes[-1].collections if c.get_label() != "mean"]
    assert sum(len(c.get_offsets()) for c in dots) == 10


def test_a_picture_of_nothing_is_an_error():
    with pytest.raises(ValueError, match="neither heads, nor form, nor top_k"):
        heads_and_top_k([], {"eta": AXES["eta"]}, "kNN accuracy", share=True)
    with pytest.raises(ValueError, match="form belongs to heads_and_top_k"):
        sensitivity([], {"form": AXES["form"]}, "kNN accuracy", share=True)
