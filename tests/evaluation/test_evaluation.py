"""kNN against scikit-learn, spread and effective rank against numpy, the taking of features."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from amcl.evaluation import effective_rank, extract, knn_accuracy, knn_predict, spread


def features(n, d=6):
    return torch.randn(n, d, dtype=torch.float64) * torch.rand(n, 1, dtype=torch.float64)


@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("tau", [0.07, 0.5])
@pytest.mark.parametrize("block", [1024, 7])
def test_knn_is_scikit_learns_with_exponential_weights(k, tau, block):
    bank, queries = features(80), features(50)
    labels = torch.tensor([3, 17, -1, 100])[torch.randint(4, (80,))]
    theirs = KNeighborsClassifier(
        k, metric="cosine", algorithm="brute", weights=lambda d: np.exp((1 - d) / tau)
    )
    theirs.fit(bank.numpy(), labels.numpy())
    expected = theirs.predict(queries.numpy())
    predicted = knn_predict(bank, labels, queries, k=k, tau=tau, block=block)
    assert predicted.tolist() == expected.tolist()
    assert len(set(expected.tolist())) > 1
    truth = torch.tensor([3, 17, -1, 100])[torch.randint(4, (50,))]
    assert knn_accuracy(bank, labels, queries, truth, k=k, tau=tau) == pytest.approx(
        theirs.score(queries.numpy(), truth.numpy())
    )


def test_knn_takes_at_most_the_whole_bank():
    bank, labels, queries = features(10), torch.arange(10) % 3, features(20)
    every = knn_predict(bank, labels, queries, k=10)
    assert torch.equal(knn_predict(bank, labels, queries, k=200), every)


def test_knn_holds_at_low_temperatures():
    bank, labels = features(60).float(), torch.randint(4, (60,))
    predicted = knn_predict(bank, labels, bank, k=10, tau=0.005)
    assert torch.equal(predicted, labels)  # the picture itself outweighs all others


def test_knn_says_what_is_wrong():
    bank, labels = features(10), torch.arange(10)
    with pytest.raises(ValueError, match="10 features and 9 labels: give as many"):
        knn_predict(bank, labels[:9], bank)
    with pytest.raises(ValueError, match="0 features and 0 labels"):
        knn_predict(bank[:0], labels[:0], bank)
    with pytest.raises(ValueError, match="k must be a whole number"):
        knn_predict(bank, labels, bank, k=0)
    with pytest.raises(ValueError, match="tau must be a finite number above 0"):
        knn_predict(bank, labels, bank, tau=0)


def test_spread_is_that_of_the_mean_cosine():
    x = features(30) + 0.3
    unit = x.numpy() / np.linalg.norm(x.numpy(), axis=1, keepdims=True)
    cosines = (unit @ unit.T)[~np.eye(30, dtype=bool)]
    assert spread(x) == pytest.approx(np.sqrt(1 - cosines.mean()), rel=1e-12)
    assert spread(5 * x) == pytest.approx(spread(x))


def test_spread_at_its_ends():
    direction = torch.randn(8)
    assert spread(torch.rand(20, 1).add(0.1) * direction) == pytest.approx(0, abs=1e-3)
    assert spread(torch.eye(8)) == pytest.approx(1)
    assert spread(torch.eye(8, dtype=torch.float16)) == pytest.approx(1)


def test_dead_features_are_collapsed():
    assert spread(torch.zeros(20, 8)) == 0


def test_effective_rank_is_the_entropy_of_singular_values():
    x = features(30)
    values = np.linalg.svd(x.numpy(), compute_uv=False)
    p = values / values.sum()
    assert effective_rank(x) == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-12)
    assert effective_rank(torch.eye(7)) == pytest.approx(7)
    assert effective_rank(torch.ones(20, 7)) == pytest.approx(1, abs=1e-3)
    assert effective_rank(torch.zeros(20, 7)) == pytest.approx(1)


def model():
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(12), nn.Dropout(0.5), nn.Linear(12, 5))


@pytest.mark.parametrize("training", [True, False])
def test_features_are_taken_in_evaluation_mode_and_in_order(training):
    net = model().train(training)
    images = torch.randint(256, (10, 3, 2, 2), dtype=torch.uint8)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = extract(net, images.split(4), lambda batch: batch.float() / 255)
    assert net.training == training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert not found.requires_grad
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, net.eval()(images.float() / 255).detach())


def test_features_of_a_lower_precision_come_in_float32():
    images = torch.rand(4, 3, 2, 2)
    net = nn.Flatten()
    found = extract(net, [images], lambda batch: batch.bfloat16())
    assert found.dtype == torch.float32
    assert torch.equal(found, images.flatten(1).bfloat16().float())


def test_the_mode_is_put_back_after_an_error():
    net = model().train()
    with pytest.raises(RuntimeError):
        extract(net, [torch.rand(4, 3, 3, 3)], lambda batch: batch)
    assert net.training


def test_no_images_is_an_error():
    with pytest.raises(ValueError, match="no images to take features of"):
        extract(model(), [], lambda batch: batch)
