"""The steps of fine-tuning: mixed images and labels, rates, order; and the settings."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from amcl.evaluation.finetuning import FinetuneSettings
from amcl.evaluation.finetuning.classifier import seeded
from amcl.evaluation.finetuning.plan import Plan
from amcl.evaluation.finetuning.task import mixed
from toy_finetuning import (
    PLAIN,
)


def random_batch(n):
    return torch.randn(n, 3, 8, 8), torch.arange(n) % 4


@pytest.mark.parametrize("n", [1, 6, 7])
def test_mixup_mixes_images_as_it_mixes_labels(n):
    images, labels = random_batch(n)
    got, targets = mixed(images.clone(), labels, 4, replace(PLAIN, mixup=0.8))
    partner = torch.arange(n - 1, -1, -1) if n % 2 == 0 else (-torch.arange(n)) % n
    hard = F.one_hot(labels, 4) * 0.9 + 0.1 / 4
    apart = (labels != labels[partner]).nonzero()[:, 0]
    lam = 1.0
    if len(apart):
        row = apart[0]
        own, other = labels[row], labels[partner[row]]
        lam = ((targets[row, own] - targets[row, other]) / 0.9 + 1) / 2
        assert 0 < lam < 1
    torch.testing.assert_close(targets, lam * hard + (1 - lam) * hard[partner])
    torch.testing.assert_close(got, lam * images + (1 - lam) * images[partner])


def test_cutmix_swaps_as_much_of_the_image_as_of_the_label():
    images, labels = random_batch(6)
    with seeded(3):
        got, targets = mixed(images.clone(), labels, 4, replace(PLAIN, cutmix=1.0, smoothing=0))
    swapped = (got == images.flip(0)).all(1) & (got != images).any(1)
    kept = (got == images).all(1)
    assert (swapped | kept).all()
    share = swapped.double().mean((1, 2))
    assert 0 < share[0] < 1
    expected = torch.zeros(6, 4, dtype=torch.float64)
    for row, (own, other) in enumerate(zip(labels, labels.flip(0), strict=True)):
        expected[row, own] += 1 - share[row]
        expected[row, other] += share[row]
    torch.testing.assert_close(targets.double(), expected, atol=1e-6, rtol=0)


def test_without_mixing_labels_are_smoothed_alone():
    images, labels = random_batch(5)
    got, targets = mixed(images.clone(), labels, 4, PLAIN)
    logits = torch.randn(5, 4)
    assert torch.equal(got, images)
    torch.testing.assert_close(
        F.cross_entropy(logits, targets), F.cross_entropy(logits, labels, label_smoothing=0.1)
    )


def test_a_rectangle_of_some_images_becomes_noise():
    images, labels = torch.zeros(40, 3, 16, 16), torch.zeros(40, dtype=torch.long)
    got, _ = mixed(images.clone(), labels, 4, replace(PLAIN, erase=0.5))
    erased = (got != 0).all(1)
    share = erased.double().mean((1, 2))
    assert 8 < (share > 0).sum() < 32
    assert share.max() < 0.45
    for area in erased[share > 0]:
        rows, columns = area.any(1), area.any(0)
        assert area.sum() == rows.sum() * columns.sum()


def test_the_rate_rises_in_a_line_and_falls_by_a_cosine():
    settings = replace(PLAIN, epochs=6, warmup_epochs=2, batch_size=16)
    plan = Plan.of(48, settings, seed=0)
    assert (plan.total, plan.warmup) == (18, 6)
    rates = [plan.factor(step) for step in range(18)]
    rise = [(step + 1) / 6 for step in range(6)]
    fall = [(1 + math.cos(math.pi * step / 12)) / 2 for step in range(12)]
    assert rates == pytest.approx(rise + fall)


def test_every_image_comes_once_an_epoch():
    plan = Plan.of(50, replace(PLAIN, epochs=2), seed=0)
    steps = list(plan.steps(0))
    assert [len(step) for step in steps] == [13, 13, 12, 12] * 2
    for epoch in (steps[:4], steps[4:]):
        assert torch.cat(epoch).sort().values.tolist() == list(range(50))
    assert not torch.equal(torch.cat(steps[:4]), torch.cat(steps[4:]))
    assert all(map(torch.equal, plan.steps(1), steps[4:]))


def test_few_images_train_for_the_least_number_of_steps():
    settings = replace(PLAIN, epochs=4, warmup_epochs=1, min_steps=100)
    plan = Plan.of(40, settings, seed=0)
    assert (plan.per_epoch, plan.epochs, plan.total, plan.warmup) == (3, 34, 102, 26)
    assert Plan.of(40, replace(settings, min_steps=0), seed=0).total == 12


@pytest.mark.parametrize(("epochs", "warmup"), [(100, 5.0), (50, 5.0), (10, 1.0), (1, 0.1)])
def test_the_default_warm_up_follows_the_length(epochs, warmup):
    settings = FinetuneSettings(epochs=epochs)
    assert settings.warmup == pytest.approx(warmup)
    plan = Plan.of(128, replace(settings, min_steps=1000), seed=0)
    assert plan.warmup == pytest.approx(warmup / epochs * plan.total)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epochs": 0}, "epochs must be a whole number"),
        ({"batch_size": 0.5}, "batch_size must be a whole number"),
        ({"optimizer": "adam"}, "optimizer must be one of 'adamw', 'sgd'"),
        ({"lr": 0}, "lr must be a finite number above 0"),
        ({"layer_decay": 1.5}, "layer_decay must be at most 1"),
        ({"layer_decay": 0}, "layer_decay must be a finite number above 0"),
        ({"smoothing": 1}, "smoothing must be below 1"),
        ({"drop_path": -0.1}, "drop_path must be a finite number, at least 0"),
        ({"mixup": -1}, "mixup must be a finite number"),
        ({"epochs": 5, "warmup_epochs": 5}, "warmup_epochs = 5 leaves none of epochs = 5"),
        ({"views": "ax"}, "no operation for 'x'"),
        ({"crop_scale": (0.5, 0.2)}, "crop_scale must be the least and the most"),
    ],
)
def test_settings_say_what_is_accepted(changes, said):
    with pytest.raises(ValueError, match=said):
        FinetuneSettings(**changes)


def test_solarize_is_on_where_it_is_asked_for():
    assert FinetuneSettings(views="s").view_settings().solarize_p == (0.2, 0.2)
