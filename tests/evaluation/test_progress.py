"""Protocols that take long on large sets count their work for a bar on the terminal."""

import pytest
import torch

from amcl.evaluation import linear_layers
from amcl.evaluation.linear_layers import FixedFeatures
from amcl.evaluation.protocols import few_labels, linear, logistic
from amcl.progress import Progress

X = torch.eye(4).repeat(30, 1)
Y = torch.arange(4).repeat(30)


def train_linear():
    settings = linear.LinearSettings(epochs=3, min_steps=0, batch_size=16)
    linear.linear_probe(FixedFeatures(X, Y), X, Y, 4, settings)


def fit_few_labels():
    settings = few_labels.FewLabelsSettings(per_class=(2, 5), draws=3)
    few_labels.few_labels(X, Y, X, Y, ["a", "b", "c", "d"], settings)


def fit_logistic():
    logistic.logistic(X, Y, X, Y, 4, logistic.LogisticSettings())


@pytest.mark.parametrize(
    ("module", "run", "bars"),
    [
        (linear_layers, train_linear, 1),
        (few_labels, fit_few_labels, 2),
        (logistic, fit_logistic, 1),
    ],
    ids=["linear", "few-labels", "logistic"],
)
def test_all_of_the_work_is_counted(monkeypatch, module, run, bars):
    made = []

    class Counted(Progress):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(module, "Progress", Counted)
    run()
    assert len(made) == bars
    assert all(bar._done == bar._total > 1 for bar in made)
