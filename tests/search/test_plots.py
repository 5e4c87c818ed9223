"""Pictures of a study: which are drawn, what they show, and why others are not."""

import matplotlib
import optuna
import pytest
from matplotlib._pylab_helpers import Gcf
from PIL import Image

from amcl.search import plots
from amcl.search.folder import Definition
from amcl.search.plots import save_plots
from amcl.search.space import space_from
from amcl.sweep.engine import RECORD, RUN
from search.studies import base

SPACE = ["beta=1e-5:10:log", "heads=2:6", "form=softmax,top_k", "top_k=1:62:log"]
ALL = ["history", "curves", "importance", "sensitivity", "heads_and_top_k"]


ONE = {"importance": "8 complete", "sensitivity": "two values of a field"}
ONE["heads_and_top_k"] = "two values of heads"


def definition(objective="knn", space=SPACE) -> Definition:
    return Definition(config=base(), space=space_from(base(), space), objective=objective)


def study(count, values=lambda i: 0.2 + 0.03 * i, failed=()) -> optuna.Study:
    """Trials with attempts that were interrupted between them."""
    made = optuna.create_study(direction="maximize")
    beta = optuna.distributions.FloatDistribution(1e-5, 10, log=True)
    heads = optuna.distributions.IntDistribution(2, 6)
    top_k = optuna.distributions.IntDistribution(1, 62, log=True)
    for i in range(count):
        complete = i not in failed
        kinds = {"beta": beta, "heads": heads, "top_k": top_k}
        params = {"beta": 10.0 ** (i % 6 - 5), "heads": 2 + i % 5, "top_k": 1 + 3 * i}
        record = {"status": "complete" if complete else "failed", "metrics": {}}
        state = optuna.trial.TrialState.COMPLETE if complete else optuna.trial.TrialState.FAIL
        stopped = optuna.trial.TrialState.FAIL
        made.add_trial(optuna.create_trial(state=stopped, user_attrs={RUN: f"{i:04d}"}))
        made.add_trial(
            optuna.create_trial(
                state=state,
                value=values(i) if complete else None,
                params=params,
                distributions=kinds,
                intermediate_values={1: values(i) / 2, 2: values(i)},
                user_attrs={RUN: f"{i:04d}", RECORD: record},
            )
        )
    return made


def test_all_pictures_are_drawn(tmp_path):
    style, figures = dict(matplotlib.rcParams), dict(Gcf.figs)
    paths, missing = save_plots(study(12, failed=[3]), definition(), 500, tmp_path)
    assert [path.stem for path in paths] == ALL
    assert missing == {}
    assert sorted(paths) == sorted(tmp_path.iterdir())  # and no half-written file
    for path in paths:
        with Image.open(path) as image:
            assert image.width >= 1200
            assert image.convert("L").getextrema()[0] < 100  # there is something on it
    assert dict(matplotlib.rcParams) == style  # Optuna sets a style for all that follows
    assert figures == Gcf.figs


def test_values_are_percentages_of_the_trials_that_have_ended(tmp_path, monkeypatch):
    drawn = {}
    monkeypatch.setattr(plots, "save_png", lambda figure, path: drawn.update({path.stem: figure}))
    save_plots(study(9, failed=[2]), definition(), 500, tmp_path)
    ax = drawn["history"].axes[0]
    dots = next(c for c in ax.collections if len(c.get_offsets()) == 8)
    expected = [[i, 20 + 3 * i] for i in range(9) if i != 2]
    assert dots.get_offsets().tolist() == [pytest.approx(each) for each in expected]
    assert "500 validation images: one image is 0.2 points" in drawn["history"].get_suptitle()
    assert drawn["history"].axes[0].get_ylabel() == "kNN accuracy (%)"
    assert drawn["curves"].axes[0].get_xlabel() == "epoch"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "asked", "images", "reasons"),
    [
        (study(3), {}, 500, {"importance": "8 complete trials, and there are 3"}),
        (study(3, failed=range(3)), {}, 500, dict.fromkeys(ALL, "no trial is complete")),
        (study(9, lambda i: 0.5), {}, 500, {"importance": "would be noise"}),
        (study(9), {}, 5, {"importance": "would be noise"}),
        (study(9, lambda i: 7.0), {"objective": "effective-rank"}, None, {"importance": "noise"}),
        (study(9), {"space": ["beta=1e-5:10:log"]}, 500, {"importance": "needs two fields"}),
        (study(1), {}, 500, ONE),
    ],
)
def test_what_is_not_drawn_has_a_reason(tmp_path, made, asked, images, reasons):
    for name in ALL:
        (tmp_path / f"{name}.png").write_bytes(b"of an earlier call")
    paths, missing = save_plots(made, definition(**asked), images, tmp_path)
    assert {name.removesuffix(".png") for name in missing} == set(reasons)
    for name, reason in reasons.items():
        assert reason in missing[f"{name}.png"]
        assert not (tmp_path / f"{name}.png").exists()
    assert all(path.is_file() for path in paths)
