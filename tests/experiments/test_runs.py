"""Numbers of runs: pairs of views, the course of the loss; which runs are one."""

import json
from dataclasses import replace

import pytest
import torch

from amcl import recipes
from amcl.analysis import PairSample, PairSettings, sample_of_run
from amcl.checkpoints import read_metrics
from amcl.config import HardwareSettings
from amcl.config.fields import with_values
from amcl.evaluation import DetectionSettings
from amcl.experiments import runs as module
from amcl.experiments.runs import SharedRuns, pair_metrics
from amcl.experiments.specs import BOX_AP, FIRST_LOSS, KNN, LOSS, CellSpec, TableSpec, of_pairs

pytestmark = pytest.mark.usefixtures("few_images")


def made_up(tau, h1=None):
    """A sample of two heads and three images."""
    s = torch.tensor([[[0.9, 0.1, 0.2], [0.3, 0.8, 0.1], [0.0, 0.2, 0.7]]]).repeat(2, 1, 1)
    h = torch.eye(3)
    blank = torch.zeros(3, 3, 4, 4, dtype=torch.uint8)
    return PairSample(
        h=h,
        h0=h,
        h1=h if h1 is None else h1,
        s=s,
        tau=tau,
        channel_tau=None,
        positive_bounds=(0.05, 1.05),
        negative_bounds=(0.05, 1.05),
        views=blank.repeat(2, 1, 1, 1, 1),
        images=blank,
        labels=None,
        classes=(),
    )


def test_a_runs_pairs_in_numbers():
    tau = torch.full((2, 3, 3), 0.5)
    tau[0].fill_diagonal_(0.1)
    tau[1, 0, 0], tau[1, 1, 1], tau[1, 2, 2] = 0.2, 0.3, 0.7
    found = pair_metrics(made_up(tau, h1=torch.eye(3)[[1, 0, 2]]))
    own = tau.diagonal(dim1=1, dim2=2).double()
    assert found["tau_positive"] == pytest.approx(own.mean().item())
    variance = sum(((row - row.mean()) ** 2).mean().item() for row in own) / 2
    assert found["tau_positive_variance"] == pytest.approx(variance)
    between = sum(((pair - pair.mean()) ** 2).mean().item() for pair in own.T) / 3
    assert found["between_heads_positive"] == pytest.approx(between)
    assert found["auroc_heads"] == 1.0
    # After the backbone one positive pair of three is told apart, and ties are half.
    positive, negative = [0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    wins = sum((p > n) + (p == n) / 2 for p in positive for n in negative)
    assert found["auroc_backbone"] == pytest.approx(wins / 18)
    assert found["overlap_heads"] < found["overlap_backbone"]


def test_without_heads_there_are_no_temperatures():
    sample = replace(made_up(None), s=None)
    assert set(pair_metrics(sample)) == {"overlap_backbone", "auroc_backbone"}


@pytest.fixture(scope="module")
def config():
    values = {"epochs": 2, "batch_size": 32, "subset": 64, "knn_k": 5, "heads": 2}
    return with_values(recipes.recipe("builtin-simclr-amcl"), values)


def spec(config, *metrics):
    cells = tuple(CellSpec(labels={"m": m.name}, config=config, metric=m) for m in metrics)
    return TableSpec(name="p", title="T", how_to_read="", cells=cells, x="m")


def test_numbers_are_those_of_the_run(tmp_path, config):
    pool = SharedRuns(path=tmp_path, base_of=lambda c: config, pairs=PairSettings(images=16))
    asked = spec(config, FIRST_LOSS, LOSS, KNN, of_pairs("auroc_heads", "AUROC"))
    [filled], judged = pool.fill([asked], [0], tell=lambda line: None)
    first, last, knn, auroc = (measurement.mean for measurement in filled.measurements)
    assert judged == "validation images"
    assert filled.measurements[2].images == 40
    run = pool.run(config, 0)
    losses = [row["loss"] for row in read_metrics(run) if row["kind"] == "epoch"]
    assert (first, last) == (losses[0], losses[1])
    [result] = [json.loads(p.read_text()) for p in (run / "evaluation").glob("knn-*.json")]
    assert knn == result["metrics"]["top1"]
    kept = json.loads((run / "analysis" / "pairs-16-0-100bins.json").read_text())
    assert auroc == kept["auroc_heads"]
    assert kept == pytest.approx(pair_metrics(sample_of_run(run, PairSettings(images=16))))


def test_cells_from_scratch_take_the_network_of_their_run(tmp_path, config, monkeypatch):
    calls = []

    def evaluate(config, run, protocols, split, settings):
        calls.append((run, protocols, settings["detect"]))
        return {"detect_box_AP_test": 0.25}

    monkeypatch.setattr(module, "evaluate_run", evaluate)
    settings = {"detect": DetectionSettings(data="builtin", epochs=7)}
    pool = SharedRuns(
        path=tmp_path, base_of=lambda c: config, pairs=PairSettings(), settings=settings
    )
    asked = spec(config, LOSS, replace(BOX_AP, scratch=True))
    tables, _ = pool.fill([asked, asked], [0], tell=lambda line: None)
    assert [table.measurements[1].mean for table in tables] == [0.25, 0.25]
    # Once for both tables, and never by the sweep, which would take the weights of the run.
    assert calls == [(pool.run(config, 0), ["detect"], replace(settings["detect"], scratch=True))]


def test_runs_are_told_apart_by_their_settings(config):
    pool = SharedRuns(path=None, base_of=lambda c: config, pairs=PairSettings())
    other = with_values(config, {"tau_lower": 0.1})
    points = pool.points([spec(config, KNN), spec(other, KNN), spec(config, LOSS)], [0, 1])
    assert [p.name for p in points] == [
        "data=builtin,method=simclr,seed=0",
        "data=builtin,method=simclr,tau_lower=0.1,seed=0",
        "data=builtin,method=simclr,seed=1",
        "data=builtin,method=simclr,tau_lower=0.1,seed=1",
    ]
    assert [p.config.run.seed for p in points] == [0, 0, 1, 1]


def test_two_sets_of_nearly_one_name_are_no_one_run(config):
    pool = SharedRuns(path=None, base_of=lambda c: c, pairs=PairSettings())
    first, second = (with_values(config, {"data": name}) for name in ("one/pets-a", "two/pets-a"))
    with pytest.raises(ValueError, match=r"two different runs would be called 'data=pets-a"):
        pool.points([spec(first, KNN), spec(second, KNN)], [0])


def test_pairs_are_looked_at_where_images_lie_now(tmp_path, config, monkeypatch):
    asked = {}

    def look(run, settings, **where):
        asked.update(where)
        return made_up(torch.full((2, 3, 3), 0.5))

    monkeypatch.setattr(module, "sample_of_run", look)
    hardware = HardwareSettings(accelerator="cpu")
    pool = SharedRuns(
        path=tmp_path,
        base_of=lambda c: config,
        pairs=PairSettings(),
        data_root="elsewhere",
        hardware=hardware,
    )
    pool.sample(tmp_path)
    assert asked == {"data_root": "elsewhere", "device": "cpu"}
