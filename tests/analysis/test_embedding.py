"""Maps of features: PCA against scikit-learn, UMAP and t-SNE where they are installed."""

import sys

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from amcl.analysis import plane

PACKAGES = {"umap": "umap", "tsne": "openTSNE"}


def groups(n=30, d=8):
    """Two groups of directions, far apart."""
    center = torch.zeros(n, d)
    center[: n // 2, 0], center[n // 2 :, 0] = 3, -3
    return center + 0.3 * torch.randn(n, d)


def test_pca_is_that_of_directions():
    features = groups() * (0.1 + 5 * torch.rand(30, 1))  # lengths say nothing
    unit = features.double().numpy()
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    expected = PCA(2).fit_transform(unit)
    found = plane(features).numpy()
    for column in range(2):
        sign = np.sign(found[:, column] @ expected[:, column])
        np.testing.assert_allclose(sign * found[:, column], expected[:, column], atol=1e-5)


def test_pca_is_turned_one_way():
    features = groups()
    torch.testing.assert_close(plane(features), plane(features.flip(0)).flip(0))
    assert plane(features)[0, 0] > 0  # the first group lies where the largest component does


@pytest.mark.parametrize("shape", [(2, 5), (5, 1), (3, 3)])
def test_pca_of_little(shape):
    found = plane(torch.randn(shape))
    assert found.shape == (shape[0], 2)
    assert found.dtype == torch.float32
    assert found.isfinite().all()
    assert torch.equal(plane(torch.ones(4, 3)), torch.zeros(4, 2))


@pytest.mark.parametrize("method", PACKAGES)
def test_neighbors_stay_together(method):
    pytest.importorskip(PACKAGES[method], reason=f"{PACKAGES[method]} is not installed")
    features = groups(60)
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    found = plane(features, method, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert (np.random.get_state()[1] == numpy_state).all()
    assert found.shape == (60, 2)
    assert found.dtype == torch.float32
    own = torch.arange(60) // 30
    distance = torch.cdist(found, found).fill_diagonal_(torch.inf)
    assert (own[distance.argmin(1)] == own).all()
    torch.testing.assert_close(plane(features, method, seed=1), found, rtol=0, atol=0)
    assert not torch.equal(plane(features, method, seed=2), found)
    assert plane(features[:4], method).isfinite().all()


@pytest.mark.parametrize("method", PACKAGES)
def test_a_missing_package_is_named_with_the_way_to_get_it(method, monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGES[method], None)
    with pytest.raises(ValueError, match=rf"pip install '\.\[{method}\]' in .* Or use method="):
        plane(groups(), method)


@pytest.mark.parametrize("method", PACKAGES)
def test_too_few_images_for_neighbors(method):
    with pytest.raises(ValueError, match=f"{method} needs 4 images or more, got 3"):
        plane(torch.randn(3, 5), method)


def test_what_cannot_be_mapped():
    with pytest.raises(ValueError, match="method must be one of 'pca', 'umap', 'tsne'; got 'mds'"):
        plane(groups(), "mds")
    with pytest.raises(ValueError, match="pca needs 2 images or more, got 1"):
        plane(torch.randn(1, 5))
    with pytest.raises(ValueError, match="1 of 2 rows of features hold NaN"):
        plane(torch.tensor([[1.0, 2.0], [torch.nan, 0.0]]))
