"""C projection heads of one architecture, computed as one batched product."""

import math
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from amcl.settings import choose, not_a_tensor, whole_number

LastNorm = Literal["none", "plain", "affine"]
Activation = Literal["relu", "gelu"]

_ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}


class _BatchedLinear(nn.Module):
    """C independent linear layers. x: (N, in) for all heads or (C, N, in). Returns (C, N, out)."""

    def __init__(self, num_heads: int, in_dim: int, out_dim: int, bias: bool) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(in_dim)  # as nn.Linear is initialized, for each head
        self.weight = nn.Parameter(torch.empty(num_heads, out_dim, in_dim).uniform_(-bound, bound))
        # One dimension, so that "no weight decay where ndim < 2" finds it like any other bias.
        self.bias = (
            nn.Parameter(torch.empty(num_heads * out_dim).uniform_(-bound, bound)) if bias else None
        )

    def extra_repr(self) -> str:
        num_heads, out_dim, in_dim = self.weight.shape
        bias = self.bias is not None
        return f"num_heads={num_heads}, in_features={in_dim}, out_features={out_dim}, bias={bias}"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        num_heads, out_dim, _ = self.weight.shape
        if x.ndim == 2:
            y = F.linear(x, self.weight.flatten(0, 1), self.bias)
            return y.view(-1, num_heads, out_dim).transpose(0, 1)
        if self.bias is None:
            return torch.bmm(x, self.weight.mT)
        return torch.baddbmm(self.bias.view(num_heads, 1, out_dim), x, self.weight.mT)


class _BatchedNorm(nn.Module):
    """Batch norm of C heads as one over C·D channels. x: (C, N, D). Returns the same shape.

    The norm is a plain child, so that conversion to `SyncBatchNorm` finds it.
    """

    def __init__(self, num_heads: int, dim: int, affine: bool = True) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(num_heads * dim, affine=affine)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        num_heads, n, dim = x.shape
        y: torch.Tensor = self.norm(x.transpose(0, 1).reshape(n, num_heads * dim))
        return y.view(n, num_heads, dim).transpose(0, 1)


class ProjectionHeads(nn.Module):
    """C MLPs g¹ … g^C of one architecture with independent weights (§4, "Multiple Projections").

    `ProjectionHeads(512, 512, 128, num_heads=3)` is SimCLR's 512 → 512 → ReLU → 128, three times.
    The input is (N, in), which every head sees, or (C, N, in), one set for each head (predictors
    behind projectors). The output is (C, N, D).

    Args:
        widths: Widths of the input, of any number of hidden layers, and of the output.
        num_heads: Number C of heads.
        norm: Batch norm before each hidden activation.
        bias: Biases of the hidden layers.
        last_bias: Bias of the last layer; by default as `bias`.
        last_norm: Batch norm on the output: "none", "plain" (no scale or shift), "affine".
        activation: "relu" or "gelu" behind each hidden layer.

    Example:
        >>> heads = ProjectionHeads(512, 512, 128, num_heads=3)
        >>> heads(torch.randn(8, 512)).shape
        torch.Size([3, 8, 128])
    """

    def __init__(
        self,
        *widths: int,
        num_heads: int = 3,
        norm: bool = False,
        bias: bool = True,
        last_bias: bool | None = None,
        last_norm: LastNorm = "none",
        activation: Activation = "relu",
    ) -> None:
        super().__init__()
        if len(widths) < 2:
            raise ValueError(
                f"widths are input, hidden …, output, at least two: got {widths}. "
                "Example: ProjectionHeads(512, 512, 128)."
            )
        for width in widths:
            whole_number("each width", width)
        whole_number("num_heads", num_heads)
        choose("last_norm", last_norm, ("none", "plain", "affine"))
        choose("activation", activation, ("relu", "gelu"))
        self.widths = widths
        self.num_heads = num_heads
        layers: list[nn.Module] = []
        for in_dim, out_dim in pairwise(widths[:-1]):
            layers.append(_BatchedLinear(num_heads, in_dim, out_dim, bias))
            if norm:
                layers.append(_BatchedNorm(num_heads, out_dim))
            layers.append(_ACTIVATIONS[activation]())
        last_bias = bias if last_bias is None else last_bias
        layers.append(_BatchedLinear(num_heads, widths[-2], widths[-1], last_bias))
        if last_norm != "none":
            layers.append(_BatchedNorm(num_heads, widths[-1], affine=last_norm == "affine"))
        self.layers = nn.Sequential(*layers)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        """Project features in each head.

        Args:
            h: Features (N, in), which every head sees, or (C, N, in), one set for each head.

        Returns:
            Projections (C, N, D).
        """

        if not isinstance(h, torch.Tensor):
            raise TypeError(not_a_tensor("heads take", h))
        if not h.is_floating_point():
            raise TypeError(f"heads take floating-point features, got {h.dtype}.")
        has_heads = h.ndim == 3 and h.shape[0] == self.num_heads
        if h.shape[-1] != self.widths[0] or not (h.ndim == 2 or has_heads):
            raise ValueError(
                f"heads take (N, {self.widths[0]}) or ({self.num_heads}, N, {self.widths[0]}), "
                f"got {tuple(h.shape)}: pool or flatten the output of the backbone."
            )
        z: torch.Tensor = self.layers(h)
        return z

    @torch.no_grad()
    def init_normal(self, std: float = 0.02) -> None:
        """Draw the weights from a normal distribution cut at ±2, and set the biases to 0.

        Args:
            std: Standard deviation of the weights.

        Example:
            >>> heads = ProjectionHeads(64, 64, 8, num_heads=3)
            >>> heads.init_normal(std=0.02)
            >>> round(heads.layers[0].weight.std().item(), 2)
            0.02
        """
        for layer in self.layers:
            if isinstance(layer, _BatchedLinear):
                nn.init.trunc_normal_(layer.weight, std=std)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def head(self, index: int) -> nn.Sequential:
        """Return one head as plain layers, with a copy of its weights and statistics.

        Args:
            index: Number of the head, from 0.

        Returns:
            Linear layers, batch norms and activations of torch.

        Example:
            >>> ProjectionHeads(4, 8, 2, num_heads=3).head(0)
            Sequential(
              (0): Linear(in_features=4, out_features=8, bias=True)
              (1): ReLU()
              (2): Linear(in_features=8, out_features=2, bias=True)
            )
        """
        if not 0 <= index < self.num_heads:
            raise IndexError(f"head {index} of {self.num_heads}: choose 0 to {self.num_heads - 1}.")
        plain = nn.Sequential(*(self._slice(layer, index) for layer in self.layers))
        return plain.train(self.training)

    def _slice(self, layer: nn.Module, index: int) -> nn.Module:
        if isinstance(layer, (nn.ReLU, nn.GELU)):
            return type(layer)()
        plain: nn.Module
        if isinstance(layer, _BatchedLinear):
            _, out_dim, in_dim = layer.weight.shape
            plain = nn.Linear(in_dim, out_dim, bias=layer.bias is not None)
            state = layer.state_dict()
            state["weight"] = state["weight"][index]
        else:
            norm = layer.norm
            assert isinstance(norm, nn.modules.batchnorm._BatchNorm)
            plain = nn.BatchNorm1d(norm.num_features // self.num_heads, affine=norm.affine)
            state = norm.state_dict()
        for name, value in state.items():
            if value.ndim == 1:
                state[name] = value.view(self.num_heads, -1)[index]
        plain.to(next(iter(state.values()))).load_state_dict(state)
        return plain
