"""The interface of temperature schemes, so that any loss takes any of them."""

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

    Example:
        >>> class Halved(Temperature):  # half of τ for anchors whose first value is positive
        ...     def keys(self, z, extra=None, shared=False):
        ...         return torch.where(z[..., :1] > 0, 0.05, 0.1)
        >>> Halved().keys(torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])).squeeze()
        tensor([0.0500, 0.1000])
    """

    extra_outputs = 0
    """Number of outputs that each projection head must have beyond its width D."""

    def branch(self, sign: Sign) -> "Temperature":
        """Return the scheme that serves pairs of a sign; the same one unless it is split.

        Args:
            sign: "positive" or "negative".

        Returns:
            A scheme whose `keys` and `tau` hold for such pairs.
        """
        return self

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        """Return the values of items from which temperatures of their pairs are computed.

        Args:
            z: Projections (C, N, D).
            extra: Further outputs (C, N, extra_outputs) of the heads, for schemes that have them.
            shared: The items are the same on every process, as those of a queue are.

        Returns:
            Keys (C, N, ·), or (1, N, ·) where all heads share a temperature.
        """
        raise NotImplementedError

    def channel_keys(
        self,
        z: torch.Tensor,
        extra: torch.Tensor | None = None,
        channels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return `keys` of the D channels of a batch.

        Args:
            z: Projections (C, N, D).
            extra: Further outputs (C, N, extra_outputs) of the heads, for schemes that have them.
            channels: Channels (C, D, N), where φ is to act on the N values of each of them.

        Returns:
            Keys (C, D, ·), or (1, D, ·) where all heads share a temperature.
        """
        return self.keys(z.mT)

    def tau(self, anchor: torch.Tensor, other: torch.Tensor, pairing: Pairing) -> torch.Tensor:
        """Return τ of the pairs that `pairing` makes of two sets of keys.

        The default is a temperature that depends on the anchor alone and *is* its key.

        Args:
            anchor: Keys of the anchors.
            other: Keys of the candidates.
            pairing: Function that pairs keys, `functional.paired` or `functional.all_pairs`.

        Returns:
            Temperatures that broadcast to (C, N, M): smaller where pairs share a temperature.
        """
        return anchor

    def bounds(self) -> tuple[float, float] | None:
        """Return the lower and upper limit of τ where it adapts within limits, else None."""
        return None

    def channel_bounds(self, literal: bool = False) -> tuple[float, float] | None:
        """Return `bounds` for pairs of channels.

        Args:
            literal: φ acts on the values of channels (text under Eq. 2.3).
        """
        return self.bounds()

    def set_epoch(self, epoch: float) -> None:
        """Set the epochs since the start of training, which schedules depend on.

        Args:
            epoch: Number of epochs; fractions count.
        """


def for_each_anchor(tau: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Return a single τ as the key of every item of z, in z's dtype: (1, N, 1)."""
    return tau.to(z).expand(1, z.shape[1], 1)
