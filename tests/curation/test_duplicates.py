"""Groups of copies: stars around the image that is kept, exact whatever lists of neighbors hold."""

import pytest
import torch

from amcl.curation.duplicates import (
    check_threshold,
    choose_threshold,
    near_groups,
    number_groups,
    same_content,
)
from amcl.curation.neighbors import nearest_images, unit_features


def literal_groups(x, order, threshold):
    """The definition as a loop over images."""
    kept = [-1] * len(x)
    for i in order:
        if kept[i] < 0:
            for j in range(len(x)):
                if kept[j] < 0 and (j == i or x[i] @ x[j] >= threshold):
                    kept[j] = i
    return kept


@pytest.mark.parametrize("threshold", [0.99, 0.9, 0.5, 0.01])
@pytest.mark.parametrize("k", [1, 4, 30])
def test_groups_are_those_of_the_definition(threshold, k):
    """Also where more images are similar than the lists of neighbors hold."""
    x = unit_features(torch.randn(60, 4))
    order = torch.randperm(60)
    cosines, indices = nearest_images(x, k)
    kept = near_groups(x, cosines, indices, order, threshold)
    assert kept.tolist() == literal_groups(x, order.tolist(), threshold)


def test_a_chain_of_similar_images_is_not_one_group():
    angle = torch.arange(200) * 0.1
    x = torch.stack([angle.cos(), angle.sin()], 1)[:30]
    cosines, indices = nearest_images(x, 5)
    kept = near_groups(x, cosines, indices, torch.arange(30), 0.99)
    assert number_groups(kept).group.max() > 5
    assert (torch.linalg.vecdot(x, x[kept]) >= 0.99).all()


def test_content_joins_through_any_key():
    order = torch.tensor([3, 0, 1, 2, 4])
    same = same_content([["a", "b", "b", "c", "d"], ["x", "x", "y", "y", "z"]], order)
    assert same.tolist() == [3, 3, 3, 3, 4]


def test_the_threshold_ignores_copies_and_follows_the_scale():
    x = unit_features(torch.randn(400, 32))
    apart = choose_threshold(nearest_images(x, 10)[0])
    copies = torch.cat([x, unit_features(x[:100] + 1e-4 * torch.randn(100, 32))])
    with_copies = choose_threshold(nearest_images(copies, 10)[0])
    assert abs(with_copies - apart) < 0.1 * (1 - apart)
    alike = unit_features(1 + 0.01 * torch.randn(400, 32))  # features that have collapsed
    cosines = nearest_images(alike, 10)[0]
    assert (cosines[:, 0] >= choose_threshold(cosines)).sum() < 10
    cosines = nearest_images(copies, 10)[0]
    assert (cosines[:, 0] >= with_copies).sum() == 200


@pytest.mark.parametrize("threshold", [0, 1, 1.5, -0.5, float("nan")])
def test_thresholds_are_cosines(threshold):
    with pytest.raises(ValueError, match="threshold"):
        check_threshold(threshold)
