"""benchmarks/time_to_accuracy.py times trainings alone, and its page shows its numbers."""

import json
from types import SimpleNamespace

import pytest

from amcl import recipes
from benchmark_scripts import BENCHMARKS, load_script

DOCS = BENCHMARKS.parent / "docs"


@pytest.fixture
def script(monkeypatch):
    return load_script(monkeypatch, "time_to_accuracy")


def curve(*points):
    return [{"seconds": s, "images": 100 * s, "knn": knn} for s, knn in points]


def test_levels_are_reached_between_two_points(script):
    points = curve((0, 0.3), (10, 0.5), (20, 0.4), (30, 0.6))
    assert script.time_to(points, 0.4) == pytest.approx(5)
    assert script.time_to(points, 0.55) == pytest.approx(27.5)
    assert script.time_to(points, 0.2) == 0
    assert script.time_to(points, 0.61) is None


def test_the_clock_stops_while_features_are_judged(script, monkeypatch):
    now = SimpleNamespace(time=0.0)
    monkeypatch.setattr(script.time, "perf_counter", lambda: now.time)
    accuracies = iter([0.3, 0.4, 0.5, 0.45])

    def judge(network):
        now.time += 100
        return next(accuracies)

    course = script.Course(judge, marks=(2, 5), limit=7, goal=0.9)
    course.add("network", 0)
    course.start()

    def take_steps(count):
        for step in range(1, count + 1):
            now.time += 1
            course("network", 10 * step)

    with pytest.raises(script.Finished):
        take_steps(100)
    assert [point["seconds"] for point in course.points] == [0, 2, 5, 7]
    assert [point["images"] for point in course.points] == [0, 20, 50, 70]
    assert [point["knn"] for point in course.points] == [0.3, 0.4, 0.5, 0.45]


def test_a_training_ends_at_its_goal_and_is_judged_at_its_end(script):
    course = script.Course(lambda accuracy: accuracy, marks=(1e-9,), limit=1000, goal=0.6)
    course.add(0.3, 0)
    course.start()
    course(0.4, 10)
    course(0.7, 20)  # no mark has passed: nobody has seen it
    course.end()
    course.end()
    assert [point["images"] for point in course.points] == [0, 10, 20]
    course = script.Course(lambda accuracy: accuracy, marks=(1e-9,), limit=1000, goal=0.6)
    course.start()
    with pytest.raises(script.Finished):
        course(0.7, 10)


def test_amcl_is_compared_with_the_best_of_the_others(script):
    arms = {
        "lightly-example": {"points": curve((0, 0.3), (100, 0.32))},
        "solo-learn": {"points": curve((0, 0.3), (50, 0.55))},
        "amcl": {"points": curve((0, 0.3), (10, 0.5), (20, 0.6))},
    }
    for arm in arms.values():
        arm |= {"images_per_second": 1000.0, "epochs": 3}
    assert script.best_peer(arms, 0.4) == ("solo-learn", pytest.approx(20))
    assert script.best_peer(arms, 0.6) is None
    cells = [line.strip("| ").split(" | ") for line in script.table(arms).splitlines()[2:]]
    assert cells[0][5:] == ["not in 100 s", "not in 100 s", "not in 100 s", "32.0%"]
    assert cells[1][5:] == ["20 s", "40 s", "not in 50 s", "55.0%"]
    assert cells[2][5:] == ["5 s (× 0.25)", "10 s (× 0.25)", "20 s", "60.0%"]


def test_amcl_has_its_defaults_but_for_network_and_length(script):
    args = SimpleNamespace(data="cifar10", threads=2, seed=0, validation=5000)
    for name, recipe in (("amcl-plain", "cifar10-simclr"), ("amcl", "cifar10-simclr-amcl")):
        config = script.configuration(args, script.ARMS[name], 7)
        default = recipes.recipe(recipe)
        assert (config.method, config.views) == (default.method, default.views)
        assert config.optimizer == default.optimizer
        assert (config.run.batch_size, config.run.epochs) == (default.run.batch_size, 7)
    tuned = script.configuration(args, script.ARMS["amcl-adamw"], 7)
    assert (tuned.optimizer.name, tuned.method.heads) == ("adamw", 3)


def test_the_pages_show_what_was_measured(script):
    kept = json.loads(
        (BENCHMARKS / "results" / "time_to_accuracy.json").read_text(encoding="utf-8")
    )
    page = (BENCHMARKS / "results" / "time_to_accuracy.md").read_text(encoding="utf-8")
    assert script.text_of(kept) in page
    assert script.table(kept["arms"]) in (DOCS / "results.md").read_text(encoding="utf-8")
    assert script.PICTURE.exists()
