"""NNCLR: neighbors from a queue, the published loss, and what enters the queue."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from amcl import functional
from amcl.methods import NNCLRSettings
from reference import contrastive as literal
from schemes import SCHEMES, items
from toy_methods import IMAGES, make, views


def outputs(method, x):
    """Projections and predictions of both views, (C, N, D)."""
    z = [method.project(view) for view in x]
    return *z, *(method.predictors(each) for each in z)


def double(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("max_pairs", [1, 40, 10**6])
def test_the_nearest_is_found_in_blocks_of_any_size(max_pairs):
    z, candidates = double(3, 7, 4), double(3, 9, 4) * torch.rand(3, 9, 1).double().exp() ** 3
    index = functional.nearest(z, candidates, max_pairs)
    for c in range(3):
        for i in range(7):
            expected = literal.nearest(z[c, i].tolist(), candidates[c].tolist())
            assert candidates[c, index[c, i]].tolist() == expected


def test_a_candidate_of_zeros_is_similar_to_nothing():
    candidates = torch.tensor([[[0.0, 0.0], [-1.0, 1.0], [1.0, 0.1]]])
    assert functional.nearest(torch.tensor([[[1.0, 0.0]]]), candidates).tolist() == [[2]]


@pytest.mark.parametrize("heads", [1, 3])
def test_the_loss_and_gradient_are_those_of_the_paper(heads):
    """½(L(NN₀, p₁) + L(NN₁, p₀)): logits of neighbors by rows, predictions by columns."""
    method, (x0, x1) = make("nnclr", heads=heads, tau=0.3), views()
    total = 0.0
    for c in range(heads):
        project, predict, queue = (
            method.heads.head(c),
            method.predictors.head(c),
            F.normalize(method.queue.z[c], dim=1),
        )
        z0, z1 = project(method.backbone(x0)), project(method.backbone(x1))
        for z, p in ((z0, predict(z1)), (z1, predict(z0))):
            near = queue[(F.normalize(z, dim=1) @ queue.T).argmax(1)]
            logits = near @ F.normalize(p, dim=1).T / 0.3
            total = total + 0.5 * F.cross_entropy(logits, torch.arange(IMAGES)) / heads
    loss = method([x0, x1])
    torch.testing.assert_close(loss, total, rtol=1e-10, atol=1e-12)
    weights = list(method.backbone.parameters())
    got, wanted = (torch.autograd.grad(value, weights) for value in (loss, total))
    for g, w in zip(got, wanted, strict=True):
        assert w.abs().max() > 0
        torch.testing.assert_close(g, w, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("form", ["softmax", "top_k"])
@pytest.mark.parametrize("scheme", ["constant", "adaptive", "first head", "constant positive"])
def test_it_agrees_with_loops(scheme, form):
    top_k = {"top_k": 2} if form == "top_k" else {}
    method, x = make("nnclr", heads=3, form=form, **top_k), views()
    method.loss.temperature = SCHEMES[scheme].make(5).double()
    method.loss.beta = 0.3
    expected = literal.nnclr(
        3,
        *(items(z, 0) for z in (*outputs(method, x), method.queue.z)),
        SCHEMES[scheme].on_samples(method.loss.temperature),
        "mean",
        form=form,
        kappa=top_k.get("top_k"),
        beta=0.3,
        prior_tau=0.1,
    )
    assert method(x).item() == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_gradients_are_those_of_differences():
    """Neighbors are fixed as long as no projection crosses over to another one."""
    method = make("nnclr", heads=2, temperature="adaptive", phi_output="plain")
    p0, p1 = (double(2, 4, 5).requires_grad_() for _ in range(2))
    near0, near1 = (method.queue.nearest(double(2, 4, 5)) for _ in range(2))

    def loss(p0, p1):
        return 0.5 * (method.loss(near0, p1) + method.loss(near1, p0))

    assert torch.autograd.gradcheck(loss, (p0, p1), fast_mode=True, atol=1e-7, rtol=1e-5)


def test_projections_of_the_first_view_enter_the_queue_after_the_step():
    method, (x0, x1) = make("nnclr", heads=2, queue=20), views()
    z0 = method.project(x0).detach()
    before = method.queue.z.clone()
    method([x0, x1]).backward()
    assert torch.equal(method.queue.z, before)  # parts of a step see one queue
    method([x1, x0])
    method.after_step()
    z1 = method.project(x1).detach()
    torch.testing.assert_close(method.queue.z[:, : 2 * IMAGES], torch.cat([z0, z1], dim=1))
    assert torch.equal(method.queue.z[:, 2 * IMAGES :], before[:, 2 * IMAGES :])
    method([x0, x1])
    method.after_step()
    assert method.queue.start == (3 * IMAGES) % 20  # what was pushed before is not pushed again


def test_nothing_is_kept_outside_of_training():
    method = make("nnclr", queue=IMAGES).eval()
    for _ in range(3):
        method(views())
    method.train()
    method(views())
    method.after_step()
    assert method.queue.start == 0  # the projections of one step went around once


def test_it_resumes_from_its_state_dict():
    method, again = make("nnclr", heads=2), make("nnclr", heads=2)
    method(views())
    method.after_step()
    assert {"queue.z", "queue.start"} <= method.state_dict().keys()
    again.load_state_dict(method.state_dict(), strict=True)
    x = views()
    losses = []
    for m in (method, again):
        first = m(x)
        m.after_step()
        losses.append((first, m(x)))
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)


def test_half_precision_finds_the_same_neighbors():
    method = make("nnclr", heads=1, queue=16).float()
    direction = torch.randn(5)
    with torch.no_grad():  # neighbors that bfloat16 does not tell apart
        method.queue.z.copy_(direction + 1e-3 * torch.randn(1, 16, 5))
    z = method.queue.z[:, [11, 3]] * 2
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(method._neighbors(z), method.queue.z[:, [11, 3]])


def test_heads_are_those_of_the_paper():
    settings = NNCLRSettings()
    assert (settings.projector, settings.predictor) == ((2048, 2048, 256), 4096)
    assert (settings.queue, settings.temperature.tau) == (98304, 0.1)
    method = make("nnclr", heads=2)
    projector, predictor = (list(part.head(0)) for part in (method.heads, method.predictors))
    hidden = [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert [type(layer) for layer in projector] == [*hidden, nn.BatchNorm1d]
    assert projector[-1].affine
    assert [type(layer) for layer in predictor] == hidden
    assert predictor[-1].bias is not None
