"""Laws of the crop boxes."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from amcl.views import boxes

SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)


def drawing(n=2000, scale=SCALE, ratio=RATIO, shape=(1.0, 1.0), seed=0):
    shapes = torch.tensor(shape).expand(n, 2)
    return boxes.BoxSampler(shapes, scale, ratio, torch.Generator().manual_seed(seed))


def assert_inside(drawn):
    assert (drawn >= 0).all()
    assert (drawn[..., :2] + drawn[..., 2:] <= 1 + 1e-6).all()


def test_overlap_is_shared_area_over_the_smaller_area():
    first = torch.tensor([[0.0, 0.0, 0.5, 0.5]]).expand(4, 4)
    second = torch.tensor(
        [[0.0, 0.25, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5], [0.1, 0.1, 0.2, 0.2], [0.0, 0.0, 1.0, 1.0]]
    )
    expected = torch.tensor([0.5, 0.0, 1.0, 1.0])
    assert torch.allclose(boxes.overlap(first, second), expected)
    assert torch.allclose(boxes.overlap(second, first), expected)


@pytest.mark.parametrize("shape", [(1.0, 1.0), (300.0, 500.0), (640.0, 360.0)])
def test_area_and_ratio_are_those_of_the_original_picture(shape):
    drawn = drawing(4000, shape=shape).boxes()
    assert_inside(drawn)
    area = drawn[:, 2:].prod(-1)
    ratio = drawn[:, 3] * shape[1] / (drawn[:, 2] * shape[0])
    assert area.min() > SCALE[0] - 1e-6
    assert area.max() <= 1
    assert ratio.min() > RATIO[0] - 1e-4
    assert ratio.max() < RATIO[1] + 1e-4


def test_boxes_follow_the_law_of_torchvision():
    from torchvision.transforms.v2 import RandomResizedCrop

    with torch.random.fork_rng():
        torch.manual_seed(0)
        image, reference = torch.empty(3, 400, 600), RandomResizedCrop(8)
        params = [reference.make_params([image]) for _ in range(3000)]
    theirs = torch.tensor([[p["top"], p["left"], p["height"], p["width"]] for p in params])
    theirs = theirs / torch.tensor([400, 600, 400, 600])
    ours = drawing(3000, shape=(400.0, 600.0)).boxes()
    assert torch.allclose(ours.mean(0), theirs.mean(0), atol=0.02)
    quantiles = torch.tensor([0.1, 0.25, 0.5, 0.75, 0.9])
    assert torch.allclose(ours.quantile(quantiles, 0), theirs.quantile(quantiles, 0), atol=0.04)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1.0, 1.0), [0.0, 0.0, 1.0, 1.0]),
        ((100.0, 400.0), [0.0, 1 / 3, 1.0, 1 / 3]),
        ((400.0, 100.0), [1 / 3, 0.0, 1 / 3, 1.0]),
    ],
)
def test_what_fits_no_attempt_is_central(shape, expected):
    drawn = drawing(5, scale=(1.0, 1.0), shape=shape).boxes()
    assert torch.allclose(drawn, torch.tensor(expected).expand(5, 4), atol=1e-6)


shapes = st.sampled_from([(1.0, 1.0), (300.0, 500.0), (500.0, 250.0), (100.0, 700.0)])


@given(st.floats(0, 1), shapes, st.integers(0, 1000))
def test_min_overlap_holds_for_every_pair(least, shape, seed):
    pair = drawing(200, shape=shape, seed=seed).pair(least)
    assert_inside(pair)
    assert (boxes.overlap(*pair) >= least - 1e-5).all()


def test_min_overlap_holds_where_redrawing_never_finds_it():
    # Thin crops of a tall kind and of a wide kind almost never lie within one another.
    pair = drawing(300, scale=(0.05, 0.06), ratio=(0.25, 4.0)).pair(0.97)
    assert_inside(pair)
    assert (boxes.overlap(*pair) >= 0.97 - 1e-5).all()


def test_min_overlap_of_0_changes_nothing():
    pair = drawing().pair(0.0)
    assert (boxes.overlap(*pair) < 0.05).any()


@given(st.floats(0.01, 1), shapes, st.integers(0, 1000))
def test_exact_overlap_holds_for_every_pair(shared, shape, seed):
    pair = drawing(200, shape=shape, seed=seed).pair_with_overlap(shared)
    assert_inside(pair)
    assert torch.equal(pair[0, :, 2:], pair[1, :, 2:])
    assert torch.allclose(boxes.overlap(*pair), torch.tensor(shared), atol=1e-3)
    area = pair[0, :, 2:].prod(-1)
    assert (area > SCALE[0] - 1e-6).all() or shape == (100.0, 700.0)


def test_exact_overlap_shifts_to_all_sides():
    pair = drawing().pair_with_overlap(0.5)
    down, right = (pair[1] - pair[0])[:, :2].unbind(-1)
    for shift in (down, right):
        assert 0.4 < (shift > 0.01).float().mean() < 0.6
        assert 0.35 < (shift < -0.01).float().mean() < 0.6
    assert math.isclose(pair[0].mean(), pair[1].mean(), rel_tol=0.03)


def test_exact_overlap_of_large_crops():
    least = boxes.least_overlap((0.6, 1.0), RATIO)
    assert 0.3 < least < 0.6
    pair = drawing(500, scale=(0.6, 1.0)).pair_with_overlap(least + 1e-3)
    assert torch.allclose(boxes.overlap(*pair), torch.tensor(least + 1e-3), atol=1e-3)
    with pytest.raises(ValueError, match=r"out of reach.*Lower crop_scale"):
        drawing(10, scale=(0.6, 1.0)).pair_with_overlap(least - 0.05)
