"""kNN against scikit-learn and literal loops; blocks, ties, long features, low temperatures."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import top_k_accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from torch.utils._python_dispatch import TorchDispatchMode

from amcl.metrics import knn as module
from amcl.metrics.knn import (
    KnnSettings,
    default_k,
    knn,
    knn_accuracy,
    knn_predict,
    knn_scores,
)

METRICS = ("cosine", "euclidean")


def features(n, d=6):
    return torch.randn(n, d, dtype=torch.float64) * torch.rand(n, 1, dtype=torch.float64)


def scikit_learn(bank, labels, k, tau, metric):
    def weights(distance):
        similarity = 1 - distance if metric == "cosine" else -(distance**2) / 2
        return np.exp(similarity / tau)

    theirs = KNeighborsClassifier(k, metric=metric, algorithm="brute", weights=weights)
    return theirs.fit(bank.numpy(), labels.numpy())


def neighbors(bank, queries, k, **options):
    """Which of the bank vote for each query: every feature is a class of its own."""
    labels = torch.arange(len(bank))
    scores = knn_scores(bank, labels, queries, len(bank), k=k, tau=math.inf, **options)
    return [row.nonzero().squeeze(1).tolist() for row in scores]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("tau", [0.07, 0.5, math.inf])
@pytest.mark.parametrize("block", [None, 1024, 7])
def test_votes_are_scikit_learns_with_exponential_weights(metric, k, tau, block):
    bank, queries = features(80), features(50)
    labels = torch.randint(4, (80,))
    theirs = scikit_learn(bank, labels, k, tau, metric)
    options = {"k": k, "tau": tau, "metric": metric, "block": block}
    scores = knn_scores(bank, labels, queries, 4, **options)
    np.testing.assert_allclose(scores, theirs.predict_proba(queries.numpy()), atol=1e-12)

    names = torch.tensor([-1, 3, 17, 100])
    theirs = scikit_learn(bank, names[labels], k, tau, metric)
    predicted = knn_predict(bank, names[labels], queries, **options)
    assert predicted.tolist() == theirs.predict(queries.numpy()).tolist()
    assert len(predicted.unique()) > 1
    truth = names[torch.randint(4, (50,))]
    accuracy = knn_accuracy(bank, names[labels], queries, truth, **options)
    assert accuracy == pytest.approx(theirs.score(queries.numpy(), truth.numpy()))


@pytest.mark.parametrize("metric", METRICS)
def test_long_banks_are_searched_exactly(metric):
    """So long that most of a row is passed over by the maxima of its groups."""
    bank, queries = features(1501).float(), features(40).float()
    labels = torch.randint(8, (1501,))
    for k in (1, 7, 50):
        theirs = scikit_learn(bank.double(), labels, k, 0.1, metric)
        expected = theirs.predict_proba(queries.double().numpy())
        scores = knn_scores(bank, labels, queries, 8, k=k, metric=metric)
        np.testing.assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.parametrize("tau", [0.05, 1.0])
def test_both_metrics_are_one_on_unit_vectors(tau):
    bank, queries = (torch.nn.functional.normalize(features(n)) for n in (60, 30))
    labels = torch.randint(4, (60,))
    cosine, euclidean = (
        knn_scores(bank, labels, queries, 4, k=9, tau=tau, metric=metric) for metric in METRICS
    )
    torch.testing.assert_close(cosine, euclidean, rtol=1e-10, atol=1e-12)


def test_metrics_differ_on_others():
    bank, labels, queries = features(60), torch.randint(4, (60,)), features(30)
    found = [knn_scores(bank, labels, queries, 4, k=9, metric=metric) for metric in METRICS]
    assert not torch.allclose(*found, atol=0.1)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 3, 20, 90])
@pytest.mark.parametrize("size", [2**27, 2**11, 1])
@pytest.mark.parametrize("block", [None, 4])
def test_of_equals_the_first_are_taken_whatever_the_blocks(monkeypatch, metric, k, size, block):
    monkeypatch.setattr(module, "_BYTES", size)
    bank, queries = (torch.randint(2, (n, 4)).float() * 2 - 1 for n in (100, 9))  # exact products
    order = np.argsort(-(queries @ bank.T).numpy(), axis=1, kind="stable")[:, :k]
    found = neighbors(bank, queries, k, metric=metric, block=block)
    assert found == np.sort(order, axis=1).tolist()


@pytest.mark.parametrize("metric", METRICS)
def test_parts_of_the_bank_make_no_difference(monkeypatch, metric):
    bank, labels, queries = features(500), torch.randint(9, (500,)), features(70)
    whole = knn_scores(bank, labels, queries, 9, k=30, metric=metric)
    monkeypatch.setattr(module, "_BYTES", 8 * 70 * 41)
    parts = knn_scores(bank, labels, queries, 9, k=30, metric=metric)
    torch.testing.assert_close(whole, parts, rtol=1e-12, atol=1e-14)


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that is made."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else [made]:
            if isinstance(tensor, torch.Tensor):
                self.size = max(self.size, tensor.untyped_storage().nbytes())
        return made


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("k", "classes"), [(10, 7), (2000, 7), (10, 5000)])
def test_memory_is_bounded(monkeypatch, metric, equal, k, classes):
    monkeypatch.setattr(module, "_BYTES", 2**16)
    bank, queries = torch.randn(5000, 1), torch.randn(50, 1)
    if equal:
        bank, queries = torch.ones_like(bank), torch.ones_like(queries)
    with Largest() as largest:
        knn_predict(bank, torch.arange(5000) % classes, queries, k=k, metric=metric)
    assert 2**15 < largest.size <= 5000 * 2 * 8  # the bank itself; all pairs take 1 or 2 MB


def test_it_takes_at_most_the_whole_bank():
    bank, labels, queries = features(10), torch.arange(10) % 3, features(20)
    every = knn_predict(bank, labels, queries, k=10)
    assert torch.equal(knn_predict(bank, labels, queries, k=200), every)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("tau", [0.005, 1e-6, 1e-300])
def test_low_temperatures(metric, tau):
    bank, labels = 1e6 * features(60).float(), torch.randint(4, (60,))
    scores = knn_scores(bank, labels, bank, 4, k=10, tau=tau, metric=metric)
    assert scores.isfinite().all()
    assert torch.equal(scores.argmax(1), labels)  # the picture itself outweighs all others


def test_votes_too_small_for_a_number_still_rank():
    bank = torch.tensor([[1, 0], [1, 1], [0, 1], [-1, 1], [-1, 0], [-1, -2]]).float()
    query, truth = torch.tensor([[1.0, 0]]), torch.tensor([4])
    settings = KnnSettings(k=6, tau=1e-4)
    found = [
        knn(bank, labels, query, truth, settings, 6)[0]
        for labels in (torch.arange(6), torch.tensor([0, 1, 2, 3, 5, 4]))
    ]
    # Sixth of six classes, then fifth: all votes but the first are 0 in float32.
    assert found == [{"top1": 0, "top5": 0}, {"top1": 0, "top5": 1}]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("classes", [4, 5, 6, 12])
def test_top_1_and_top_5_are_scikit_learns(metric, classes):
    bank, queries = features(90), features(200)
    labels, truth = torch.arange(90) % classes, torch.arange(200) % classes
    theirs = scikit_learn(bank, labels, 90, 0.5, metric).predict_proba(queries.numpy())
    found = knn(bank, labels, queries, truth, KnnSettings(k=90, tau=0.5, metric=metric), classes)[0]
    tops = {"top1": 1, "top5": 5} if classes > 5 else {"top1": 1}
    assert found == {
        name: pytest.approx(top_k_accuracy_score(truth, theirs, k=n, labels=range(classes)))
        for name, n in tops.items()
    }


def test_a_class_without_a_vote_is_no_hit():
    bank, labels, queries = features(60), torch.arange(60) % 7, features(50)
    truth = torch.randint(7, (50,))
    found = knn(bank, labels, queries, truth, KnnSettings(k=1), classes=7)[0]
    assert found["top5"] == found["top1"] == knn_accuracy(bank, labels, queries, truth, k=1)
    assert 0 < found["top1"] < 1
    unseen, _ = knn(bank, labels, queries, torch.full((50,), 8), KnnSettings(k=1), classes=9)
    assert unseen == {"top1": 0, "top5": 0}


def test_equal_scores_stand_in_the_order_of_classes():
    bank, query = torch.ones(6, 2), torch.ones(6, 2)
    labels = torch.tensor([5, 4, 3, 2, 1, 0])
    found = knn(bank, labels, query, torch.arange(6), KnnSettings(k=200), classes=6)[0]
    assert found == {"top1": pytest.approx(1 / 6), "top5": pytest.approx(5 / 6)}


@pytest.mark.parametrize("offset", [0, 3000])
def test_euclidean_distances_of_long_features_keep_their_digits(offset):
    """Clusters far apart, each narrow: the terms of the distance are 10⁸ times as large as it."""
    centers = 1000 * torch.randn(5, 32) + offset
    bank = centers.repeat(40, 1) + 0.1 * torch.randn(200, 32)
    queries = centers.repeat(4, 1) + 0.1 * torch.randn(20, 32)
    labels = torch.randint(3, (200,))
    theirs = scikit_learn(bank.double(), labels, 15, 0.05, "euclidean")
    ours = knn_scores(bank, labels, queries, 3, k=15, tau=0.05, metric="euclidean")
    literal = np.zeros((20, 3))
    for i, x in enumerate(queries.double().numpy()):
        distance = ((bank.double().numpy() - x) ** 2).sum(1)
        for j in np.argsort(distance)[:15]:
            literal[i, labels[j]] += np.exp(-distance[j] / 2 / 0.05)
    literal /= literal.sum(1, keepdims=True)
    np.testing.assert_allclose(ours, literal, atol=1e-6)
    assert (ours.argmax(1).numpy() == theirs.predict(queries.double().numpy())).all()


def test_cosines_of_very_long_and_short_features():
    bank, labels, queries = features(60).float(), torch.randint(4, (60,)), features(30).float()
    plain = knn_scores(bank, labels, queries, 4, k=9)
    for scale in (1e30, 1e-30):
        scaled = knn_scores(bank * scale, labels, queries / scale, 4, k=9)
        torch.testing.assert_close(scaled, plain, rtol=1e-4, atol=1e-5)


def test_features_of_zeros_have_cosine_0():
    bank, labels = torch.tensor([[0.0, 0], [1, 0], [-1, 0]]), torch.arange(3)
    scores = knn_scores(bank, labels, torch.tensor([[2.0, 0], [0, 0]]), 3, k=3, tau=1.0)
    expected = torch.tensor([[0.0, 1, -1], [0, 0, 0]]).softmax(1)
    torch.testing.assert_close(scores, expected)


@pytest.mark.parametrize("metric", METRICS)
def test_low_precision_and_gradients(metric):
    bank, queries = features(60).bfloat16(), features(30).requires_grad_()
    labels = torch.randint(4, (60,))
    found = knn_scores(bank, labels, queries, 4, k=9, metric=metric)
    assert not found.requires_grad
    expected = knn_scores(bank.double(), labels, queries.detach(), 4, k=9, metric=metric)
    torch.testing.assert_close(found, expected)


def test_no_queries():
    bank, labels = features(10), torch.arange(10)
    assert knn_predict(bank, labels, bank[:0]).tolist() == []
    with pytest.raises(ValueError, match=r"0 features and truth of shape \(0,\)"):
        knn_accuracy(bank, labels, bank[:0], labels[:0])


@pytest.mark.parametrize("metric", METRICS)
def test_features_that_are_not_finite_are_an_error(metric):
    bank, labels = features(10), torch.arange(10)
    for bad in (math.nan, math.inf, -math.inf):
        broken = bank.clone()
        broken[[2, 7], 1] = bad
        with pytest.raises(ValueError, match="2 of 10 rows of bank hold NaN or infinity"):
            knn_predict(broken, labels, bank, metric=metric)
        with pytest.raises(ValueError, match="2 of 10 rows of queries hold NaN or infinity"):
            knn_predict(bank, labels, broken, metric=metric)


def test_it_says_what_is_wrong():
    bank, labels = features(10), torch.arange(10)
    with pytest.raises(ValueError, match=r"10 features and labels of shape \(9,\): give one"):
        knn_predict(bank, labels[:9], bank)
    with pytest.raises(ValueError, match="0 features and labels"):
        knn_predict(bank[:0], labels[:0], bank)
    with pytest.raises(ValueError, match=r"10 features and truth of shape \(9,\)"):
        knn_accuracy(bank, labels, bank, labels[:9])
    with pytest.raises(ValueError, match="features of 6 numbers and queries of 5"):
        knn_predict(bank, labels, bank[:, :5])
    with pytest.raises(ValueError, match=r"bank must be floating-point .* shape \(10, 6, 1\)"):
        knn_predict(bank[:, :, None], labels, bank)
    with pytest.raises(ValueError, match=r"queries must be floating-point .* got torch.int64"):
        knn_predict(bank, labels, bank.long())
    with pytest.raises(ValueError, match=r"\bblock\b.*\b0\b"):
        knn_predict(bank, labels, bank, block=0)
    with pytest.raises(ValueError, match="too large for float64: scale them down"):
        knn_predict(1e200 * bank, labels, bank, metric="euclidean")


def test_it_says_which_labels_are_wrong():
    bank, labels = features(10), torch.arange(10)
    settings = KnnSettings()
    for wrong in (labels - 1, labels + 1, labels.float()):
        with pytest.raises(ValueError, match="labels must be whole numbers from 0 to 9"):
            knn_scores(bank, wrong, bank, 10)
        with pytest.raises(ValueError, match="truth must be whole numbers from 0 to 9"):
            knn(bank, labels, bank, wrong, settings, 10)


def test_settings_say_what_is_wrong():
    assert KnnSettings(tau=math.inf).tau == math.inf
    with pytest.raises(ValueError, match=r"\bk\b.*\b0\b"):
        KnnSettings(k=0)
    for tau in (0, -1, math.nan, -math.inf):
        with pytest.raises(ValueError, match=r"tau must be a finite number above 0.* or inf"):
            KnnSettings(tau=tau)
    with pytest.raises(ValueError, match="metric must be one of 'cosine', 'euclidean'"):
        KnnSettings(metric="manhattan")
    with pytest.raises(ValueError, match=r"\btau\b.*\b0\b.*\binf\b"):
        knn_predict(features(3), torch.arange(3), features(3), tau=0)


@pytest.mark.parametrize(
    ("sizes", "k"),
    [
        ([1000] * 10, 200),
        ([60, 55, 50, 40, 30, 22, 15, 9, 4, 2], 22),
        ([1] * 5, 1),
        ([36] * 10, 36),
    ],
)
def test_k_is_the_median_size_of_classes_up_to_200(sizes, k):
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    assert default_k(labels) == k
    bank, queries, truth = features(len(labels)), features(30), torch.arange(30) % len(sizes)
    assert knn_accuracy(bank, labels, queries, truth) == knn_accuracy(
        bank, labels, queries, truth, k=k
    )


def test_small_classes_are_not_outvoted_by_default():
    """Two classes that features tell apart, one of them of 5 images."""
    labels = torch.tensor([0] * 5 + [1] * 5 + [2] * 200)
    centers = torch.eye(3)
    chance = torch.Generator().manual_seed(0)
    bank = centers[labels] + 0.1 * torch.randn(210, 3, generator=chance)
    queries = centers.repeat(10, 1) + 0.1 * torch.randn(30, 3, generator=chance)
    truth = torch.arange(3).repeat(10)
    assert knn_accuracy(bank, labels, queries, truth, tau=1.0) == 1
    assert knn_accuracy(bank, labels, queries, truth, k=200, tau=1.0) < 0.5
