"""Grids: every combination once, each under a name of its own."""

import itertools
from dataclasses import replace

import pytest

from amcl import recipes
from amcl.config import Config
from amcl.config.fields import with_values
from amcl.methods import SimCLRSettings
from amcl.sweep import Point, axes_of, grid
from amcl.sweep.grid import unnamed_differences
from amcl.temperature import AdaptiveSettings


def test_axes_as_they_are_typed():
    entries = ["batch-size= 64 ,128", "--tau=0.1", "projector=64 32,8"]
    assert axes_of(entries) == {
        "batch_size": ["64", "128"],
        "tau": ["0.1"],
        "projector": ["64 32", "8"],
    }


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        (["tau"], "'tau' is no axis of a grid"),
        (["=0.1"], r"'=0\.1'.*tau=0\.1,0\.2"),
        (["tau="], r"'tau='.*tau=0\.1,0\.2"),
        (["tau=0.1,,0.2"], r"'tau=0\.1,,0\.2'.*tau=0\.1,0\.2"),
        (["tau=0.1", "seed=0", "tau=0.2"], "has tau twice"),
        (["batch-size=1", "batch_size=2"], "has batch_size twice"),
        (["seed=0,1,0"], "'seed=0,1,0'"),
    ],
)
def test_what_is_no_axis(entries, told):
    with pytest.raises(ValueError, match=told):
        axes_of(entries)


def test_every_combination_the_last_axis_fastest():
    axes = {"tau": ["0.1", "0.20"], "projector": ["64 32", "8"], "seed": ["0", "1"]}
    points = grid(Config(), axes)
    found = [
        (p.config.method.temperature.tau, p.config.method.projector, p.config.run.seed)
        for p in points
    ]
    assert found == list(itertools.product((0.1, 0.2), ((64, 32), (8,)), (0, 1)))
    assert points[0].name == "tau=0.1,projector=64-32,seed=0"
    assert points[-1].values == {"tau": "0.2", "projector": "8", "seed": "1"}
    again = with_values(Config(), {"tau": 0.2, "projector": (8,), "seed": 1})
    assert points[-1].config == again
    assert len({p.name for p in points}) == 8


def test_no_run_comes_twice():
    temperatures = {"temperature": ["constant", "adaptive"], "tau": ["0.1", "0.5"], "beta": ["1"]}
    assert [p.name for p in grid(Config(), temperatures)] == [
        "temperature=constant,tau=0.1",
        "temperature=constant,tau=0.5",
        "temperature=adaptive,tau=0.1,beta=1.0",
        "temperature=adaptive,tau=0.5,beta=1.0",
    ]
    adaptive = Config(method=SimCLRSettings(temperature=AdaptiveSettings(prior_tau=0.1)))
    assert [p.name for p in grid(adaptive, temperatures)][2:] == ["temperature=adaptive,beta=1.0"]
    assert len(grid(Config(), {"tau": ["0.1", "0.10", "1e-1"]})) == 1


def test_an_axis_that_changes_nothing_is_refused():
    with pytest.raises(ValueError, match="beta and phi_depth would change nothing in any run"):
        grid(Config(), {"beta": ["0.1", "1"], "tau": ["0.1"], "phi_depth": ["1"]})
    adaptive = Config(method=SimCLRSettings(temperature=AdaptiveSettings()))
    assert len(grid(adaptive, {"beta": ["0.1", "1"]})) == 2


def test_what_is_wrong_is_told_with_the_run():
    with pytest.raises(ValueError, match=r"seed=0, tau=-1.0: tau must be a finite number above 0"):
        grid(Config(), {"seed": ["0"], "tau": ["-1", "0.1"]})
    with pytest.raises(ValueError, match="did you mean 'tau'"):
        grid(Config(), {"tua": ["0.1"]})
    with pytest.raises(ValueError, match=r"\btau\b.*'low'"):
        grid(Config(), {"tau": ["low"]})


def test_runs_start_from_what_axes_say():
    asked = []

    def base(start):
        asked.append(dict(start))
        return recipes.recipe(start["recipe"])

    axes = {"seed": ["0", "1"], "recipe": ["builtin-simclr", "builtin-moco"]}
    points = grid(base, axes)
    assert [p.config.method.name for p in points] == ["simclr", "moco"] * 2
    assert points[1].values == {"recipe": "builtin-moco", "seed": "0"}
    assert points[3].config == with_values(recipes.recipe("builtin-moco"), {"seed": 1})
    assert {r["recipe"] for r in asked} == {"builtin-simclr", "builtin-moco"}


def test_a_field_that_one_method_has_and_another_has_not():
    axes = {"recipe": ["builtin-moco", "builtin-simclr"], "queue": ["2048"]}
    with pytest.raises(ValueError, match="simclr is asked for a setting 'queue', which is unknown"):
        grid(lambda start: recipes.recipe(start["recipe"]), axes)


def test_a_configuration_alone_starts_from_itself():
    """Axes of `recipe` would be names without a difference."""
    with pytest.raises(ValueError, match="simclr is asked for a setting 'recipe'"):
        grid(Config(), {"recipe": ["builtin-simclr", "builtin-moco"]})
    assert [p.config.data.source for p in grid(Config(), {"data": ["a", "b"]})] == ["a", "b"]


@pytest.mark.parametrize("value", ["/a b/ü[x]", "../up", "a\nb", "x" * 400, "ü" * 300, "a/b:c*?"])
def test_names_are_names_of_files(tmp_path, value):
    name = Point(values={"data": value, "seed": "0"}, config=Config()).name
    assert "/" not in name
    assert "\n" not in name
    assert name.startswith("data=")
    (tmp_path / f".{name}.json.1234567.writing").write_text("whole")


def test_long_names_stay_apart():
    long = [Point(values={"data": "x" * 400 + end}, config=Config()).name for end in "ab"]
    assert long[0] != long[1]


def test_two_runs_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two runs would be called 'data=my-photos'"):
        grid(Config(), {"data": ["my photos", "my-photos"]})


def test_what_runs_differ_in_is_said():
    short = with_values(Config(), {"epochs": 5})
    first, second = (grid(c, {"tau": [t]})[0] for c, t in ((short, "0.1"), (Config(), "0.2")))
    assert unnamed_differences(first, second) == ["epochs"]
    assert unnamed_differences(first, grid(Config(), {"epochs": ["200"], "tau": ["0.2"]})[0]) == []
    adaptive = Config(method=SimCLRSettings(temperature=AdaptiveSettings()))
    assert unnamed_differences(*(grid(adaptive, {"eta": [eta]})[0] for eta in ("0.1", "0.2"))) == []
    top = grid(adaptive, {"form": ["softmax", "top_k"], "top_k": ["5"]})
    assert unnamed_differences(*top) == []


def test_runs_of_two_recipes_differ_as_those_do():
    def of(recipe, **values):
        config = with_values(recipes.recipe(recipe), values)
        return Point(values={"recipe": recipe, "seed": "0"}, config=config)

    assert unnamed_differences(of("builtin-simclr"), of("builtin-moco")) == []
    assert unnamed_differences(of("builtin-simclr"), of("builtin-simclr", epochs=3)) == ["epochs"]
    moved = replace(Config(), hardware=replace(Config().hardware, threads=2))
    assert (
        unnamed_differences(Point(values={}, config=Config()), Point(values={}, config=moved)) == []
    )
