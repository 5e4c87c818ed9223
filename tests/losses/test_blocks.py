"""Pair matrices in blocks: bounded memory, the same gradients."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import amcl
from amcl.losses.pairs import Items, Pairs, Partners
from amcl.temperature import (
    AdaptiveTemperature,
)
from schemes import SCHEMES, projections


class LargestTensor(TorchDispatchMode):
    """Counts the elements of the largest float32 tensor that any operation makes."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.dtype == torch.float32:
                self.elements = max(self.elements, x.untyped_storage().nbytes() // 4)
        return out


@pytest.mark.parametrize("form", [{}, {"form": "top_k", "top_k": 5}])
def test_blocks_never_hold_more_pairs_than_stated(form):
    z0, z1 = torch.randn(2, 3, 64, 4, requires_grad=True).unbind(0)
    queue = torch.randn(3, 500, 4)

    def largest(max_pairs):
        with LargestTensor() as largest:
            amcl.AMCLLoss(3, 4, max_pairs=max_pairs, **form)(z0, z1, queue).backward()
        return largest.elements

    assert largest(10**9) >= 3 * 64 * 500
    assert largest(20_000) <= 20_000


def test_supervised_blocks_never_hold_more_pairs_than_stated():
    z0, z1 = torch.randn(2, 3, 64, 4, requires_grad=True).unbind(0)
    labels = torch.arange(64) % 5

    def largest(max_pairs):
        with LargestTensor() as largest:
            loss = amcl.SupervisedContrastiveLoss(3, AdaptiveTemperature(4), max_pairs=max_pairs)
            loss(z0, z1, labels).backward()
        return largest.elements

    assert largest(10**9) >= 3 * 128 * 128
    assert largest(5_000) <= 5_000


def pairs_of(heads, n, m):
    """Pairs of a size, which take no memory."""

    def items(count):
        return torch.zeros(()).expand(heads, count, 8)

    anchors = Items(items(n), items(n), items(n))
    return Pairs(
        anchors, Partners(items(n), items(n)), Partners(items(m), items(m)), torch.zeros(n, 0)
    )


@pytest.mark.parametrize(
    "max_pairs", [1, 7, 500, 1000, 20_000, 32_000, 63_999, 64_000, 96_000, 10**9]
)
def test_blocks_cover_all_pairs_and_keep_the_bound(max_pairs):
    pairs = pairs_of(3, 64, 500)
    seen = torch.zeros(3, 64)
    lengths = set()
    for heads, rows in pairs.blocks(max_pairs):
        seen[heads, rows] += 1
        size = (heads.stop - heads.start) * (rows.stop - rows.start)
        assert size == 1 or size * 500 <= max_pairs
        lengths.add(rows.stop - rows.start)
    assert (seen == 1).all()
    assert len(pairs.blocks(96_000)) == 1
    assert len(pairs.blocks(64_000)) == 2  # two heads, then one
    assert len(lengths) == 1 or max(lengths) - min(lengths) <= 64 // min(lengths) + 1


def test_large_problems_are_walked_in_blocks_without_being_asked():
    assert len(pairs_of(3, 256, 256).blocks(None)) == 1
    for heads, rows in pairs_of(3, 4096, 65_536).blocks(None):
        assert (heads.stop - heads.start) * (rows.stop - rows.start) <= 128
    accelerator = pairs_of(3, 4096, 65_536)
    accelerator = accelerator.with_tensors([x.to("meta") for x in accelerator.tensors])
    assert len(accelerator.blocks(None)) < len(pairs_of(3, 4096, 65_536).blocks(None))


def test_blocks_of_correlations_give_the_same_gradients():
    temperature = AdaptiveTemperature(12).double()
    z0, z1 = (torch.randn(2, 6, 12, dtype=torch.float64, requires_grad=True) for _ in range(2))
    results = []
    for max_pairs in (10**9, 50):
        loss = amcl.CrossCorrelationLoss(2, temperature, beta=0.3, max_pairs=max_pairs)
        value = loss(z0, z1)
        results.append([value, *torch.autograd.grad(value, [z0, z1, *loss.parameters()])])
    for plain, blocked in zip(*results, strict=True):
        torch.testing.assert_close(blocked, plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    "form",
    [
        {},
        {"form": "top_k", "top_k": 3},
        {"form": "dcl"},
        {"form": "dclw"},
        {"form": "hard", "debias": 0.3},
        {"form": "sigmoid"},
    ],
    ids=lambda form: form.get("form", "softmax"),
)
def test_blocks_of_heads_and_rows_give_the_same_gradients_for_every_scheme(scheme, form):
    temperature = SCHEMES[scheme].make(4).double()
    z0, z1 = projections(temperature, (3, 6, 4), (3, 6, 4))
    results = []
    for max_pairs in (10**9, 12 * 12, 40):  # all at once, head by head, some rows of a head
        loss = amcl.ContrastiveLoss(3, temperature, beta=0.3, max_pairs=max_pairs, **form).double()
        value = loss(z0, z1)
        results.append([value, *torch.autograd.grad(value, [z0, z1, *loss.parameters()])])
    for plain, *blocked in zip(*results, strict=True):
        for other in blocked:
            torch.testing.assert_close(other, plain, rtol=1e-10, atol=1e-12)


def test_numbers_of_numpy_are_numbers():
    loss = amcl.AMCLLoss(
        np.int64(3), np.int64(8), beta=np.float32(0.1), form="top_k", top_k=np.int64(2)
    )
    assert loss(*torch.randn(2, 3, 6, 8)).isfinite()


def test_in_blocks_without_gradients():
    z0, z1 = torch.randn(2, 3, 16, 4)
    loss = amcl.AMCLLoss(3, 4)
    with torch.no_grad():
        plain = loss(z0, z1)
        loss.max_pairs = 200
        torch.testing.assert_close(loss(z0, z1), plain)
