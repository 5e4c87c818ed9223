"""Neighbors in blocks are those of the whole matrix."""

import pytest
import torch

from amcl.curation.neighbors import nearest_images, unit_features


def brute_force(x, k):
    cosines = x @ x.T
    cosines.fill_diagonal_(-torch.inf)
    return cosines.topk(k, dim=1)


@pytest.mark.parametrize(
    ("n", "block", "k"), [(300, 64, 10), (301, 300, 7), (40, 7, 10), (5, 2, 9)]
)
def test_blocked_search_equals_the_whole_matrix(n, block, k):
    x = unit_features(torch.randn(n, 16))
    cosines, indices = nearest_images(x, k, block=block, show_progress=False)
    expected = brute_force(x, min(k, n - 1))
    torch.testing.assert_close(cosines, expected.values)
    assert torch.equal(indices, expected.indices)


def test_wide_blocks_read_groups_of_columns():
    x = unit_features(torch.randn(1500, 4))
    cosines, indices = nearest_images(x, 3, block=1500)
    assert torch.equal(indices, brute_force(x, 3).indices)
    torch.testing.assert_close(cosines, torch.linalg.vecdot(x[:, None], x[indices]))


def test_one_image_has_no_neighbors():
    cosines, indices = nearest_images(torch.ones(1, 1), 3)
    assert cosines.shape == indices.shape == (1, 0)


def test_features_that_are_not_finite_are_an_error():
    with pytest.raises(ValueError, match="1 of 2 rows"):
        unit_features(torch.tensor([[1.0], [torch.nan]]))
