"""The linear probe on few images: parts choose the rate in turn."""

import pytest
import torch
from torch import nn

from amcl.data.split import hold_out
from amcl.evaluation.hold_out import hold_out_parts
from amcl.evaluation.linear_layers import FixedFeatures
from amcl.evaluation.protocols.linear import LinearSettings, linear_probe
from amcl.evaluation.protocols.logistic import LogisticSettings, logistic
from amcl.seeds import seed_of
from toy_features import N, literal, noisy, probe, settings


def test_one_image_a_class_takes_the_middle_of_the_grid_and_says_so():
    train = FixedFeatures(torch.eye(3), torch.arange(3))
    found = linear_probe(train, torch.eye(3), torch.arange(3), 3, settings())
    assert (found.lr, found.top1, found.hold_out_images) == (1.0, 1.0, 0)
    (note,) = found.details()["notes"]
    assert "every class has one training image, so none could choose the learning rate" in note
    found = linear_probe(train, torch.eye(3), torch.arange(3), 3, settings(lrs=(1.0,)))
    assert (found.top1, found.details()["notes"]) == (1, [])


def test_few_images_choose_the_rate_by_the_loss_of_every_part_in_turn():
    (x, y), made = noisy(), settings(lrs=(10.0, 0.01, 0.1))
    found = probe(made)
    parts = hold_out_parts(made.lrs, y, made.hold_out, seed_of(0, "linear", "hold-out"))
    assert (len(parts), found.folds, found.hold_out_images) == (5, 5, N)
    for lr in made.lrs:
        logits = [literal(x, y, lr, made, held=part)(x[part]) for part in parts]
        losses = nn.functional.cross_entropy(torch.cat(logits), y[torch.cat(parts)])
        assert found.hold_out_loss[lr] == pytest.approx(losses.item())
    assert found.lr == min(found.hold_out_loss, key=found.hold_out_loss.get)
    every = literal(x, y, found.lr, made)
    test, truth = noisy(60, seed=1)
    assert torch.equal(found.predicted, every(test).argmax(1))
    assert found.top1 == pytest.approx((found.predicted == truth).double().mean().item())


@pytest.mark.parametrize("sizes", [(15, 15), (60, 41, 12, 3, 2, 1), (1, 1, 2)])
def test_parts_hold_every_image_once_and_never_a_whole_class(sizes):
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    parts = hold_out_parts((0.1, 1.0), labels, 0.1, seed=0)
    held = torch.cat(parts)
    alone = sum(size == 1 for size in sizes)
    assert len(held.unique()) == len(held) == len(labels) - alone
    for part in parts:
        left = labels[~torch.isin(torch.arange(len(labels)), part)]
        assert left.unique().tolist() == list(range(len(sizes)))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_large_hold_out_chooses_once_by_accuracy_and_the_training_is_as_long_as_asked():
    """Numbers on large sets stay those of earlier versions."""
    labels = torch.arange(10).repeat(200)
    (part,) = hold_out_parts((0.1, 1.0), labels, 0.1, seed=5)
    assert torch.equal(part, hold_out(labels, 200, 5)[1])
    assert LinearSettings().epochs_on(2049) == LinearSettings().epochs_on(50_000) == 100
    assert LinearSettings().epochs_on(30) == 500
    assert LinearSettings(min_steps=0).epochs_on(30) == 100


SMALL_SETS = {
    30: [3] * 10,
    100: [10] * 10,
    287: [60, 55, 50, 40, 30, 22, 15, 9, 4, 2],
    500: [50] * 10,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["even", "falling", "relu"])
@pytest.mark.parametrize("images", SMALL_SETS)
def test_on_small_sets_it_is_as_good_as_logistic_regression(images, kind):
    """Within one point of it in the mean over seeds, with one exception that is known.

    On 500 images of ReLU features it is behind by 1.2 to 1.3 points, on every seed: more than the
    noise of 2,000 test images. Even the best rate of the grid is behind by 0.8 there, so another
    choice of the rate would not mend it.
    """
    most_behind = 0.02 if (kind, images) == ("relu", 500) else 0.01
    labels = torch.arange(10).repeat_interleave(torch.tensor(SMALL_SETS[images]))
    truth = torch.arange(10).repeat(200)
    gains = []
    for seed in range(3):
        x, test = (small_features(y, kind, seed, part) for part, y in enumerate((labels, truth)))
        found = linear_probe(FixedFeatures(x, labels), test, truth, 10, LinearSettings(), seed)
        theirs = logistic(x, labels, test, truth, 10, LogisticSettings(), seed)["top1"]
        gains.append(found.top1 - theirs)
        assert found.top1 > 0.25  # chance is 0.1
    assert sum(gains) / len(gains) > -most_behind, gains
    assert min(gains) > -0.03, gains


def small_features(labels, kind, seed, part, dim=64):
    g = torch.Generator().manual_seed(100 * part + seed)
    centers = torch.randn(10, dim, generator=torch.Generator().manual_seed(7))
    scale = torch.ones(dim) if kind == "even" else torch.linspace(1, 0.05, dim)
    x = (0.4 * centers[labels] + torch.randn(len(labels), dim, generator=g)) * scale
    return x.relu() if kind == "relu" else x


def test_thirty_images_are_enough_for_better_than_chance():
    labels, truth = torch.arange(10).repeat(3), torch.arange(10).repeat(20)
    x, test = (small_features(y, "relu", 0, part) for part, y in enumerate((labels, truth)))
    found = linear_probe(FixedFeatures(x, labels), test, truth, 10, LinearSettings())
    theirs = logistic(x, labels, test, truth, 10, LogisticSettings())["top1"]
    assert found.top1 > max(0.25, theirs - 0.05)
    hasty = linear_probe(
        *(FixedFeatures(x, labels), test, truth, 10), LinearSettings(min_steps=0, epochs=1)
    )
    assert hasty.train_top1 < found.train_top1
