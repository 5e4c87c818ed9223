"""What a loss tells of itself is what its pairs are, costs nothing unless asked, and helps."""

import re
from inspect import signature

import pytest
import torch
import torch.nn.functional as F

import amcl
from amcl.cli.known_options import KNOWN
from amcl.functional import omega, sigma
from amcl.losses.statistics import PairStats
from amcl.temperature import AdaptiveTemperature, ConstantTemperature
from schemes import ON_CHANNELS, SCHEMES, projections

LOSSES = {
    "softmax": lambda t: amcl.ContrastiveLoss(2, t, beta=0.3),
    "top_k": lambda t: amcl.ContrastiveLoss(2, t, beta=0.3, form="top_k", top_k=3),
    "set form of Ω": lambda t: amcl.ContrastiveLoss(
        2, t, beta=0.3, form="top_k", top_k=3, omega_set="literal", head_reduction="sum"
    ),
    "top_k_softmax": lambda t: amcl.ContrastiveLoss(2, t, beta=0.3, form="top_k_softmax", top_k=3),
    "relative": lambda t: amcl.ContrastiveLoss(2, t, beta=0.3, similarity="relative"),
    "Ω outside": lambda t: amcl.ContrastiveLoss(2, t, beta=0.3, omega_place="outside"),
    "dclw": lambda t: amcl.ContrastiveLoss(2, t, beta=0.3, form="dclw"),
    "dclw, Ω outside": lambda t: amcl.ContrastiveLoss(
        2, t, beta=0.3, form="dclw", omega_place="outside"
    ),
    "hard": lambda t: amcl.ContrastiveLoss(2, t, beta=0.3, form="hard"),
    "hard, Ω outside": lambda t: amcl.ContrastiveLoss(
        2, t, beta=0.3, form="hard", omega_place="outside"
    ),
    "sigmoid": lambda t: amcl.ContrastiveLoss(2, t, beta=0.3, form="sigmoid"),
    "sigmoid, Ω outside": lambda t: amcl.ContrastiveLoss(
        2, t, beta=0.3, form="sigmoid", omega_place="outside"
    ),
    "cross_correlation": lambda t: amcl.CrossCorrelationLoss(2, t, beta=0.3),
    "negative_cosine": lambda t: amcl.NegativeCosineLoss(2, t, beta=0.3),
    "supervised": lambda t: amcl.SupervisedContrastiveLoss(2, t, beta=0.3),
    "VICReg": lambda t: amcl.VICRegLoss(2, t, beta=0.3),
}


def call(loss, temperature, **options):
    z0, z1 = projections(temperature, (2, 5, 4), (2, 5, 4))
    targets = ()
    if isinstance(loss, amcl.NegativeCosineLoss):
        targets = torch.randn(2, 5, 4, dtype=torch.float64).unbind(0)
    if isinstance(loss, amcl.SupervisedContrastiveLoss):
        targets = (torch.tensor([0, 1, 0, 2, 0]),)
    return loss(z0, z1, *targets, **options)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_terms_sum_to_the_loss(name, scheme):
    if name == "cross_correlation" and scheme not in ON_CHANNELS:
        pytest.skip("channels have no temperatures by this scheme")
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


def test_statistics_of_supervised_pairs_follow_the_labels():
    c, n, d = 2, 5, 4
    temperature = AdaptiveTemperature(d, phi_output="plain").double()
    z0, z1 = torch.randn(2, c, n, d, dtype=torch.float64)
    labels = torch.tensor([0, 1, 0, 2, 0])
    loss = amcl.SupervisedContrastiveLoss(c, temperature, beta=0.3, max_pairs=25)
    _, stats = loss(z0, z1, labels, return_stats=True)
    z = F.normalize(torch.cat([z0, z1], dim=1), dim=-1)
    keys = temperature.phi(z)
    s, tau = z @ z.mT, sigma(keys @ keys.mT, temperature.eta, temperature.iota)
    same = labels.repeat(2)[:, None] == labels.repeat(2)
    positive = same & ~torch.eye(2 * n, dtype=torch.bool)
    for mask, found in ((positive, stats.positive), (~same, stats.negative)):
        for head in range(c):
            assert found.count[head] == mask.sum()
            torch.testing.assert_close(found.s[head], s[head][mask].mean())
            torch.testing.assert_close(found.tau[head], tau[head][mask].mean())


def test_statistics_are_those_of_all_pairs():
    c, n, d = 2, 5, 4
    temperature = AdaptiveTemperature(d, phi_output="plain").double()
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


@pytest.mark.parametrize(
    "name", ["softmax", "top_k", "dclw", "hard", "sigmoid", "cross_correlation"]
)
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
    tau = torch.tensor([[[0.1, 0.105, 0.5, 1.095]]])
    stats = PairStats.of(torch.zeros(1, 1, 4), tau, None, (0.1, 1.1))
    assert stats.at_lower.item() == 0.5
    assert stats.at_upper.item() == 0.25
    ignored = torch.tensor([[True, False, False, False]])
    stats = PairStats.of(torch.zeros(1, 1, 4), tau, ignored, (0.1, 1.1))
    assert stats.at_lower.item() == pytest.approx(1 / 3)
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
    (line,) = (line for line in collapsed.advice() if "nearly all alike" in line)
    assert "last_norm='plain'" in line


def test_advice_names_settings_that_exist():
    """Python names are those of the losses and heads; options are those of `amcl pretrain`."""
    options = (KNOWN / "simclr.txt").read_text(encoding="utf-8")
    python = {*signature(AdaptiveTemperature).parameters} | {
        *signature(amcl.AMCLLoss).parameters,
        *signature(amcl.ProjectionHeads).parameters,
    }
    ones, zeros = torch.ones(3), torch.zeros(3)
    broken = stats_with(at_lower=ones, at_upper=ones, s=ones)
    broken.terms["positive"] = torch.tensor(torch.nan)
    advice = "\n".join([*broken.advice(), *stats_with(tau_std=zeros).advice()])
    named = set(re.findall(r"--[a-z-]+", advice))
    assert named >= {"--tau", "--tau-lower", "--phi-scale", "--projector-last-norm", "--lr"}
    assert all(re.search(rf"^{name}\b", options, re.MULTILINE) for name in named)
    words = set(re.findall(r"\b[a-z]+_[a-z]+\b", advice)) | {"eta"}
    assert words <= python


def test_one_collapsed_head_is_named():

    one_bad = torch.randn(3, 6, 4)
    one_bad[1] = 1.0
    _, collapsed = amcl.AMCLLoss(3, 4)(one_bad, one_bad, return_stats=True)
    assert [line for line in collapsed.advice() if "mean s⁻ of head 2 is 1.000" in line]


def stats_with(**shares):
    zeros = torch.zeros(3)
    fields = {"at_lower": zeros, "at_upper": zeros, **shares}
    std = fields.pop("tau_std", zeros + 0.05)
    pairs = PairStats(zeros + 1, fields.pop("s", zeros), zeros + 0.1, std.square(), **fields)
    return amcl.LossStats(pairs, pairs, {"positive": torch.tensor(1.0)})


@pytest.mark.parametrize(
    ("shares", "lines"),
    [
        (
            {"at_lower": torch.tensor([0.2, 0.95, 0.1])},
            ["positive.*head 2.*lower.*raise the temp.*prior_tau; --tau"],
        ),
        (
            {"at_upper": torch.tensor([0.2, 0.1, 0.95])},
            ["positive.*head 3.*upper.*lower the temp.*prior_tau"],
        ),
        ({"at_lower": torch.full((3,), 0.89), "at_upper": torch.full((3,), 0.89)}, []),
        ({"s": torch.tensor([0.1, 0.1, 0.96])}, ["head 3 is 0.960"]),
        ({"s": torch.tensor([0.94, 0.94, 0.94])}, []),
        (
            {"tau_std": torch.full((3,), 0.0009)},
            ["same temperature, 0.1. .*too alike.*φ has shrunk.*centered"],
        ),
        ({"tau_std": torch.tensor([0.0009, 0.0011, 0.0009])}, []),
        ({"tau_std": torch.zeros(3), "at_lower": None, "at_upper": None}, []),
    ],
)
def test_advice_thresholds(shares, lines):
    advice = stats_with(**shares).advice()
    assert bool(advice) == bool(lines)
    for line in lines:
        assert re.search(line, advice[0])


def test_phi_that_is_0_is_told():
    z0, z1 = torch.randn(2, 3, 6, 4)
    criterion = amcl.AMCLLoss(3, 4)
    torch.nn.init.zeros_(criterion.temperature.phi[0].weight)
    torch.nn.init.zeros_(criterion.temperature.phi[0].bias)
    loss, stats = criterion(z0, z1, return_stats=True)
    assert "φ has shrunk to 0" in stats.advice()[0]
    loss.backward()  # and it stays there
    assert not criterion.temperature.phi[0].weight.grad.any()


def test_a_term_that_is_not_finite_is_named():
    healthy = stats_with()
    assert healthy.advice() == []
    terms = {"positive": torch.tensor(torch.nan)}
    broken = amcl.LossStats(healthy.positive, healthy.negative, terms)
    assert "not finite" in broken.advice()[0]


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("form", [{}, {"form": "top_k", "top_k": 3}])
def test_each_term_is_what_its_name_says(form, inside):
    temperature = AdaptiveTemperature(4, phi_output="plain").double()
    loss = amcl.ContrastiveLoss(2, temperature, beta=0.3, positive_in_denominator=inside, **form)
    z0, z1, queue = torch.randn(3, 2, 5, 4, dtype=torch.float64)
    _, stats = loss(z0, z1, queue, return_stats=True)
    z0, z1, queue = (F.normalize(z, dim=-1) for z in (z0, z1, queue))
    keys = [temperature.phi(z) for z in (z0, z1, queue)]
    tau = sigma((keys[0] * keys[1]).sum(-1), temperature.eta, temperature.iota)
    s = (z0 * z1).sum(-1)
    torch.testing.assert_close(stats.terms["positive"], (-s / tau).mean())
    torch.testing.assert_close(stats.terms["omega_positive"], 0.3 * omega(tau, 0.1).mean())
    if form and not inside:
        s_neg = z0 @ queue.mT
        tau_neg = sigma(keys[0] @ keys[2].mT, temperature.eta, temperature.iota)
        top = s_neg.topk(3, dim=-1).indices
        s_neg, tau_neg = s_neg.gather(-1, top), tau_neg.gather(-1, top)
        torch.testing.assert_close(stats.terms["negative"], (s_neg / tau_neg).mean())
        torch.testing.assert_close(stats.terms["omega_negative"], -0.3 * omega(tau_neg, 0.1).mean())


def test_shares_at_the_bounds_of_saturated_temperatures_survive_blocks():
    temperature = AdaptiveTemperature(4, phi_output="plain").double()
    with torch.no_grad():
        temperature.phi[0].weight.mul_(20.0)
    loss = amcl.ContrastiveLoss(2, temperature)
    z0, z1 = torch.randn(2, 2, 6, 4, dtype=torch.float64)
    _, plain = loss(z0, z1, return_stats=True)
    assert (plain.negative.at_lower > 0.1).all()
    assert (plain.negative.at_upper > 0.1).all()
    loss.max_pairs = 30
    _, blocked = loss(z0, z1, return_stats=True)
    assert blocked.to_dict() == pytest.approx(plain.to_dict(), rel=1e-10)
