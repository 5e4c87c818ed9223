"""Noise is not crowned: ties are named, and only a difference beyond chance cuts a trial short."""

import math

import pytest

from amcl.results import Record
from amcl.results.intervals import accuracy_difference, accuracy_interval, standard_error
from amcl.search.folder import Definition
from amcl.search.pruning import is_below
from amcl.search.space import space_from
from amcl.search.verdict import distance, verdict_of
from search.studies import base, find

SPACE = ["beta=1e-5:10:log", "heads=2:6", "form=softmax,top_k", "top_k=1:62"]


def definition(objective="knn") -> Definition:
    config = base()
    return Definition(config=config, space=space_from(config, SPACE), objective=objective)


def record(number, value, **point) -> Record:
    metrics = {"knn_validation": value, "effective_rank": value}
    return Record(name=f"{number:04d}", values=point, metrics=metrics)


def test_a_tie_of_twelve_is_named_and_not_won_by_the_first():
    config = base()
    near = {"beta": config.method.temperature.beta, "heads": config.method.heads, "form": "softmax"}
    tied = [record(i, 5 / 28, beta=1e-5, heads=6, form="top_k") for i in range(11)]
    records = [*tied, record(11, 5 / 28, **near), record(12, 0.0, **near)]
    verdict = verdict_of(definition(), records, images=28)
    assert [int(r.name) for r in verdict.tied] == list(range(12))
    assert int(verdict.chosen.name) == 11
    text = " ".join(verdict.sentences())
    assert "17.9 % on 28 validation images" in text
    assert "interval of 7.9 to 35.6 %" in text
    assert "one image is 3.6 points" in text
    assert "cannot be told apart from 11 others: trials 1, 2, 3" in text
    assert "Trial 11 is chosen" in text
    assert "nearest to those that the study started from" in text


def test_what_is_far_ahead_is_chosen_wherever_it_lies():
    near = {"beta": base().method.temperature.beta, "heads": base().method.heads}
    records = [record(0, 0.5, **near), record(1, 0.8, beta=1e-5, heads=6)]
    verdict = verdict_of(definition(), records, images=1000)
    assert verdict.chosen.name == verdict.best.name == "0001"
    assert verdict.tied == (records[1],)
    assert "All other complete trials can be told apart from it." in verdict.sentences()


def test_the_choice_is_within_one_standard_error():
    """A trial that is level by the 95 % interval, but further away, is listed and not chosen."""
    near = {"beta": base().method.temperature.beta, "heads": base().method.heads}
    records = [record(0, 0.5, beta=1e-5, heads=6), record(1, 0.45, **near), record(2, 0.49, **near)]
    verdict = verdict_of(definition(), records, images=400)  # a standard error is 2.5 points
    assert {int(r.name) for r in verdict.tied} == {0, 1, 2}
    assert int(verdict.chosen.name) == 2


def test_what_is_no_accuracy_ties_by_equal_values_alone():
    near = {"beta": base().method.temperature.beta, "heads": base().method.heads}
    records = [
        record(0, 12.0, beta=1e-5, heads=6),
        record(1, 12.0, **near),
        record(2, 11.9, **near),
    ]
    verdict = verdict_of(definition("effective-rank"), records, images=None)
    assert [int(r.name) for r in verdict.tied] == [0, 1]
    assert int(verdict.chosen.name) == 1
    assert "Trial 1 is chosen: it equals it" in " ".join(verdict.sentences())
    assert verdict_of(definition(), [], images=5) is None


def test_distance_is_in_units_of_the_space():
    config, space = base(), definition().space
    start = {
        "beta": config.method.temperature.beta,
        "heads": config.method.heads,
        "form": "softmax",
    }
    assert distance(config, space, start) == 0
    assert distance(config, space, {**start, "form": "top_k"}) == pytest.approx(1 / 3)
    tenfold = {**start, "beta": 10 * config.method.temperature.beta}
    assert distance(config, space, tenfold) == pytest.approx(1 / 6 / 3)


@pytest.mark.parametrize(("images", "below"), [(28, False), (200, False), (2000, True)])
def test_a_difference_of_one_image_cuts_no_trial_short(images, below):
    assert is_below(0.143, [0.179] * 9, 0.5, images) is below
    assert not is_below(0.179 - 1 / images, [0.179] * 9, 0.5, images)
    assert not is_below(0.0, [], 0.5, images)


def test_trials_of_a_tie_are_all_carried_out(tmp_path, runs, monkeypatch):
    """Accuracies that differ by chance alone: no trial is pruned, whatever the pruner."""
    chance = iter([0.20, 0.19, 0.21, 0.195, 0.205] * 20)
    monkeypatch.setattr(type(runs), "accuracy", staticmethod(lambda config: next(chance)))
    for pruner in ("median", "halving"):
        found = find(tmp_path / pruner, trials=10, pruner=pruner)
        assert {r.status for r in found.records} == {"complete"}


def test_intervals_are_those_of_the_textbooks():
    """Wilson's for 5 of 28, and Newcombe's own example, 56/70 against 48/80, for equal sizes."""
    assert accuracy_interval(0.0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert accuracy_interval(1.0, 10) == pytest.approx((0.7225, 1), abs=1e-4)
    assert accuracy_interval(0.5, 100) == pytest.approx((0.4038, 0.5962), abs=1e-4)
    low, high = accuracy_difference(0.8, 0.6, 10_000)
    normal = 1.96 * math.hypot(standard_error(0.8, 10_000), standard_error(0.6, 10_000))
    assert (low, high) == pytest.approx((0.2 - normal, 0.2 + normal), abs=1e-4)


def test_a_study_remembers_how_many_trials_it_is_to_have(tmp_path, runs):
    find(tmp_path / "s", trials=3)
    assert len(find(tmp_path / "s", trials=None).records) == 3
    assert len(find(tmp_path / "s", trials=5).records) == 5
    assert len(find(tmp_path / "s", trials=None).records) == 5
    assert "trials = 5" in (tmp_path / "s/study.toml").read_text()


def test_the_first_complete_trial_says_how_long_the_others_take(tmp_path, runs):
    said = []
    find(tmp_path / "s", trials=3, said=said)
    assert [line for line in said if "the other 2 take about" in line] == [said[2]]
    assert len(said) == 5
