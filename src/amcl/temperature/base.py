"""What every temperature scheme offers, so that any loss takes any of them."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import nn

Sign = Literal["positive", "negative"]
Pairing = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Temperature(nn.Module):
    """A rule that gives a temperature τ to each pair in each head.

    A loss asks for the `keys` of its items, once for each item, then for `tau` of pairs of keys.
    An item is a projection z, or, for the cross-correlation loss, a channel.
    """

    extra_outputs = 0
    """How many more outputs each projection head must have than its width D."""

    def branch(self, sign: Sign) -> "Temperature":
        """The scheme that serves positive or negative pairs; the same one unless it is split."""
        return self

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        """What items are judged by. z: (C, N, D), extra: (C, N, extra_outputs).

        `shared`: the items are the same on every process, as those of a queue are. Returns
        (C, N, ·), or (1, N, ·) where all heads share a temperature.
        """
        raise NotImplementedError

    def channel_keys(
        self,
        z: torch.Tensor,
        extra: torch.Tensor | None = None,
        channels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """`keys` of the D channels of a batch. z: (C, N, D). Returns (C or 1, D, ·).

        `channels` (C, D, N) are given where φ is to act on the N values of each channel.
        """
        return self.keys(z.mT)

    def tau(self, anchor: torch.Tensor, other: torch.Tensor, pairing: Pairing) -> torch.Tensor:
        """τ of the pairs that `pairing` makes of two sets of keys.

        The default is a temperature that depends on the anchor alone and *is* its key. Returns a
        tensor that broadcasts to (C, N, M): smaller where pairs share a temperature.
        """
        return anchor

    def bounds(self) -> tuple[float, float] | None:
        """The lower and upper limit of τ, where it adapts to pairs within limits."""
        return None

    def channel_bounds(self, literal: bool = False) -> tuple[float, float] | None:
        """`bounds` for pairs of channels."""
        return self.bounds()

    def set_epoch(self, epoch: float) -> None:
        """Tell the scheme how far training is. Only schedules listen."""


def for_each_anchor(tau: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """A single τ as the key of every item of z, in z's dtype: (1, N, 1)."""
    return tau.to(z).expand(1, z.shape[1], 1)
