"""Prototypes are DINO's weight-normalized last layer, for each head."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from amcl.modules import Prototypes


@pytest.mark.parametrize("unit_length", [True, False])
def test_they_are_a_weight_normalized_layer(unit_length):
    prototypes = Prototypes(5, 7, num_heads=2, unit_length=unit_length).double()
    if not unit_length:
        nn.init.uniform_(prototypes.length, 0.5, 2.0)
    z = torch.randn(2, 4, 5, dtype=torch.float64)
    products = z @ prototypes().mT
    for c in range(2):
        layer = weight_norm(nn.Linear(5, 7, bias=False).double())
        direction = layer.parametrizations.weight.original1
        direction.data.copy_(prototypes.weight[c])
        length = 1.0 if unit_length else prototypes.length[c]
        layer.parametrizations.weight.original0.data.fill_(1.0).mul_(length)
        torch.testing.assert_close(layer(z[c]), products[c])
        (wanted,) = torch.autograd.grad(layer(z[c]).square().sum(), direction)
        (got,) = torch.autograd.grad(
            products[c].square().sum(), prototypes.weight, retain_graph=True
        )
        torch.testing.assert_close(got[c], wanted)


def test_lengths_are_learned_only_where_they_may_be():
    assert [name for name, _ in Prototypes(5, 7).named_parameters()] == ["weight"]
    free = Prototypes(5, 7, unit_length=False)
    assert free.length.shape == (1, 7, 1)
    assert free.length.eq(1).all()


@pytest.mark.parametrize("name", ["dim", "count", "num_heads"])
def test_numbers_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} must be a whole number"):
        Prototypes(**{"dim": 5, "count": 7, "num_heads": 1} | {name: 0})
