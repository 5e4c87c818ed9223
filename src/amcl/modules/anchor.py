"""Weights that others are pulled towards."""

from collections.abc import Sequence

import torch
from torch import nn


class Anchor(nn.Module):
    """Remembers tensors θ₀ and tells how far others went from them: Σ|θ − θ₀| (LGP on ViT-L).

    >>> weights = [torch.zeros(3), torch.ones(2, 2)]
    >>> anchor = Anchor(weights)
    >>> anchor([torch.full((3,), 0.5), torch.ones(2, 2)])
    tensor(1.5000)
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()
        for number, tensor in enumerate(tensors):
            self.register_buffer(f"at{number}", tensor.detach().clone())

    def reset(self, tensors: Sequence[torch.Tensor]) -> None:
        """Remember other tensors from now on."""
        for place, tensor in zip(self.buffers(), tensors, strict=True):
            place.copy_(tensor.detach())

    def forward(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Σ|θ − θ₀|, with the gradient of θ."""
        pairs = zip(tensors, self.buffers(), strict=True)
        return torch.stack([(tensor - place).abs().sum() for tensor, place in pairs]).sum()
