"""What AMCL costs beside the paper's figures, and how long experiments take."""

import csv
import io

import pytest

from amcl.analysis.cost import backbone_flops, cost_of
from amcl.config.fields import with_values
from amcl.experiments import costs
from amcl.experiments.estimate import (
    CORES,
    CPU,
    EVALUATION,
    GPU,
    HEAD,
    START,
    VIEWS,
    Work,
    seconds,
)
from amcl.recipes import recipe, with_amcl
from amcl.sweep import Point


@pytest.mark.slow
def test_costs_are_those_counted(monkeypatch):
    monkeypatch.setattr(costs, "TABLE_8", {"simclr": (25.6, 1.1, 3.5, 0.3)})
    topic, numbers = costs.cost_topic("builtin")
    base = recipe("builtin-simclr")
    before, after = cost_of(base), cost_of(with_amcl(base))
    [ax] = topic.pictures["cost"].axes
    [bar] = ax.patches
    assert bar.get_height() == pytest.approx(100 * (after.step_flops / before.step_flops - 1))
    rows = {row[1]: row for row in csv.reader(io.StringIO(numbers.to_csv()))}
    parameters = rows["parameters in training, M"]
    assert float(parameters[2]) == before.training_parameters / 1e6
    assert float(parameters[4]) == after.training_parameters / before.training_parameters
    shown = {row[1].text: row for row in topic.table.cells}
    assert shown["parameters in training, M"][2].small == "paper 25.6"
    assert shown["parameters in training, M"][3].small == "paper +1.1"
    assert shown["GFLOPs an image, training, forward"][3].small == "paper +0.3"
    assert "small networks for builtin" in topic.notes[0]


@pytest.mark.slow
def test_designs_differ_in_heads_and_temperature():
    topic, numbers = costs.design_topic()
    rows = {
        row[0]: [float(value) for value in row[1:]]
        for row in list(csv.reader(io.StringIO(numbers.to_csv())))[1:]
    }
    one, adaptive, several = rows["heads"]
    assert (adaptive, several) == (one, pytest.approx(3 * one))
    assert rows["temperature (φ)"][0] == 0 < rows["temperature (φ)"][1]
    assert rows["temperature (φ)"][1] == rows["temperature (φ)"][2]
    assert len(topic.pictures["designs"].axes[0].patches) == 9


def test_how_long_runs_take():
    config = with_values(recipe("cifar10-simclr"), {"epochs": 7, "subset": 1000})
    flops = 6 * backbone_flops(config.backbone, 32) * 1000 * 7
    work = Work(Point(values={}, config=config), frozenset())
    around = 7 * 1000 * (VIEWS + HEAD)  # one head
    one = START + flops / CPU + around
    assert seconds([work], {}, gpu=False) == pytest.approx(one / CORES)
    assert seconds([work, work], {}, gpu=True) == pytest.approx(2 * (START + flops / GPU))
    unknown = with_values(config, {"data": "pictures", "subset": None})
    assert seconds([work, Work(Point(values={}, config=unknown), frozenset())], {}, False) is None


def test_a_first_stage_and_the_evaluation_take_time():
    lgp = with_values(recipe("cifar10-lgp"), {"epochs": 1, "mae_epochs": 6, "subset": 1000})
    alone = with_values(lgp, {"mae_epochs": 1})
    both, less = (
        seconds([Work(Point(values={}, config=c), frozenset())], {}, gpu=True) for c in (lgp, alone)
    )
    assert (both - START) / (less - START) == pytest.approx(12 / 7)
    judged = Work(Point(values={}, config=lgp), frozenset({"knn", "linear"}))
    plain = Work(judged.point, frozenset())
    more = seconds([judged], {}, gpu=False) - seconds([plain], {}, gpu=False)
    assert more == pytest.approx((EVALUATION["knn"] + EVALUATION["linear"]) / CORES)
