"""Interface of all temperature schemes, so that any loss takes any of them."""

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
    """Number of outputs that each projection head must have beyond its width D."""

    def branch(self, sign: Sign) -> "Temperature":
        """Return the scheme of positive or negative pairs: this one, unless it is split.

        Args:
            sign: "positive" or "negative".
        """
        return self

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        """Return the keys of items, from which `tau` computes the temperatures of pairs.

        Args:
            z: Projections (C, N, D).
            extra: Further outputs of the heads, (C, N, extra_outputs).
            shared: True if the items are the same on every process, as those of a queue are.

        Returns:
            Keys (C, N, ·), or (1, N, ·) if all heads share a temperature.
        """
        raise NotImplementedError

    def channel_keys(
        self,
        z: torch.Tensor,
        extra: torch.Tensor | None = None,
        channels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the keys of the D channels of a batch.

        Args:
            z: Projections (C, N, D).
            extra: Further outputs of the heads, (C, N, extra_outputs).
            channels: Channels (C, D, N) if φ is to act on the N values of each.

        Returns:
            Keys (C or 1, D, ·).
        """
        return self.keys(z.mT)

    def tau(self, anchor: torch.Tensor, other: torch.Tensor, pairing: Pairing) -> torch.Tensor:
        """Return the temperatures of pairs.

        By default a temperature depends on the anchor alone and *is* its key.

        Args:
            anchor: Keys of anchors.
            other: Keys of the items that they are compared with.
            pairing: Function that makes a matrix of inner products of two sets of keys.

        Returns:
            A tensor that broadcasts to (C, N, M): smaller where pairs share a temperature.
        """
        return anchor

    def bounds(self) -> tuple[float, float] | None:
        """Return the limits of τ if it adapts to pairs within limits, else None."""
        return None

    def channel_bounds(self, literal: bool = False) -> tuple[float, float] | None:
        """Return the limits of τ for pairs of channels.

        Args:
            literal: True if φ acts on the N values of each channel.
        """
        return self.bounds()

    def set_epoch(self, epoch: float) -> None:
        """Set the epoch, which only schedules use.

        Args:
            epoch: Number of epochs that are done; it may be a fraction.
        """


def for_each_anchor(tau: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Return a single τ as the key of every item of z, in the dtype of z: (1, N, 1)."""
    return tau.to(z).expand(1, z.shape[1], 1)
