"""Losses that are called with anything: an error that says what is wrong, or a finite loss."""

import random

import pytest
import torch

from amcl.losses import AMCLLoss, ContrastiveLoss, CrossCorrelationLoss
from amcl.temperature import ConstantTemperature

SHAPES = [(), (0,), (4,), (4, 8), (2, 4, 8), (2, 0, 8), (2, 4, 0), (1, 4, 8), (2, 1, 8), (2, 4, 7)]
SHAPES += [(3, 2, 4, 8), (2, 5, 8), (0, 4, 8)]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool]
SCALES = [0.0, 1e-30, 1e-3, 1.0, 1e3, 1e30, float("inf"), float("nan")]
NUMBERS = [-1.0, 0.0, 1e-3, 0.1, 0.5, 1.0, 10.0, float("inf"), float("nan"), "x", None, True]


def tensor(choice: random.Random, usual: bool) -> torch.Tensor:
    shape = (2, 4, 8) if usual else choice.choice(SHAPES)
    dtype = choice.choice(DTYPES[:4] if usual else DTYPES)
    scale = choice.choice(SCALES[:5] if usual else SCALES)
    values = torch.randn(shape, generator=torch.Generator().manual_seed(choice.randrange(99)))
    return (values * scale).to(dtype)


def loss(choice: random.Random) -> torch.nn.Module:
    heads = choice.choice([2, 2, 2, 1, 0, -1, "x", 2.5])
    kind = choice.choice(["amcl", "contrastive", "correlation"])
    if kind == "amcl":
        names = choice.sample(["eta", "iota", "lower", "upper", "beta", "prior_tau"], 2)
        options = {name: choice.choice(NUMBERS) for name in names if choice.random() < 0.3}
        return AMCLLoss(heads, choice.choice([8, 8, 8, 7, 0, -1]), **options)
    temperature = ConstantTemperature(choice.choice([0.1, 0.5, 0.5, 1.0, 0.0, -1.0, "x"]))
    return (ContrastiveLoss if kind == "contrastive" else CrossCorrelationLoss)(heads, temperature)


@pytest.mark.parametrize(
    ("start", "count"), [(0, 300), pytest.param(300, 5000, marks=pytest.mark.slow)]
)
def test_losses(start, count, record):
    finite = 0
    for seed in range(start, start + count):
        choice = random.Random(seed)
        usual = choice.random() < 0.5
        try:
            value = loss(choice)(tensor(choice, usual), tensor(choice, usual))
        except (ValueError, TypeError):
            continue
        assert not usual or value.isfinite(), seed
        finite += bool(value.isfinite())
    assert finite > count / 20
    record("random losses on random tensors", count)
