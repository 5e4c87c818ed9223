"""The agreement of heads and the penalty on it."""

import itertools

import pytest
import torch

import amcl
from amcl import functional as F
from amcl.temperature import AdaptiveTemperature, ConstantTemperature
from reference.agreement import agreement
from schemes import items

C, N, D = 3, 6, 4
TARGETS = torch.randn(2, N, D, dtype=torch.float64)
LOSSES = {
    "contrastive": lambda **options: amcl.ContrastiveLoss(
        C, AdaptiveTemperature(D).double(), beta=0.1, **options
    ),
    "queue": lambda **options: amcl.ContrastiveLoss(C, ConstantTemperature(), **options),
    "negative cosine": lambda **options: amcl.NegativeCosineLoss(
        C, ConstantTemperature(1.0), **options
    ),
    "cross-correlation": lambda **options: amcl.CrossCorrelationLoss(
        C, ConstantTemperature(1.0), **options
    ),
}


def views(shared=0.0):
    """Projections of two views, with a share that all heads have in common."""
    torch.manual_seed(1)
    z = torch.randn(2, C, N, D, dtype=torch.float64)
    z0, z1 = z + shared * torch.randn(2, 1, N, D, dtype=torch.float64)
    return z0.requires_grad_(), z1.requires_grad_()


def call(name, loss, z0, z1, **options):
    if name == "queue":
        return loss(z0, z1, torch.randn(C, 5, D, dtype=torch.float64), **options)
    return loss(z0, z1, *(TARGETS if name == "negative cosine" else ()), **options)


def mean_of_pairs(z0, z1):
    first, second = items(z0, 0), items(z1, 0)
    pairs = list(itertools.combinations(range(C), 2))
    return sum(agreement(first, second, c, d) for c, d in pairs) / len(pairs)


def test_agreement_is_the_correlation_of_similarities():
    z0, z1 = views()
    correlations = F.head_agreement(z0, z1)
    first, second = items(z0, 0), items(z1, 0)
    for c, d in itertools.product(range(C), repeat=2):
        expected = agreement(first, second, c, d)
        assert correlations[c, d].item() == pytest.approx(expected, rel=1e-10, abs=1e-10)
    mean = F.mean_agreement(correlations)
    assert mean.item() == pytest.approx(mean_of_pairs(z0, z1), rel=1e-10, abs=1e-10)
    assert torch.autograd.gradcheck(F.head_agreement, (z0, z1))


def test_sums_of_parts_are_those_of_the_whole():
    """What several processes add up: their sums of images, which need not be gathered."""
    z0, z1 = views()
    parts = []
    F.head_agreement(z0[:, :2], z1[:, :2], lambda sums: parts.append(sums) or sums)
    F.head_agreement(z0[:, 2:], z1[:, 2:], lambda sums: parts.append(sums) or sums)
    whole = F.head_agreement(z0[:, :2], z1[:, :2], lambda _: parts[0] + parts[1])
    torch.testing.assert_close(whole, F.head_agreement(z0, z1))


@pytest.mark.parametrize("name", LOSSES)
def test_the_penalty_is_the_positive_part_of_the_agreement(name):
    z0, z1 = views(shared=2.0)
    torch.manual_seed(5)
    plain = LOSSES[name]()
    diverse = LOSSES[name](head_diversity=0.7)
    diverse.load_state_dict(plain.state_dict())
    torch.manual_seed(2)
    value, stats = call(name, plain, z0, z1, return_stats=True)
    torch.manual_seed(2)
    penalized, terms = call(name, diverse, z0, z1, return_stats=True)
    expected = mean_of_pairs(z0, z1)
    assert expected > 0.05
    assert (penalized - value).item() == pytest.approx(0.7 * expected, rel=1e-8)
    assert stats.agreement.item() == pytest.approx(expected, rel=1e-8)
    assert terms.terms["diversity"].item() == pytest.approx(0.7 * expected, rel=1e-8)
    assert "diversity" not in stats.terms
    torch.testing.assert_close(sum(terms.terms.values()), penalized)
    assert terms.to_dict()["head_agreement"] == pytest.approx(expected, rel=1e-8)
    gradients = [torch.autograd.grad(x, z0, retain_graph=True)[0] for x in (value, penalized)]
    assert not torch.allclose(*gradients)


def test_heads_that_disagree_pay_nothing():
    z0, z1 = torch.randn(2, 1, N, D, dtype=torch.float64)
    z0 = torch.cat([z0, z0]).requires_grad_()
    z1 = torch.cat([z1, -z1])
    values = [
        amcl.ContrastiveLoss(2, ConstantTemperature(), head_diversity=weight)(z0, z1)
        for weight in (0.0, 1.0)
    ]
    torch.testing.assert_close(*values)


def test_one_head_has_no_agreement():
    z0, z1 = torch.randn(2, 1, N, D)
    _, stats = amcl.ContrastiveLoss(1, ConstantTemperature())(z0, z1, return_stats=True)
    assert stats.agreement is None
    assert "head_agreement" not in stats.to_dict()


def test_the_penalty_makes_heads_differ():
    """Three heads, trained by the penalty alone, stop agreeing."""
    torch.manual_seed(0)
    features = torch.randn(32, 4) @ torch.randn(4, 16)
    heads = amcl.ProjectionHeads(16, 32, 8, num_heads=3)
    optimizer = torch.optim.Adam(heads.parameters(), lr=0.01)
    history = []
    for _ in range(60):
        z = heads(features)
        value = F.mean_agreement(F.head_agreement(z, heads(features + 0.1)))
        history.append(value.item())
        optimizer.zero_grad()
        value.relu().backward()
        optimizer.step()
    assert history[0] > 0.3
    assert history[-1] < 0.05
