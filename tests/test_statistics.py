"""What a loss tells of itself is what its pairs are, costs nothing unless asked, and helps."""

import pytest
import torch
import torch.nn.functional as F

import amcl
from amcl.functional import sigma
from amcl.losses.statistics import PairStats
from amcl.temperature import AdaptiveTemperature, ConstantTemperature, LearnableTemperature
from schemes import SCHEMES, projections

LOSSES = {
    "softmax": lambda t: amcl.ContrastiveLoss(2, t, beta=0.3),
    "top_k": lambda t: amcl.ContrastiveLoss(2, t, beta=0.3, form="top_k", top_k=3),
    "set form of Ω": lambda t: amcl.ContrastiveLoss(
        2, t, beta=0.3, form="top_k", top_k=3, omega_set="literal", head_reduction="sum"
    ),
    "top_k_softmax": lambda t: amcl.ContrastiveLoss(2, t, beta=0.3, form="top_k_softmax", top_k=3),
    "cross_correlation": lambda t: amcl.CrossCorrelationLoss(2, t, beta=0.3),
    "negative_cosine": lambda t: amcl.NegativeCosineLoss(2, t, beta=0.3),
}


def call(loss, temperature, **options):
    z0, z1 = projections(temperature, (2, 5, 4), (2, 5, 4))
    targets = ()
    if isinstance(loss, amcl.NegativeCosineLoss):
        targets = torch.randn(2, 5, 4, dtype=torch.float64).unbind(0)
    return loss(z0, z1, *targets, **options)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_terms_sum_to_the_loss(name, scheme):
    temperature = SCHEMES[scheme].make(4).double()
    value, stats = call(LOSSES[name](temperature), temperature, return_stats=True)
    torch.testing.assert_close(sum(stats.terms.values()), value)
    assert all(not term.requires_grad for term in stats.terms.values())


@pytest.mark.parametrize("name", LOSSES)
def test_asking_does_not_change_the_loss_and_not_asking_computes_nothing(name, monkeypatch):
    temperature = AdaptiveTemperature(4).double()
    loss = LOSSES[name](temperature)
    torch.manual_seed(1)
    value, _ = call(loss, temperature, return_stats=True)

    def forbidden(*args):
        raise AssertionError("statistics were computed though nobody asked")

    monkeypatch.setattr(PairStats, "of", forbidden)
    torch.manual_seed(1)
    assert call(loss, temperature) == value


def test_statistics_are_those_of_all_pairs():
    c, n, d = 2, 5, 4
    temperature = AdaptiveTemperature(d).double()
    z0, z1 = torch.randn(2, c, n, d, dtype=torch.float64)
    _, stats = amcl.ContrastiveLoss(c, temperature, beta=0.3)(z0, z1, return_stats=True)
    z = F.normalize(torch.cat([z0, z1], dim=1), dim=-1)
    keys = temperature.phi(z)
    s, tau = z @ z.mT, sigma(keys @ keys.mT, temperature.eta, temperature.iota)
    index = torch.arange(2 * n)
    positive = torch.zeros(2 * n, 2 * n, dtype=torch.bool)
    positive[index, index.roll(n)] = True
    negative = ~positive & ~torch.eye(2 * n, dtype=torch.bool)
    for mask, found in ((positive, stats.positive), (negative, stats.negative)):
        for head in range(c):
            assert found.count[head] == mask.sum()
            torch.testing.assert_close(found.s[head], s[head][mask].mean())
            torch.testing.assert_close(found.tau[head], tau[head][mask].mean())
            torch.testing.assert_close(found.tau_std[head], tau[head][mask].std(correction=0))


def test_top_k_statistics_are_those_of_the_chosen_negatives():
    z0, z1 = torch.randn(2, 1, 6, 4)
    loss = amcl.ContrastiveLoss(
        1, ConstantTemperature(0.2), form="top_k", top_k=2, positive_in_denominator=False
    )
    _, stats = loss(z0, z1, return_stats=True)
    z = F.normalize(torch.cat([z0[0], z1[0]]), dim=1)
    s = z @ z.T
    index = torch.arange(12)
    s[index, index] = s[index, index.roll(6)] = -1.0
    assert stats.negative.count.item() == 24
    torch.testing.assert_close(stats.negative.s[0], s.topk(2, dim=1).values.mean())
    torch.testing.assert_close(stats.negative.tau[0], torch.tensor(0.2))


def test_a_positive_that_wins_a_place_is_not_counted_as_negative():
    z = F.one_hot(torch.arange(4)).float().unsqueeze(0)  # views agree, images are orthogonal
    loss = amcl.ContrastiveLoss(1, ConstantTemperature(0.2), form="top_k", top_k=2)
    _, stats = loss(z, z, return_stats=True)
    assert stats.negative.count.item() == 8
    assert stats.negative.s.item() == 0.0


@pytest.mark.parametrize("name", ["softmax", "top_k", "cross_correlation"])
def test_blocks_give_the_same_statistics(name):
    temperature = AdaptiveTemperature(4).double()
    loss = LOSSES[name](temperature)
    torch.manual_seed(1)
    _, plain = call(loss, temperature, return_stats=True)
    loss.max_pairs = 25
    torch.manual_seed(1)
    _, blocked = call(loss, temperature, return_stats=True)
    assert blocked.to_dict() == pytest.approx(plain.to_dict(), rel=1e-10)


def test_shares_at_the_bounds():
    tau = torch.tensor([[[0.1, 0.105, 0.5, 1.1]]])
    stats = PairStats.of(torch.zeros(1, 1, 4), tau, None, (0.1, 1.1))
    assert stats.at_lower.item() == 0.5
    assert stats.at_upper.item() == 0.25
    unbounded = PairStats.of(torch.zeros(1, 1, 4), tau, None, None)
    assert unbounded.at_lower is None


def test_log_entries():
    z0, z1 = torch.randn(2, 3, 6, 4)
    _, stats = amcl.AMCLLoss(3, 4)(z0, z1, return_stats=True)
    log = stats.to_dict()
    assert {"term/positive", "term/negative", "term/omega_positive"} <= log.keys()
    assert {f"tau_negative/head{c}" for c in (1, 2, 3)} <= log.keys()
    assert {"at_lower_positive/head1", "s_positive/head2", "tau_std_positive/head3"} <= log.keys()
    _, stats = amcl.ContrastiveLoss(3, ConstantTemperature())(z0, z1, return_stats=True)
    assert not any(key.startswith("at_") for key in stats.to_dict())


def test_advice():
    z0, z1 = torch.randn(2, 3, 6, 4)
    _, healthy = amcl.AMCLLoss(3, 4)(z0, z1, return_stats=True)
    assert healthy.advice() == []

    same = torch.ones(3, 6, 4) + 1e-3 * torch.randn(3, 6, 4)
    _, collapsed = amcl.AMCLLoss(3, 4)(same, same, return_stats=True)
    assert any("collapsed" in line and "form='softmax'" in line for line in collapsed.advice())

    loss = amcl.ContrastiveLoss(3, LearnableTemperature(init=0.01))
    _, floored = loss(z0, z1, return_stats=True)
    assert len(floored.advice()) == 2
    assert "100% of the positive temperatures lie at the lower bound" in floored.advice()[0]

    _, _, terms = healthy.positive, healthy.negative, {"positive": torch.tensor(torch.nan)}
    broken = amcl.LossStats(healthy.positive, healthy.negative, terms)
    assert any("not finite" in line for line in broken.advice())
