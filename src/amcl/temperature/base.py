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
    An item is a projection z, or, for the cross-correlation loss, a channel. Schemes that depend
    on the batch as a whole, on the images or on the loss of anchors use `observe`, `set_images`,
    `objective` and `update`; all others leave them out.

    Example:
        >>> class Halved(Temperature):  # half of τ for anchors whose first value is positive
        ...     def keys(self, z, extra=None, shared=False):
        ...         return torch.where(z[..., :1] > 0, 0.05, 0.1)
        >>> Halved().keys(torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])).squeeze()
        tensor([0.0500, 0.1000])
    """

    extra_outputs = 0
    """Number of outputs that each projection head must have beyond its width D."""
    pairwise = False
    """True if pairs of one anchor may have different temperatures."""
    needs_probability = False
    """True if `objective` takes exp(−loss) for the probability of the positive: for InfoNCE."""

    def branch(self, sign: Sign) -> "Temperature":
        """Return the scheme that serves pairs of a sign; the same one unless it is split.

        Args:
            sign: "positive" or "negative".

        Returns:
            A scheme whose `keys` and `tau` hold for such pairs.
        """
        return self

    def for_heads(self, heads: slice) -> "Temperature":
        """Return the scheme of some of the heads; the same one unless heads have their own.

        Args:
            heads: The heads whose keys `tau` will be called with.

        Returns:
            A scheme whose `tau` and `bounds` hold for these heads.
        """
        return self

    def observe(self, anchors: torch.Tensor, positives: torch.Tensor, shared: bool = False) -> None:
        """Read the positive pairs of a call, before keys are asked for.

        Args:
            anchors: Vectors (C, N, D) of the anchors.
            positives: Vectors of their positives, whose dot products are similarities.
            shared: The items are the same on every process.
        """

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

    def objective(
        self, loss: torch.Tensor, anchor: torch.Tensor, num_negatives: int
    ) -> torch.Tensor:
        """Return what is minimized for each anchor, where that is not its loss alone.

        Args:
            loss: Loss (C, N) of each anchor.
            anchor: Keys (C or 1, N, ·) of the anchors.
            num_negatives: Number K of negatives of an anchor.

        Returns:
            The objective (C, N) of each anchor.
        """
        return loss

    def update(self, losses: torch.Tensor, gradients: torch.Tensor, num_negatives: int) -> None:
        """Update state that is not trained by the optimizer, after a call in training.

        Args:
            losses: Losses (C, N) of the anchors, without gradient.
            gradients: Gradients of the summed objective with respect to the anchors' keys.
            num_negatives: Number K of negatives of an anchor.
        """

    def set_num_images(self, count: int) -> None:
        """Set the number of training images, for schemes with a state of each image.

        Args:
            count: Number of images.
        """

    def set_images(self, indices: torch.Tensor) -> None:
        """Set the images that the next call compares, for schemes with a state of each image.

        Args:
            indices: Indices (N,) of the images of a view, on this process.
        """

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
