"""Weights that others are pulled toward."""

from collections.abc import Sequence

import torch
from torch import nn


class Anchor(nn.Module):
    """Distance Σ|θ − θ₀| of tensors θ from stored ones θ₀ (LGP on ViT-L).

    Args:
        tensors: The tensors θ₀, which are copied.

    Example:
        >>> anchor = Anchor([torch.zeros(3), torch.ones(2, 2)])
        >>> anchor([torch.full((3,), 0.5), torch.ones(2, 2)])
        tensor(1.5000)
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()
        for number, tensor in enumerate(tensors):
            self.register_buffer(f"at{number}", tensor.detach().clone())

    def reset(self, tensors: Sequence[torch.Tensor]) -> None:
        """Store other tensors from now on.

        Args:
            tensors: Tensors in the order and shapes of the first ones.
        """
        for stored, tensor in zip(self.buffers(), tensors, strict=True):
            stored.copy_(tensor.detach())

    def forward(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return Σ|θ − θ₀|, differentiable in θ.

        Args:
            tensors: Tensors θ in the order and shapes of the stored ones.

        Returns:
            The distance, a scalar.
        """
        pairs = zip(tensors, self.buffers(), strict=True)
        return torch.stack([(tensor - stored).abs().sum() for tensor, stored in pairs]).sum()
