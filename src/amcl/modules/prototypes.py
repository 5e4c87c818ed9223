"""Prototypes that projections are compared with: the last, weight-normalized layer of DINO."""

import math

import torch
from torch import nn

from amcl.functional import unit
from amcl.settings import whole_number


class Prototypes(nn.Module):
    """K vectors of each head, of length one or of lengths that are learned.

    The product of a unit vector with them is DINO's last layer, which is weight-normalized and has
    no bias.

    Args:
        dim: Width D of the projections.
        count: Number K of prototypes of each head.
        num_heads: Number C of heads.
        unit_length: True fixes all lengths at 1, so that products are cosines; False learns them.

    Example:
        >>> prototypes = Prototypes(dim=8, count=32, num_heads=3)
        >>> prototypes().shape, round(prototypes()[0, 0].norm().item(), 4)
        (torch.Size([3, 32, 8]), 1.0)
    """

    def __init__(
        self, dim: int, count: int, num_heads: int = 1, *, unit_length: bool = True
    ) -> None:
        super().__init__()
        for name, value in (("dim", dim), ("count", count), ("num_heads", num_heads)):
            whole_number(name, value)
        bound = 1.0 / math.sqrt(dim)  # as nn.Linear is initialized
        self.weight = nn.Parameter(torch.empty(num_heads, count, dim).uniform_(-bound, bound))
        self.length = None if unit_length else nn.Parameter(torch.ones(num_heads, count, 1))

    def forward(self) -> torch.Tensor:
        """Return the prototypes.

        Returns:
            Vectors (C, K, D).
        """
        directions = unit(self.weight)
        return directions if self.length is None else directions * self.length

    def extra_repr(self) -> str:
        num_heads, count, dim = self.weight.shape
        return f"dim={dim}, count={count}, num_heads={num_heads}, unit_length={self.length is None}"
