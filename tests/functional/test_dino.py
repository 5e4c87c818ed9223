"""DINO's loss against its literal form, to 1e-10 in float64, and gradcheck."""

import itertools

import pytest
import torch

import amcl
from amcl import functional as F
from amcl.temperature import AdaptiveTemperature, ConstantTemperature
from functional.test_equations import OMEGAS, check_gradients, close, reference_options
from reference import dino as reference
from schemes import PAIR_BY_PAIR, SCHEMES, WITH_GRADIENT, items, projections

K, TAU = 7, 0.06
SIZES = [((1, 2, 3), 2, "mean"), ((3, 4, 5), 4, "sum"), ((2, 5, 3), 3, "mean")]


def make(scheme, d, c=2, **options):
    loss = amcl.DINOLoss(
        c,
        scheme.make(d).double(),
        num_prototypes=K,
        teacher_tau=TAU,
        teacher_tau_warmup=0,
        **options,
    ).double()
    if loss.center is not None:
        loss.center.copy_(0.3 * torch.randn_like(loss.center))
    return loss


def batch(loss, c, n, d, views):
    """Views of the student, two of the teacher, and the prototypes of both."""
    student = torch.stack(projections(loss.temperature, *[(c, n, d)] * views)).detach()
    width = d + loss.temperature.extra_outputs
    teacher = torch.randn(2, c, n, width, dtype=torch.float64)
    prototypes, of_teacher = F.unit(torch.randn(2, c, K, d, dtype=torch.float64))
    return student.requires_grad_(), teacher, prototypes.requires_grad_(), of_teacher


def from_mean(z, d):
    """Unit vectors less their mean, beside the extra outputs."""
    units = F.unit(z[..., :d])
    return torch.cat([units - units.mean(1, keepdim=True), z[..., d:]], dim=-1)


@pytest.mark.parametrize("centering", ["center", "sinkhorn"])
@pytest.mark.parametrize("scheme_name", PAIR_BY_PAIR)
def test_dino(scheme_name, centering):
    scheme = SCHEMES[scheme_name]
    for ((c, n, d), views, reduction), (beta, prior_tau) in itertools.product(SIZES, OMEGAS):
        options = {"beta": beta, "prior_tau": prior_tau, "head_reduction": reduction}
        loss = make(scheme, d, c, centering=centering, **options)
        student, teacher, prototypes, of_teacher = batch(loss, c, n, d, views)
        extra = loss.temperature.extra_outputs

        def targets(head, rows, loss=loss):
            if loss.center is None:
                return reference.sinkhorn(rows, TAU, iterations=3)
            return reference.centered(rows, loss.center[head, 0].tolist(), TAU)

        expected = reference.dino(
            c,
            [items(z, extra) for z in student],
            [items(z, extra) for z in teacher],
            [items(from_mean(z, d), extra) for z in student],
            [items(from_mean(z, d), extra) for z in teacher],
            prototypes.tolist(),
            of_teacher.tolist(),
            targets,
            scheme.on_samples(loss.temperature),
            reduction,
            **reference_options({}, beta, prior_tau, d),
        )
        close(loss(student, teacher, prototypes, of_teacher), expected)


@pytest.mark.parametrize("scheme_name", WITH_GRADIENT)
def test_dino_gradients(scheme_name):
    loss = make(SCHEMES[scheme_name], 3, beta=0.3)
    check_gradients(loss, *batch(loss, 2, 4, 3, views=3))


def test_dino_stops_the_gradient_at_the_teacher_but_trains_phi():
    loss = amcl.DINOLoss(2, AdaptiveTemperature(3), num_prototypes=K, beta=0.3)
    student, teacher = torch.randn(2, 2, 4, 3), torch.randn(2, 2, 4, 3, requires_grad=True)
    prototypes = torch.randn(2, K, 3)
    of_teacher = torch.randn(2, K, 3, requires_grad=True)
    loss(student, teacher, prototypes, of_teacher).backward()
    assert all(p.grad.abs().sum() > 0 for p in loss.parameters())
    assert teacher.grad is None
    assert of_teacher.grad is None


def test_sinkhorn_gives_each_image_and_each_prototype_its_share():
    q = F.sinkhorn_targets(torch.randn(2, 12, 4, dtype=torch.float64), tau=0.5, iterations=200)
    torch.testing.assert_close(q.sum(-1), torch.ones(2, 12, dtype=torch.float64))
    torch.testing.assert_close(q.sum(1), torch.full((2, 4), 3.0, dtype=torch.float64))


def test_sinkhorn_does_not_overflow_at_a_low_temperature():
    q = F.sinkhorn_targets(torch.randn(1, 6, 4), tau=1e-3)
    assert torch.isfinite(q).all()


def test_the_best_tau_of_a_pair_matches_the_mean_of_s_and_lies_inside():
    """Without Ω: the derivative in τ is zero where the means of s under softmax and q agree."""
    s = torch.tensor([[0.9, 0.4, -0.2, -0.5]], dtype=torch.float64)
    q = torch.tensor([[0.7, 0.2, 0.1, 0.0]], dtype=torch.float64)
    taus = torch.linspace(0.02, 3.0, 20001, dtype=torch.float64).view(-1, 1, 1)
    losses = F.prototype_cross_entropy(s, q, taus)
    best = taus[losses.argmin()].squeeze()
    assert 0.1 < best < 2.0
    under_softmax = ((s / best).softmax(-1) * s).sum()
    torch.testing.assert_close(under_softmax, (q * s).sum(), rtol=1e-3, atol=1e-4)
    assert (losses >= torch.special.entr(q).sum()).all()


def test_one_head_and_a_constant_temperature_is_dino_of_the_original():
    """The loss as the original repository computes it: chunks of views, a pair at a time."""
    loss = make(SCHEMES["constant"], 5, c=1)
    student, teacher, prototypes, of_teacher = batch(loss, 1, 6, 5, views=5)
    logits = [F.unit(z[0]) @ prototypes[0].T for z in student]
    terms = []
    for t, z in enumerate(teacher):
        q = ((F.unit(z[0]) @ of_teacher[0].T - loss.center[0]) / TAU).softmax(-1)
        for v, s in enumerate(logits):
            if v != t:
                terms.append((-q * (s / 0.3).log_softmax(-1)).sum(-1).mean())
    expected = torch.stack(terms).mean()
    value = loss(student, teacher, prototypes, of_teacher)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    assert isinstance(loss.temperature, ConstantTemperature)
    inputs = (student, prototypes)
    for got, wanted in zip(
        torch.autograd.grad(value, inputs), torch.autograd.grad(expected, inputs), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)


def test_the_alignment_of_the_batch_is_that_of_all_pairs_of_views():
    loss = make(SCHEMES["MACL"], 5, c=1)
    student, teacher, prototypes, of_teacher = batch(loss, 1, 4, 5, views=3)
    _, stats = loss(student, teacher, prototypes, of_teacher, return_stats=True)
    pairs = [(v, t) for v in range(3) for t in range(2) if v != t]
    student, teacher = (
        F.unit(F.unit(z) - F.unit(z).mean(2, keepdim=True)) for z in (student, teacher)
    )
    cosines = [F.paired(student[v], teacher[t]).mean() for v, t in pairs]
    alignment = torch.stack(cosines).mean().item()
    assert stats.positive.tau.item() == pytest.approx(0.2 * (1 + 0.5 * (alignment - 0.1)))
