"""Measures of a sample against loops, scikit-learn and NumPy; and where there is nothing to see."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from amcl.analysis import (
    QUANTILES,
    PairSample,
    agreement,
    backbone_similarity,
    hard_negatives,
    neighbors,
    retrieval,
    scaled,
    separations,
    temperatures,
    uncertain_positives,
)
from amcl.losses import PairStats
from amcl.metrics import separation, separation_of

HEADS, N = 3, 12
NOTHING = {"s": None, "tau": None}  # as MAE


def make(n=N, heads=HEADS, **fields):
    """A sample of random numbers, its views of one image a little alike."""
    h = torch.randn(n, 6)
    h0, h1 = (h + 0.8 * torch.randn(n, 6) for _ in range(2))
    z = torch.randn(heads, n, 4)
    z0, z1 = (F.normalize(z + 0.8 * torch.randn(heads, n, 4), dim=-1) for _ in range(2))
    values = {
        "h": h,
        "h0": h0,
        "h1": h1,
        "s": z0 @ z1.mT,
        "tau": 0.1 + torch.rand(heads, n, n),
        "channel_tau": None,
        "positive_bounds": (0.1, 1.1),
        "negative_bounds": (0.1, 1.1),
        "views": torch.zeros(2, n, 3, 4, 4, dtype=torch.uint8),
        "images": torch.zeros(n, 3, 4, 4, dtype=torch.uint8),
        "labels": torch.arange(n) % 3,
        "classes": ("a", "b", "c"),
    }
    return PairSample(**values | fields)


def cosine(a, b):
    a, b = a.tolist(), b.tolist()
    return np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b)


def off_diagonal(matrix):
    n = len(matrix)
    return [float(matrix[i, j]) for i in range(n) for j in range(n) if i != j]


def test_scaled_is_the_mean_over_heads_of_s_over_tau():
    sample = make()
    found = scaled(sample)
    for i in range(N):
        for j in range(N):
            each = [float(sample.s[c, i, j] / sample.tau[c, i, j]) for c in range(HEADS)]
            assert found[i, j].item() == pytest.approx(sum(each) / HEADS, rel=1e-5)


def test_scaled_without_temperatures_of_images_is_the_mean_of_s():
    sample = make(tau=None, channel_tau=torch.ones(HEADS, 4, 4))
    torch.testing.assert_close(scaled(sample), sum(sample.s) / HEADS)
    with pytest.raises(ValueError, match="no heads: use backbone_similarity"):
        scaled(make(**NOTHING))


def test_backbone_similarity_is_the_cosine():
    sample = make()
    found = backbone_similarity(sample)
    for i in range(N):
        for j in range(N):
            expected = cosine(sample.h0[i].double(), sample.h1[j].double())
            assert found[i, j].item() == pytest.approx(expected, abs=1e-6)


def test_separation_of_the_backbone_is_that_of_evaluation():
    sample = make()
    apart = separations(sample)
    assert apart["backbone"] == separation(sample.h0, sample.h1)
    assert apart["heads"] == separation_of(scaled(sample))
    assert set(separations(make(**NOTHING))) == {"backbone"}


def by_sign(tau, sign):
    """τ of the pairs of one sign in one head."""
    return [float(x) for x in tau.diagonal()] if sign == "positive" else off_diagonal(tau)


def test_temperatures_by_loops():
    sample = make()
    found = temperatures(sample)
    assert [(row.sign, row.head) for row in found.heads] == [
        (sign, head) for sign in ("positive", "negative") for head in (1, 2, 3)
    ]
    for row in found.heads:
        values = by_sign(sample.tau[row.head - 1], row.sign)
        assert row.mean == pytest.approx(np.mean(values))
        assert row.std == pytest.approx(np.std(values))
        assert row.quantiles == pytest.approx(np.quantile(values, QUANTILES))
        assert row.at_lower == pytest.approx(np.mean([t <= 0.11 for t in values]))
        assert row.at_upper == pytest.approx(np.mean([t >= 1.09 for t in values]))
    assert found.of("negative") == found.heads[3:]


def test_the_variance_between_heads_by_loops():
    sample = make()
    found = temperatures(sample)
    variance = {"positive": [], "negative": []}
    for i in range(N):
        for j in range(N):
            sign = "positive" if i == j else "negative"
            variance[sign].append(np.var([float(sample.tau[c, i, j]) for c in range(HEADS)]))
    assert found.between_positive == pytest.approx(np.mean(variance["positive"]))
    assert found.between_negative == pytest.approx(np.mean(variance["negative"]))
    one = temperatures(make(heads=1))
    assert one.between_positive == one.between_negative == 0


def test_shares_at_the_bounds_are_those_of_the_loss():
    tau = 0.1 + torch.rand(2, 40, 40).lt(0.3) * torch.rand(2, 40, 40)
    sample = make(40, heads=2, tau=tau)
    ignored = torch.eye(40, dtype=torch.bool)
    expected = PairStats.of(sample.s, tau, ignored, (0.1, 1.1))
    rows = temperatures(sample).of("negative")
    assert [row.at_lower for row in rows] == pytest.approx(expected.at_lower.tolist())
    assert [row.at_upper for row in rows] == pytest.approx(expected.at_upper.tolist())
    assert 0.6 < rows[0].at_lower < 0.8
    assert [row.std for row in rows] == pytest.approx(expected.tau_std.tolist(), rel=1e-5)


def test_only_signs_that_adapt_have_shares_at_bounds():
    found = temperatures(make(positive_bounds=None))
    assert all(row.at_lower is row.at_upper is None for row in found.of("positive"))
    assert all(row.at_lower is not None for row in found.of("negative"))


def test_temperatures_of_channels():
    channel_tau = 0.8 + 0.3 * torch.rand(HEADS, 4, 4)
    found = temperatures(make(tau=None, channel_tau=channel_tau))
    assert found.heads[0].mean == pytest.approx(channel_tau[0].diagonal().mean().item())
    assert found.heads[3].mean == pytest.approx(np.mean(off_diagonal(channel_tau[0])))
    with pytest.raises(ValueError, match="no heads, and so no temperatures"):
        temperatures(make(**NOTHING))


def test_agreement_by_loops():
    sample = make()
    found = agreement(sample, k=4)
    values = [off_diagonal(s) for s in sample.s]
    np.testing.assert_allclose(found.correlation, np.corrcoef(values), atol=1e-6)

    def nearest(c, i):
        others = sorted((-float(sample.s[c, i, j]), j) for j in range(N) if j != i)
        return {j for _, j in others[:4]}

    for a in range(HEADS):
        for b in range(HEADS):
            shared = []
            for i in range(N):
                first, second = nearest(a, i), nearest(b, i)
                shared.append(len(first & second) / len(first | second))
            assert found.neighbors[a, b].item() == pytest.approx(np.mean(shared), rel=1e-5)


def test_agreement_of_equal_heads_and_of_one():
    s = make(heads=1).s
    twice = agreement(make(s=s.expand(2, N, N)))
    torch.testing.assert_close(twice.correlation, torch.ones(2, 2))
    torch.testing.assert_close(twice.neighbors, torch.ones(2, 2))
    one = agreement(make(s=s), k=100)  # more than there are: all others
    assert one.correlation.shape == one.neighbors.shape == (1, 1)
    collapsed = agreement(make(s=torch.cat([s, torch.ones(1, N, N)])))
    assert collapsed.correlation[0, 1].isnan()
    with pytest.raises(ValueError, match="no heads, and so nothing that could agree"):
        agreement(make(**NOTHING))


def test_retrieval_by_loops():
    sample = make()
    labels = sample.labels.tolist()
    found = {row.name: row for row in retrieval(sample)}
    matrices = {f"head {c + 1}": s for c, s in enumerate(sample.s)}
    matrices["mean of heads"] = sum(sample.s) / HEADS
    matrices["backbone"] = backbone_similarity(sample)
    assert list(found) == list(matrices)
    for name, s in matrices.items():
        own = same_class = 0
        for i in range(N):
            own += max(range(N), key=lambda j, row=s[i]: row[j]) == i
            others = [j for j in range(N) if j != i]
            nearest = max(others, key=lambda j, row=s[i]: row[j])
            same_class += labels[nearest] == labels[i]
        assert found[name].own_image == pytest.approx(own / N)
        assert found[name].same_class == pytest.approx(same_class / N)


def test_retrieval_without_labels_without_heads_and_with_one():
    rows = retrieval(make(labels=None, classes=(), **NOTHING))
    assert [(row.name, row.same_class) for row in rows] == [("backbone", None)]
    assert [row.name for row in retrieval(make(heads=1))] == ["head 1", "backbone"]
    same = torch.eye(N)
    perfect = retrieval(make(h0=same, h1=same, s=same[None]))
    assert [row.own_image for row in perfect] == [1, 1]


def mean_over_heads(matrix, i, j):
    return sum(float(matrix[c, i, j]) for c in range(len(matrix))) / len(matrix)


def test_uncertain_positives_are_those_of_the_highest_temperatures():
    sample = make()
    order = sorted(range(N), key=lambda i: -mean_over_heads(sample.tau, i, i))
    found = uncertain_positives(sample, 4)
    assert [(pair.i, pair.j) for pair in found] == [(i, i) for i in order[:4]]
    first = found[0]
    assert first.tau == tuple(sample.tau[:, first.i, first.i].tolist())
    assert first.s == tuple(sample.s[:, first.i, first.i].tolist())
    assert first.backbone == pytest.approx(cosine(sample.h0[first.i], sample.h1[first.i]), abs=1e-5)


@pytest.mark.parametrize(
    "fields",
    [
        {"tau": torch.full((HEADS, N, N), 0.1)},
        {"tau": torch.full((N, N), 0.1) + 0.1 * torch.arange(HEADS).view(-1, 1, 1)},
        {"tau": None},
    ],
)
def test_where_temperatures_are_equal_the_least_similar_are_uncertain(fields):
    sample = make(**fields)
    order = sorted(range(N), key=lambda i: mean_over_heads(sample.s, i, i))
    found = uncertain_positives(sample, 100)
    assert [pair.i for pair in found] == order
    assert (found[0].tau is None) == (fields["tau"] is None)


def greedy(alike, count):
    taken, chosen = set(), []
    pairs = [(i, j) for i in range(N) for j in range(N) if i != j]
    for i, j in sorted(pairs, key=lambda pair: -float(alike[pair])):
        if not {i, j} & taken and len(chosen) < count:
            chosen.append((i, j))
            taken |= {i, j}
    return chosen


@pytest.mark.parametrize("count", [1, 4, 100])
def test_hard_negatives_are_the_most_similar_and_share_no_image(count):
    sample = make()
    alike = {
        (i, j): sum(float(sample.s[c, i, j] / sample.tau[c, i, j]) for c in range(HEADS))
        for i in range(N)
        for j in range(N)
    }
    found = [(pair.i, pair.j) for pair in hard_negatives(sample, count)]
    assert found == greedy(alike, count)
    assert len(found) == min(count, N // 2)


def test_galleries_without_heads_are_those_of_the_backbone():
    sample = make(**NOTHING)
    cosines = backbone_similarity(sample)
    found = hard_negatives(sample, 3)
    assert [(pair.i, pair.j) for pair in found] == greedy(cosines, 3)
    assert (found[0].s, found[0].tau) == ((), None)
    order = sorted(range(N), key=lambda i: float(cosines[i, i]))
    assert [pair.i for pair in uncertain_positives(sample, 3)] == order[:3]


@pytest.mark.parametrize("find", [uncertain_positives, hard_negatives])
def test_a_gallery_of_nothing_is_refused(find):
    with pytest.raises(ValueError, match="count must be a whole number, at least 1, got 0"):
        find(make(), 0)


def test_neighbors_by_loops():
    features = torch.randn(20, 5)
    asked, nearest = neighbors(features, queries=4, k=6)
    assert asked.tolist() == [0, 6, 13, 19]
    assert nearest.shape == (4, 6)
    for query, row in zip(asked.tolist(), nearest.tolist(), strict=True):
        others = [j for j in range(20) if j != query]
        order = sorted(others, key=lambda j, q=query: -cosine(features[q], features[j]))
        assert row == order[:6]


def test_neighbors_of_few_images():
    asked, nearest = neighbors(torch.randn(3, 5), queries=10, k=10)
    assert asked.tolist() == [0, 1, 2]
    assert [set(row) for row in nearest.tolist()] == [{1, 2}, {0, 2}, {0, 1}]
    same = neighbors(torch.ones(4, 2), queries=2, k=3)[1]  # all equal: in their order
    assert same.tolist() == [[1, 2, 3], [0, 1, 2]]
    with pytest.raises(ValueError, match="neighbors need 2 images or more, got 1"):
        neighbors(torch.ones(1, 2), 1, 1)
    with pytest.raises(ValueError, match="1 of 3 rows of features hold NaN"):
        neighbors(torch.tensor([[1.0], [math.nan], [2.0]]), 1, 1)
