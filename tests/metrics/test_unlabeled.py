"""Measures without labels against numpy, SciPy, scikit-learn; and where there is nothing to see."""

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.metrics import roc_auc_score

from amcl.evaluation import UnlabeledSettings
from amcl.metrics import unlabeled as module
from amcl.metrics.unlabeled import (
    alignment,
    effective_rank,
    separation,
    separation_of,
    spread,
    uniformity,
    unlabeled,
)


def features(n, d=6):
    return torch.randn(n, d, dtype=torch.float64) * torch.rand(n, 1, dtype=torch.float64)


def pairs(n, noise=0.3):
    h = features(n)
    return h + noise * features(n), h + noise * features(n)


def unit(x):
    return x.numpy() / np.linalg.norm(x.numpy(), axis=1, keepdims=True)


def test_spread_is_that_of_the_mean_cosine():
    x = features(30) + 0.3
    cosines = (unit(x) @ unit(x).T)[~np.eye(30, dtype=bool)]
    assert spread(x) == pytest.approx(np.sqrt(1 - cosines.mean()), rel=1e-12)
    assert spread(5 * x) == pytest.approx(spread(x))


def test_spread_at_its_ends():
    direction = torch.randn(8)
    assert spread(torch.rand(20, 1).add(0.1) * direction) == pytest.approx(0, abs=1e-3)
    assert spread(torch.eye(8)) == pytest.approx(1)
    assert spread(torch.eye(8, dtype=torch.float16)) == pytest.approx(1)


def test_dead_features_are_alike():
    assert spread(torch.zeros(20, 8)) == 0
    half = torch.cat([torch.zeros(4, 8), torch.eye(8)[:1].repeat(4, 1)])
    alike = (4 * 3 + 4 * 3) / (8 * 7)  # pairs within the dead and within the others
    assert spread(half) == pytest.approx(math.sqrt(1 - alike))


def test_effective_rank_is_the_entropy_of_singular_values():
    x = features(30)
    values = np.linalg.svd(x.numpy(), compute_uv=False)
    p = values / values.sum()
    assert effective_rank(x) == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-12)
    assert effective_rank(1e-30 * x) == pytest.approx(effective_rank(x))
    assert effective_rank(torch.eye(7)) == pytest.approx(7)
    assert effective_rank(torch.ones(20, 7)) == pytest.approx(1, abs=1e-3)
    assert effective_rank(torch.zeros(20, 7)) == 1
    assert effective_rank(torch.ones(1, 7)) == pytest.approx(1)


@pytest.mark.parametrize("alpha", [1, 2, 3.5])
def test_alignment_is_the_mean_distance_of_pairs(alpha):
    h0, h1 = pairs(20)
    distance = np.linalg.norm(unit(h0) - unit(h1), axis=1)
    assert alignment(h0, h1, alpha) == pytest.approx((distance**alpha).mean(), rel=1e-12)
    assert alignment(3 * h0, 7 * h1, alpha) == pytest.approx(alignment(h0, h1, alpha))
    assert alignment(h0, h0, alpha) == 0
    assert alignment(h0, -h0, alpha) == pytest.approx(2**alpha)


@pytest.mark.parametrize("t", [0.5, 2])
@pytest.mark.parametrize("block", [2**21, 50, 1])
def test_uniformity_is_that_of_all_pairs(monkeypatch, t, block):
    monkeypatch.setattr(module, "_PAIRS", block)
    x = features(30)
    expected = np.log(np.exp(-t * pdist(unit(x), "sqeuclidean")).mean())
    assert uniformity(x, t) == pytest.approx(expected, rel=1e-12)
    assert uniformity(9 * x, t) == pytest.approx(uniformity(x, t))


def test_uniformity_at_its_ends():
    assert uniformity(torch.ones(9, 4)) == pytest.approx(0, abs=1e-12)
    opposite = torch.tensor([[1.0, 0], [-1, 0]])
    assert uniformity(opposite, 1000) == pytest.approx(-4000)  # exp of it is 0 in float64


def expected_separation(h0, h1, bins):
    cosines = unit(h0) @ unit(h1).T
    own = np.eye(len(h0), dtype=bool)
    positive, negative = cosines[own], cosines[~own]
    counts = [np.histogram(x, bins, (-1, 1))[0] / len(x) for x in (positive, negative)]
    return {
        "positive_similarity": pytest.approx(positive.mean()),
        "negative_similarity": pytest.approx(negative.mean()),
        "overlap": pytest.approx(np.minimum(*counts).sum()),
        "auroc": pytest.approx(roc_auc_score(own.ravel(), cosines.ravel()), abs=1e-12),
    }


@pytest.mark.parametrize("noise", [0.1, 1, 10])
@pytest.mark.parametrize("bins", [100, 7])
@pytest.mark.parametrize("block", [2**21, 100, 1])
def test_separation_is_that_of_all_pairs(monkeypatch, noise, bins, block):
    monkeypatch.setattr(module, "_PAIRS", block)
    h0, h1 = pairs(40, noise)
    found = separation(h0, h1, bins)
    assert found.metrics == expected_separation(h0, h1, bins)
    assert 0 < found.overlap < 1
    assert 0.5 < found.auroc < 1


def test_pairs_that_are_equally_alike_count_half():
    h0, h1 = (torch.randint(2, (50, 4)).double() * 2 - 1 for _ in range(2))  # exact cosines
    assert separation(h0, h1).metrics == expected_separation(h0, h1, 100)


def test_separation_at_its_ends():
    apart = {"positive_similarity": 1, "negative_similarity": 0, "overlap": 0, "auroc": 1}
    assert separation(torch.eye(5), 2 * torch.eye(5)).metrics == apart
    turned = torch.eye(5).roll(1, 0)  # views that are alike are those of others
    found = separation(torch.eye(5), turned)
    assert (found.positive_similarity, found.negative_similarity) == (0, 1 / 4)
    assert (found.overlap, found.auroc) == (pytest.approx(0.75), pytest.approx(0.375))


@pytest.mark.parametrize("ties", [False, True])
def test_separation_of_any_similarity(ties):
    n = 12
    similarity = 3 * torch.randn(n, n) + 2 * torch.eye(n)
    if ties:
        similarity = similarity.round()
    found = separation_of(similarity, bins=7)
    own = np.eye(n, dtype=bool)
    values = similarity.double().numpy()
    positive, negative = values[own], values[~own]
    assert found.positive_similarity == pytest.approx(positive.mean())
    assert found.negative_similarity == pytest.approx(negative.mean())
    assert found.auroc == pytest.approx(roc_auc_score(own.ravel(), values.ravel()), abs=1e-12)
    ends = values.min(), values.max()
    shares = [np.histogram(x, bins=7, range=ends)[0] / len(x) for x in (positive, negative)]
    assert found.histograms.positive.tolist() == pytest.approx(shares[0])
    assert found.histograms.negative.tolist() == pytest.approx(shares[1])
    assert found.overlap == pytest.approx(np.minimum(*shares).sum())
    assert found.histograms.edges.tolist() == pytest.approx(np.linspace(*ends, 8))


def test_pairs_that_are_all_alike_are_not_apart():
    found = separation_of(torch.full((5, 5), 0.7))
    assert found.auroc == 0.5
    assert found.overlap == pytest.approx(1)
    assert found.histograms.edges[0] < 0.7 < found.histograms.edges[-1]


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 3), (1, 1)])
def test_separation_needs_a_square(shape):
    with pytest.raises(ValueError, match=r"similarity must be \(N, N\) with N of 2 or more"):
        separation_of(torch.zeros(shape))


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-30, 1e30])
def test_features_that_are_all_the_same_measure_as_collapsed(value):
    h = torch.full((301, 67), value)
    assert unlabeled(h, h, h) == {
        "alignment": 0,
        "uniformity": pytest.approx(0, abs=1e-12),
        "effective_rank": pytest.approx(1),
        "spread": pytest.approx(0, abs=1e-6),
        "positive_similarity": 1,
        "negative_similarity": 1,
        "overlap": 1,
        "auroc": 0.5,
    }


def test_all_measures_together():
    h, (h0, h1) = features(30), pairs(30)
    found = unlabeled(*(x.float().requires_grad_() for x in (h, h0, h1)))
    single = separation(h0, h1)
    expected = {
        "alignment": alignment(h0, h1),
        "uniformity": uniformity(h),
        "effective_rank": effective_rank(h),
        "spread": spread(h),
        "positive_similarity": single.positive_similarity,
        "negative_similarity": single.negative_similarity,
        "overlap": single.overlap,
        "auroc": single.auroc,
    }
    assert found == {name: pytest.approx(value, rel=1e-4) for name, value in expected.items()}
    assert list(found) == list(expected)


def test_one_image_has_no_pairs():
    one = features(1)
    assert alignment(one, one) == 0
    for measure in (spread, uniformity, lambda h: separation(h, h), lambda h: unlabeled(h, h, h)):
        with pytest.raises(ValueError, match="must hold 2 or more images, got 1"):
            measure(one)


def test_no_images_are_an_error():
    none = features(0)
    for measure in (effective_rank, spread, uniformity, lambda h: alignment(h, h)):
        with pytest.raises(ValueError, match=r"must hold . or more images, got 0"):
            measure(none)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_features_that_are_not_finite_are_an_error(bad):
    h, broken = features(9), features(9)
    broken[4, 2] = bad
    for measure in (
        spread,
        effective_rank,
        uniformity,
        lambda x: alignment(h, x),
        lambda x: separation(x, h),
    ):
        with pytest.raises(ValueError, match=r"1 of 9 rows of .* hold NaN or infinity"):
            measure(broken)


def test_it_says_what_is_wrong():
    h = features(9)
    for measure in (alignment, separation):
        with pytest.raises(ValueError, match=r"one shape.* got \(9, 6\) and \(8, 6\)"):
            measure(h, h[:8])
    with pytest.raises(ValueError, match=r"\bbins\b.*\b0\b"):
        separation(h, h, bins=0)
    with pytest.raises(ValueError, match=r"\balpha\b.*\b0\b"):
        alignment(h, h, alpha=0)
    with pytest.raises(ValueError, match=r"\bt\b.*-1\b"):
        uniformity(h, t=-1)


def test_settings_say_what_is_wrong():
    assert (UnlabeledSettings().images, UnlabeledSettings().views) == (2000, "abcde")
    for images in (0, 1, 2.5):
        with pytest.raises(ValueError, match=rf"\bimages\b.*\b{images}\b"):
            UnlabeledSettings(images=images)
    with pytest.raises(ValueError, match="has no operation for 'x': choose letters from a = "):
        UnlabeledSettings(views="abx")
