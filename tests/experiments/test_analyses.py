"""Analyses: which runs answer a question."""

import pytest

from amcl import recipes
from amcl.config.fields import changes, value_of, with_values
from amcl.experiments.analyses import ANALYSES
from amcl.experiments.specs import AMCL, AUROC, BASELINE, KNN, NONE, SIDE, sides
from amcl.recipes import with_amcl

BASE = recipes.recipe("builtin-simclr")


def cells(name, values=(), base=BASE, spec=0):
    return ANALYSES[name].specs(base, values)[spec].cells


def test_both_sides_of_a_method():
    both = sides(BASE)
    assert both[BASELINE] == BASE
    assert both[AMCL] == recipes.recipe("builtin-simclr-amcl")
    five = with_values(BASE, {"heads": 5, "form": "top_k", "top_k": 3})
    assert sides(five)[BASELINE] == BASE
    assert value_of(sides(five)[AMCL], "heads") == 5
    with pytest.raises(ValueError, match=r"\bmae\b.*\bAMCL\b"):
        sides(recipes.recipe("builtin-mae"))


@pytest.mark.parametrize("name", ANALYSES)
@pytest.mark.parametrize("method", ["simclr", "moco", "simsiam", "barlow", "can", "byol", "nnclr"])
def test_every_analysis_has_runs_for_every_method(name, method):
    base = recipes.recipe(f"builtin-{method}")
    if name == "negatives" and method in ("simsiam", "barlow", "byol"):
        with pytest.raises(
            ValueError, match=f"^{method} .*simclr, moco, mocov3, nnclr, can or lgp"
        ):
            ANALYSES[name].specs(base)
        return
    for spec in ANALYSES[name].specs(base, metric=AUROC):
        assert len({tuple(cell.labels.values()) for cell in spec.cells}) == len(spec.cells)
        assert {spec.x, spec.series, spec.panels, spec.compared} - {None} <= {*spec.cells[0].labels}
        for cell in spec.cells:
            assert cell.config.method.name == method
            assert cell.metric is AUROC or ANALYSES[name].own_metric or spec.panels == "measure"


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("overlap", {"overlap"}),
        ("color", {"jitter"}),
        ("augmentations", {"views"}),
        ("heads", {"heads", "temperature"}),
        ("negatives", {"form", "top_k"}),
        ("tau", {"tau", "heads", "temperature"}),
        ("wider", {"heads", "projector", "temperature"}),
        ("labels", set()),
        ("sensitivity", {"tau_lower", "tau_upper", "beta"}),
    ],
)
def test_nothing_but_the_question_changes(name, changed):
    amcl = sides(BASE)[AMCL]
    for cell in cells(name):
        near = min((changes(side, cell.config) for side in (BASE, amcl)), key=len)
        assert set(near) <= changed, cell.labels


def test_values_are_those_asked_for():
    assert [c.config.views.overlap for c in cells("overlap", ("0.25",))] == [0.25, 0.25]
    assert [c.labels["heads"] for c in cells("heads", ("2", "4"))] == [NONE, "2", "4"]
    strong = cells("color", ("2",))[0].config.views.jitter
    assert strong == (1.6, 1.6, 1.6, 0.4)


def test_kappa_is_a_number_or_a_share_of_the_negatives():
    base = with_values(BASE, {"batch_size": 51})  # 100 negatives
    kappas = [c.labels["κ"] for c in cells("negatives", ("10%", "7", "0.1%"), base)]
    assert kappas == [NONE, NONE, "10", "10", "7", "7", "1", "1"]


def test_one_wider_head_until_it_has_three_times_the_weights():
    widths = [c.labels["width"] for c in cells("wider") if c.labels["temperature"] == "constant"]
    ratios = [float(w.split("(")[1].split()[0]) for w in widths if w != NONE]
    assert ratios == sorted(ratios)
    assert all(ratio < 3 for ratio in ratios[:-1])
    assert ratios[-1] >= 3
    # One head as wide as those of the three has a third of their weights.
    assert ratios[0] == pytest.approx(1 / 3, abs=0.05)


def test_sensitivity_goes_around_what_is_set():
    found = {(c.labels["setting"], c.labels["value"]) for c in cells("sensitivity", ("1", "2"))}
    eta, iota, beta = (value_of(with_amcl(BASE), name) for name in ("eta", "iota", "beta"))
    assert {("η", f"{eta:.3g}"), ("η", f"{2 * eta:.3g}"), ("β", f"{2 * beta:.3g}")} <= found
    assert ("ι", f"{2 * iota:.3g}") in found


def test_simsiam_has_no_negatives_to_adapt():
    [spec] = ANALYSES["temperatures"].specs(recipes.recipe("builtin-simsiam"))
    assert "adaptive-negative" not in spec.labels("temperature")
    assert any("adaptive-negative is left out" in note for note in spec.notes)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("overlap", "much", "overlap must be"),
        ("overlap", "1.5", "overlap"),
        ("color", "-1", "strength must be a number above 0, got '-1'"),
        ("negatives", "half", "κ is a whole number, or a share such as 10%; got 'half'"),
        ("labels", "few", "labels a class are whole numbers, as in 10 50 500; got 'few'"),
        ("augmentations", "axz", "no operation for 'x', 'z'"),
        ("heads", "two", "heads must be"),
        ("temperatures", "warm", "no temperature 'warm'"),
        ("backbones", "resnet18*wide", "width must be a number above 0, got 'wide'"),
    ],
)
def test_wrong_values_are_told_before_anything_runs(name, value, told):
    with pytest.raises(ValueError, match=told):
        ANALYSES[name].specs(BASE, (value,), KNN)


def test_series_of_sides():
    [spec] = ANALYSES["augmentations"].specs(BASE)
    assert spec.labels("augmentations") == ["a", "ab", "abc", "abcd", "abcde"]
    assert spec.labels(SIDE) == [BASELINE, AMCL]
