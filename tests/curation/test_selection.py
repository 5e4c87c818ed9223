"""What selections promise."""

import itertools

import pytest
import torch

from amcl.curation.clusters import hierarchy, kmeans
from amcl.curation.neighbors import unit_features
from amcl.curation.selection import RULES, select, share_evenly


def points(n, clusters=4, seed=0):
    """Unit vectors around well separated centers, whose clusters halve in size."""
    g = torch.Generator().manual_seed(seed)
    sizes = [n // 2 ** (i + 1) for i in range(clusters - 1)]
    sizes.append(n - sum(sizes))
    labels = torch.arange(clusters).repeat_interleave(torch.tensor(sizes))
    x = 5 * torch.eye(clusters, 8)[labels] + 0.3 * torch.randn(n, 8, generator=g)
    return unit_features(x), labels


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("count", [1, 7, 63, 64, 100])
def test_every_rule_selects_as_many_different_images(rule, count):
    x, _ = points(64)
    scores = {"typicality": torch.rand(64), "uncertainty": torch.rand(64)}
    selected = select(rule, count, x, **scores, seed=1)
    assert len(selected) == len(selected.unique()) == min(count, 64)
    assert torch.equal(selected, select(rule, count, x, **scores, seed=1))


def test_diverse_is_within_twice_the_optimum():
    x = unit_features(torch.randn(11, 3))
    angles = (x @ x.T).clamp(-1, 1).acos()  # a metric: the bound needs the triangle inequality

    def radius(chosen):
        return angles[:, list(chosen)].amin(1).max()

    best = min(radius(chosen) for chosen in itertools.combinations(range(11), 3))
    for seed in range(5):
        chosen = select("diverse", 3, x, typicality=torch.ones(11), seed=seed)
        assert radius(chosen.tolist()) <= 2 * best + 1e-4


def test_balanced_covers_clusters_evenly():
    x, labels = points(512)
    selected = select("balanced", 40, x, typicality=torch.ones(512))
    counts = labels[selected].bincount(minlength=4)
    assert counts.min() >= 4  # a share of 40 would be 20, 10, 5 and 5 at random
    assert counts.max() <= 16


def test_typical_takes_the_most_typical_of_each_cluster():
    x, labels = points(128)
    typicality = torch.rand(128)
    selected = select("typical", 4, x, typicality=typicality)
    assert sorted(labels[selected].tolist()) == [0, 1, 2, 3]
    for i in selected.tolist():
        assert typicality[i] == typicality[labels == labels[i]].max()


def test_uncertain_needs_uncertainties():
    x, _ = points(16)
    uncertainty = torch.rand(16)
    selected = select("uncertain", 3, x, typicality=torch.ones(16), uncertainty=uncertainty)
    assert torch.equal(selected, uncertainty.topk(3).indices)
    with pytest.raises(ValueError, match="--by diverse"):
        select("uncertain", 3, x, typicality=torch.ones(16))


def test_equal_features_can_be_clustered_and_selected():
    x = torch.ones(20, 1)
    labels, _ = kmeans(x, 5, torch.Generator().manual_seed(0))
    assert labels.shape == (20,)
    for rule in ("diverse", "typical", "balanced"):
        assert len(select(rule, 6, x, typicality=torch.ones(20)).unique()) == 6
    assert len(hierarchy(x, torch.Generator().manual_seed(0))[0]) == 20


def test_clusters_are_those_of_the_points():
    x, truth = points(256)
    labels, centers = kmeans(x, 4, torch.Generator().manual_seed(0))
    assert torch.equal(labels, (x @ centers.T).argmax(1))
    assert all(len(labels[truth == c].unique()) == 1 for c in range(4))


def test_shares_are_even_and_within_the_room():
    assert share_evenly(7, [3, 3, 3]) == [3, 2, 2]
    assert share_evenly(9, [1, 0, 8]) == [1, 0, 8]
    assert share_evenly(2, [5, 5, 5]) == [1, 1, 0]
