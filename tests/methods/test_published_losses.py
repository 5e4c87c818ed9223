"""Each method without AMCL is the published loss."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from toy_methods import (
    IMAGES,
    make,
    part_encoders,
    views,
)


def singles(heads):
    return [heads.head(c) for c in range(heads.num_heads)]


def nt_xent(z0, z1, tau):
    """SimCLR: each of 2N views finds its partner among the 2N − 1 others."""
    z = F.normalize(torch.cat([z0, z1]), dim=1)
    logits = (z @ z.T / tau).fill_diagonal_(-math.inf)
    return F.cross_entropy(logits, torch.arange(2 * IMAGES).roll(IMAGES))


def info_nce(q, k, queue, tau):
    """MoCo: each query finds its key among it and the queue."""
    q, k, queue = (F.normalize(x, dim=1) for x in (q, k, queue))
    logits = torch.cat([(q * k).sum(1, keepdim=True), q @ queue.T], dim=1) / tau
    return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


def batch_info_nce(q, k, tau):
    """MoCo v3: each query finds its key among the batch's keys."""
    logits = F.normalize(q, dim=1) @ F.normalize(k, dim=1).T / tau
    return F.cross_entropy(logits, torch.arange(len(q)))


def barlow_twins(z0, z1, lam):
    norm = nn.BatchNorm1d(z0.shape[1], affine=False).double()
    c = norm(z0).T @ norm(z1) / len(z0)
    off = c - torch.diag(c.diagonal())
    return (c.diagonal() - 1).square().sum() + lam * off.square().sum()


def assert_same_loss_and_gradient(method, loss, expected):
    """`expected` is a function of the weights of backbone alone, whose gradient is compared."""
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-12)
    weights = list(method.backbone.parameters())
    got = torch.autograd.grad(loss, weights)
    wanted = torch.autograd.grad(expected, weights)
    for g, w in zip(got, wanted, strict=True):
        assert w.abs().max() > 0
        torch.testing.assert_close(g, w, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("heads", [1, 3])
def test_simclr_is_nt_xent(heads):
    method, (x0, x1) = make("simclr", tau=0.3, heads=heads), views()
    h0, h1 = method.backbone(x0), method.backbone(x1)
    losses = [nt_xent(g(h0), g(h1), 0.3) for g in singles(method.heads)]
    assert_same_loss_and_gradient(method, method([x0, x1]), sum(losses) / heads)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
def test_moco_is_info_nce_over_the_queue(heads, symmetric):
    method = make("moco", tau=0.2, heads=heads, symmetric=symmetric)
    part_encoders(method)
    x0, x1 = views()
    backbone, old_backbone = method.backbone, method.keys.module[0]
    losses = []
    for c in range(heads):
        g, old_g = method.heads.head(c), method.keys.module[1].head(c)
        queue = method.queue.z[c].clone()
        forth = info_nce(g(backbone(x0)), old_g(old_backbone(x1)), queue, 0.2)
        back = info_nce(g(backbone(x1)), old_g(old_backbone(x0)), queue, 0.2)
        losses.append(0.5 * (forth + back) if symmetric else forth)
    assert_same_loss_and_gradient(method, method([x0, x1]), sum(losses) / heads)


def test_moco_without_a_queue_contrasts_with_the_keys_of_the_batch():
    method, (x0, x1) = make("moco", tau=0.2, queue=0), views()
    part_encoders(method)
    q0, q1 = method.project(x0)[0], method.project(x1)[0]
    k0, k1 = method.keys(x0)[0], method.keys(x1)[0]
    expected = 0.5 * (batch_info_nce(q0, k1, 0.2) + batch_info_nce(q1, k0, 0.2))
    assert_same_loss_and_gradient(method, method([x0, x1]), expected)
    method.after_step()
    assert not any("queue" in name for name in method.state_dict())


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
def test_simsiam_is_the_negative_cosine_with_fixed_targets(heads, shared):
    method = make("simsiam", heads=heads, shared_projector=shared)
    assert method.heads.num_heads == (1 if shared else heads)
    x0, x1 = views()
    losses = []
    for c in range(heads):
        f, p = method.heads.head(0 if shared else c), method.predictors.head(c)
        z0, z1 = f(method.backbone(x0)), f(method.backbone(x1))
        cosines = F.cosine_similarity(p(z0), z1.detach()), F.cosine_similarity(p(z1), z0.detach())
        losses.append(-0.5 * cosines[0].mean() - 0.5 * cosines[1].mean())
    assert_same_loss_and_gradient(method, method([x0, x1]), sum(losses) / heads)


@pytest.mark.parametrize("heads", [1, 3])
def test_barlow_twins_is_the_cross_correlation(heads):
    method, (x0, x1) = make("barlow", lam=0.03, heads=heads, loss_scale=0.1), views()
    h0, h1 = method.backbone(x0), method.backbone(x1)
    losses = [barlow_twins(g(h0), g(h1), 0.03) for g in singles(method.heads)]
    assert_same_loss_and_gradient(method, method([x0, x1]), 0.1 * sum(losses) / heads)
