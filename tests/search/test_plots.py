"""Pictures of a study: what is drawn, read back from the figures; its course, and the files."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from amcl.search import plots
from amcl.search.plots import Axis, heads_and_top_k, history, importance, save_plots, sensitivity
from amcl.search.plots.drawing import MARKS
from amcl.search.records import Record

FORMS = ("softmax", "top_k", "top_k_softmax")
AXES = {
    "eta": Axis(1e-5, 2),
    "iota": Axis(1e-5, 2),
    "beta": Axis(1e-5, 10, log=True),
    "heads": Axis(2, 6),
    "form": Axis(choices=FORMS),
    "top_k": Axis(1, 254, log=True),
}
OTHERS = {
    "lr": Axis(0.01, 1, log=True),
    "projector": Axis(choices=((2048, 2048, 128), (512, 128))),
    "temperature": Axis(choices=("adaptive", None)),
    "symmetric": Axis(choices=(True, False)),
}
LOST = {2: "collapsed", 5: "diverged", 7: "failed", 9: "invalid"}


def draw(rng, axis):
    if axis.choices is not None:
        return axis.choices[rng.integers(len(axis.choices))]
    low, high = (math.log(axis.low), math.log(axis.high)) if axis.log else (axis.low, axis.high)
    value = float(rng.uniform(low, high))
    value = math.exp(value) if axis.log else value
    return round(value) if isinstance(axis.low, int) else value


def trials(count, axes=AXES, seed=0, lost=None):
    """The value is ruled by beta alone; `lost` has the endings of trials without one, by number."""
    rng = np.random.default_rng(seed)
    records = []
    for number in range(count):
        point = {name: draw(rng, axis) for name, axis in axes.items()}
        if point.get("form") == "softmax":
            point.pop("top_k", None)
        value = 0.7 - 0.02 * (math.log10(point.get("beta", 0.1)) + 1) ** 2
        value += 0.005 * float(rng.normal())
        ending = (lost or {}).get(number, "complete")
        found = {"value": value} if ending == "complete" else {"reason": "so it was"}
        records.append(Record(number=number, ending=ending, point=point, **found))
    return records


def complete(records):
    return [r for r in records if r.ending == "complete"]


def marked(ax, label):
    """Where the dots of this label are, in order of x; None if there is no such label."""
    found = [c for c in ax.collections if c.get_label() == label]
    assert len(found) <= 1
    if not found:
        return None
    dots = np.asarray(found[0].get_offsets())
    return dots[np.lexsort((dots[:, 1], dots[:, 0]))]


def line(ax, start):
    return next((one for one in ax.lines if one.get_label().startswith(start)), None)


def legend(figure):
    """What the legends of a figure and of its panels say."""
    panels = [ax.get_legend() for ax in figure.axes if ax.get_legend()]
    return [text.get_text() for one in [*figure.legends, *panels] for text in one.get_texts()]


def words(figure):
    return " ".join(text.get_text() for ax in figure.axes for text in ax.texts)


def by_label(figure):
    """Panels by the sign or name that their words end with: "number of heads (C)" is C."""
    return {ax.get_xlabel().rpartition("(")[2].rstrip(")"): ax for ax in figure.axes}


@pytest.fixture(scope="module")
def course():
    """Trials with some of each ending, and the picture of their course."""
    records = trials(12, lost=LOST)
    return records, history(records[::-1], "kNN accuracy", share=True)


def test_history_has_each_trial_at_its_number_in_per_cent(course):
    records, figure = course
    (ax,) = figure.axes
    expected = [[r.number, 100 * r.value] for r in complete(records)]
    np.testing.assert_allclose(marked(ax, "complete"), expected)
    for number, ending in LOST.items():
        ((x, height),) = marked(ax, ending)
        assert x == number
        assert 0 < height < 0.12  # of the height of the axes, below all values
        mark = next(c for c in ax.collections if c.get_label() == ending)
        assert mark.get_offset_transform() == ax.get_xaxis_transform()
        assert to_hex(mark.get_edgecolor()[0]).upper() == MARKS[ending][0].upper()
    assert ax.get_ylabel() == "kNN accuracy (%)"
    assert ax.get_xlabel() == "trial"
    first, second, *others = legend(figure)
    assert (first, second) == ("best so far", "complete")
    assert sorted(others) == sorted(LOST.values())


def test_no_value_lies_on_the_band_of_those_without_one(course):
    records, figure = course
    (ax,) = figure.axes
    (band,) = ax.patches
    low, high = ax.get_ylim()
    assert low + band.get_height() * (high - low) < 100 * min(r.value for r in complete(records))
    assert all(marked(ax, ending)[0, 1] < band.get_height() for ending in LOST.values())


def test_history_has_the_best_so_far():
    values = [0.2, 0.5, None, 0.4, 0.6, math.nan]
    records = [
        Record(number=i, ending="failed" if v is None else "complete", point={}, value=v)
        for i, v in enumerate(values)
    ]
    (ax,) = history(records, "effective rank", share=False).axes
    best = line(ax, "best so far")
    assert best.get_drawstyle() == "steps-post"
    np.testing.assert_allclose(
        best.get_xydata(), [[0, 0.2], [1, 0.5], [3, 0.5], [4, 0.6], [5, 0.6]]
    )
    assert ax.get_ylabel() == "effective rank"


def test_history_has_pruned_trials_at_their_last_finite_value():
    pruned = {"ending": "pruned", "point": {}}
    records = [
        Record(number=0, ending="complete", point={}, value=0.5, probes={1: 0.2, 12: 0.5}),
        Record(number=1, probes={10: 0.3, 2: 0.1, 11: math.nan}, **pruned),
        Record(number=2, **pruned),
    ]
    (ax,) = history(records, "kNN accuracy", share=True).axes
    np.testing.assert_allclose(marked(ax, "pruned (last value)"), [[1, 30]])
    assert marked(ax, "pruned")[:, 0].tolist() == [2]  # nothing was seen of it: at the bottom
    low, high = ax.get_ylim()
    assert low < 30 < 50 < high


@pytest.mark.parametrize(
    "records",
    [[], trials(4, lost=dict.fromkeys(range(4), "collapsed"))],
    ids=["none", "all collapsed"],
)
def test_without_a_complete_trial_that_is_said(records):
    axes = {name: AXES[name] for name in ("eta", "beta", "heads")}
    for figure in (
        history(records, "kNN accuracy", share=True),
        sensitivity(records, axes, "kNN accuracy", share=True),
        heads_and_top_k(records, axes, "kNN accuracy", share=True),
    ):
        assert "no complete trial" in words(figure)
        assert all(marked(ax, "complete") is None for ax in figure.axes)
        assert legend(figure) == (["collapsed"] if records else [])
        assert len(figure.axes[0].get_yticks()) == 0


MANY = ["beta", *OTHERS, "heads", "form", "top_k"]


@pytest.mark.parametrize(
    ("records", "fields", "names"),
    [
        (trials(14, AXES | OTHERS, lost=LOST), MANY, ["sensitivity", "heads_and_top_k"]),
        (trials(1), ["beta", "top_k"], ["sensitivity", "heads_and_top_k"]),
        (trials(2, lost={0: "collapsed", 1: "collapsed"}), ["beta"], ["sensitivity"]),
        ([], ["heads"], ["heads_and_top_k"]),
    ],
    ids=["many", "one", "collapsed", "none"],
)
def test_pictures_are_saved(tmp_path, records, fields, names):
    axes = {name: (AXES | OTHERS)[name] for name in fields}
    paths = save_plots(records, axes, "kNN accuracy", True, tmp_path / "plots")
    assert [path.stem for path in paths] == ["history", "importance", *names]
    assert {path.suffix for path in paths} == {".png"}
    assert sorted(paths) == sorted((tmp_path / "plots").iterdir())  # and no half-written file
    for path in paths:
        with Image.open(path) as image:
            assert image.width == 1200
            assert image.convert("L").getextrema()[0] < 100  # there is something on it


def test_drawing_leaves_nothing_in_the_global_list_of_figures():
    from matplotlib._pylab_helpers import Gcf

    before = dict(Gcf.figs)
    history(trials(3), "kNN accuracy", share=True)
    assert before == Gcf.figs


def test_what_is_heavy_is_loaded_only_to_draw():
    at_once = set()
    for module in Path(plots.__file__).parent.glob("*.py"):
        for node in ast.parse(module.read_text()).body:
            if isinstance(node, ast.Import):
                at_once |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                at_once.add(node.module.partition(".")[0])
    assert "numpy" in at_once
    assert not at_once & {"matplotlib", "optuna"}


def test_an_axis_is_a_range_or_choices():
    for given in ({}, {"low": 1}, {"low": 1, "high": 2, "choices": (1,)}):
        with pytest.raises(ValueError, match=r"a range .* or choices"):
            Axis(**given)
    with pytest.raises(ValueError, match="starts above 0, got low=0"):
        Axis(0, 1, log=True)


def test_one_image_does_not_fill_a_picture():
    """Equal values, or values one image apart, lie in an axis of two images at least."""
    same = [Record(number=i, ending="complete", point={}, value=5 / 28) for i in range(4)]
    more = [*same, Record(number=4, ending="complete", point={}, value=6 / 28)]
    for records in (same, more):
        (ax,) = history(records, "kNN accuracy", share=True, images=28).axes
        low, high = ax.get_ylim()
        assert high - low > 2 * 100 / 28
        assert low < 500 / 28 < high


def test_pictures_have_titles_and_say_how_many_images_they_are_of():
    records = trials(10)
    asked = {"objective_label": "kNN accuracy", "share": True, "images": 28}
    for figure in (
        history(records, **asked),
        sensitivity(records, AXES, **asked),
        heads_and_top_k(records, AXES, **asked),
    ):
        assert "kNN accuracy" in figure.get_suptitle()
        assert "28 validation images: one image is 3.6 points" in figure.get_suptitle()
    heads, top_k = heads_and_top_k(records, AXES, **asked).axes
    assert "softmax" not in [t.get_text() for t in heads.get_legend().get_texts()]
    assert "mean" not in [t.get_text() for t in top_k.get_legend().get_texts()]
    assert heads.get_xlabel() == "number of heads (C)"


def test_fields_are_not_ranked_by_noise():
    (ax,) = importance(trials(12), AXES, images=10).axes
    assert "cannot be told apart on 10 validation images" in ax.texts[0].get_text()
    assert importance(trials(12), AXES, images=10**6).get_suptitle()
