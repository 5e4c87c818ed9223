"""Pair-adaptive temperature of the paper."""

import copy
import math
import warnings
from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn
from torch.nn.functional import linear

from amcl import functional as F
from amcl.distributed import gather, world_size
from amcl.settings import choose, positive_number, whole_number
from amcl.temperature.base import Pairing, Temperature
from amcl.temperature.ranges import ranges_of

_KEY_EPS = 1e-10  # φ of unit vectors has channels of variance about 1/(3D): eps must be far below
_GATE = 8  # with a mean cosine of 0.1 temperatures keep 43 % of their reach, with 0.3 6 %
_LENGTH_EPS = 1e-8  # φ's squared length is about 1/3; this bounds gradients where all are alike
_USES_BEFORE_WARNING = 4000  # a loss uses φ two or three times a call, and a step may accumulate

PhiOutput = Literal["centered", "plain"]


class AdaptiveTemperature(Temperature):
    """τ = σ(⟨φ(z), φ(z')⟩) with σ(r) = ι/(1 + exp(r)) + η: a temperature for each pair and head.

    φ is shared by all heads and trained by the loss: give `parameters()` of the loss to the
    optimizer. It is one linear layer on L2-normalized z; the paper says neither its depth, its
    input nor its scale. Its output is "centered" on its mean over the items it comes with (a view
    of the batch over all processes, or a queue, each on its own mean) and brought to length √ρ
    (`phi_scale`): r is ρ times a correlation, about 0 for pairs as alike as most, so that
    temperatures stay around the middle of their range and differ. The temperature of a pair
    therefore depends a little on the rest of the batch.

    A fixed length alone would make temperatures differ even where projections are all alike, so
    that temperatures could meet the loss in place of similarities. So r is scaled by a gate,
    (1 − s̄)⁸ with s̄ the mean cosine of the items, that closes as projections of a head grow alike:
    temperatures are then one, and a collapse costs what it costs with a constant τ.

    The range is given as (eta, iota) or as (lower, upper) = (η, η + ι); none: (0.05, 0.15). Heads
    at several scales have a range each: ``lower=(0.025, 0.05, 0.1), upper=(0.075, 0.15, 0.3)``.

    Args:
        dim: Width D of the projections.
        eta: Lower bound η of τ.
        iota: Width ι of the range of τ.
        lower: Lower bound of τ, with `upper` in place of `eta` and `iota`; one for each head, or
            one for all.
        upper: Upper bound of τ, as `lower`.
        phi_depth: Number of layers of φ.
        phi_input: "unit" reads projections of unit length. "raw" reads them as they are, which
            saturates σ: it is there to study that, not for use.
        phi_output: "centered" is described above. "plain" takes the layer's output as it is, as
            the paper reads: φ then may shrink to 0, where all pairs have one temperature, or grow
            until most lie at a bound.
        phi_scale: Greatest r, ρ, of a centered φ.
        phi_gradient: False lets φ alone learn from τ: z is read and not shaped by it.

    Example:
        >>> from amcl import functional as F
        >>> temperature = AdaptiveTemperature(dim=8, lower=0.05, upper=0.15)
        >>> keys = temperature.keys(torch.randn(3, 4, 8))
        >>> tau = temperature.tau(keys, keys, F.all_pairs)
        >>> tau.shape, bool((tau > 0.05).all() and (tau < 0.15).all())
        (torch.Size([3, 4, 4]), True)
    """

    pairwise = True

    def __init__(
        self,
        dim: int = 128,
        *,
        eta: float | None = None,
        iota: float | None = None,
        lower: float | Sequence[float] | None = None,
        upper: float | Sequence[float] | None = None,
        phi_depth: int = 1,
        phi_input: Literal["unit", "raw"] = "unit",
        phi_output: PhiOutput = "centered",
        phi_scale: float = 2.0,
        phi_gradient: bool = True,
    ) -> None:
        super().__init__()
        self.dim = whole_number("dim", dim, "it is the width D of the projections")
        self.ranges = ranges_of(eta, iota, lower, upper)
        """(η, ι) of each head, or one that all heads share."""
        whole_number("phi_depth", phi_depth)
        choose("phi_input", phi_input, ("unit", "raw"))
        choose("phi_output", phi_output, ("centered", "plain"))
        positive_number("phi_scale", phi_scale, "it is ρ, the greatest r; 1 to 4 are usual")
        self.phi_input = phi_input
        self.phi_output = phi_output
        self.phi_scale = phi_scale
        self.phi_gradient = phi_gradient
        layers: list[nn.Module] = [nn.Linear(dim, dim)]
        for _ in range(phi_depth - 1):
            layers += [nn.ReLU(), nn.Linear(dim, dim)]
        self.phi = nn.Sequential(*layers)
        self._uses = 0
        self._at_start = torch.empty(0)

    def keys(
        self, z: torch.Tensor, extra: torch.Tensor | None = None, shared: bool = False
    ) -> torch.Tensor:
        return self.gated_keys(z, self.gate(z, shared), shared)

    def gated_keys(self, z: torch.Tensor, gate: torch.Tensor, shared: bool = False) -> torch.Tensor:
        """Return `keys` where r is scaled by a gate.

        Args:
            z: Projections (C, N, D).
            gate: Factors of r, (C, 1, 1) or (1, 1, 1).
            shared: The items are the same on every process.

        Returns:
            Keys (C, N, D).
        """
        x = self._layers(z)
        if self.phi_output == "plain":
            return x
        x = x - _mean_of_items(x, shared)
        length = (x.square().sum(-1, keepdim=True) + _LENGTH_EPS).sqrt()
        return x * ((self.phi_scale * gate).sqrt() / length)

    @torch.no_grad()
    def gate(self, z: torch.Tensor, shared: bool = False) -> torch.Tensor:
        """Return the factor of r: 1 where projections lie apart, 0 where they are alike.

        It passes no gradient, so that the loss cannot be lowered by opening or closing it: z is
        pulled and pushed by similarities and by φ alone.

        Args:
            z: Projections (C, N, D).
            shared: The items are the same on every process.

        Returns:
            Factors (C, 1, 1).

        Example:
            >>> AdaptiveTemperature(dim=8).gate(torch.ones(1, 4, 8))  # all are alike
            tensor([[[0.]]])
        """
        items = z.shape[1] * (1 if shared else world_size())
        alike = F.mean_cosine(_mean_of_items(F.unit(z), shared), items)
        return (1.0 - alike.clamp(0.0, 1.0)) ** _GATE

    def channel_keys(
        self,
        z: torch.Tensor,
        extra: torch.Tensor | None = None,
        channels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return keys of channels: r_lm is ρ times the batch correlation of φ's channels, or it.

        With `channels` φ acts on the N values of each (text under Eq. 2.3), so that it depends on
        the batch size (`dim` = N) and on the order of the batch.

        Args:
            z: Projections (C, N, D).
            extra: Not used.
            channels: Channels (C, D, N), or None for φ of projections.

        Returns:
            Keys (C, D, ·).
        """
        if channels is not None:
            return self.keys(channels, shared=True)  # they hold the whole batch
        keys = F.channels(self._layers(z), eps=_KEY_EPS)
        return keys if self.phi_output == "plain" else keys * math.sqrt(self.phi_scale)

    def _layers(self, z: torch.Tensor) -> torch.Tensor:
        """Return φ before it is centered."""
        if z.shape[-1] != self.dim:
            raise ValueError(
                f"φ was made for vectors of width dim={self.dim}, but these are {z.shape[-1]} "
                f"wide: make the temperature with dim={z.shape[-1]}."
            )
        if z.requires_grad:
            self._warn_if_phi_stands_still()
        if not self.phi_gradient:
            z = z.detach()
        x = F.unit(z) if self.phi_input == "unit" else z
        for layer in self.phi:
            if isinstance(layer, nn.Linear):  # in z's precision, whatever the module's
                x = linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))
            else:
                x = layer(x)
        return x

    @property
    def eta(self) -> float:
        """Lower bound η of τ, the least of all heads."""
        return min(eta for eta, _ in self.ranges)

    @property
    def iota(self) -> float:
        """Width ι of the range of τ, from the least to the greatest of all heads."""
        if len(self.ranges) == 1:
            return self.ranges[0][1]
        return max(eta + iota for eta, iota in self.ranges) - self.eta

    def tau(self, anchor: torch.Tensor, other: torch.Tensor, pairing: Pairing) -> torch.Tensor:
        return self.tau_of(pairing(anchor, other))

    def tau_of(self, r: torch.Tensor) -> torch.Tensor:
        """Return τ = σ(r), within the range of each head.

        Args:
            r: ⟨φ(z), φ(z')⟩ of pairs, (C, N, M), of all heads or those of `for_heads`.

        Returns:
            Temperatures of the same shape.
        """
        if len(self.ranges) == 1:
            return F.sigma(r, *self.ranges[0])
        if r.shape[0] != len(self.ranges):
            raise ValueError(
                f"there are ranges of τ for {len(self.ranges)} heads, and {r.shape[0]} heads: give "
                "one range for all, or one for each head."
            )
        eta, iota = r.new_tensor(self.ranges).T.view(2, -1, 1, 1)
        return F.sigma(r, eta, iota)

    def for_heads(self, heads: slice) -> "AdaptiveTemperature":
        if len(self.ranges) == 1:
            return self
        some = copy.copy(self)
        some.ranges = self.ranges[heads]
        return some

    def bounds(self) -> tuple[float, float]:
        """Return the limits that τ can reach: with r in [−ρ, ρ] 76 % of its range at ρ = 2."""
        if self.phi_output == "plain":
            return self.eta, self.eta + self.iota
        return self._reached(self.phi_scale)

    def channel_bounds(self, literal: bool = False) -> tuple[float, float]:
        if literal:
            return self.bounds()
        return self._reached(1.0 if self.phi_output == "plain" else self.phi_scale)

    def _reached(self, scale: float) -> tuple[float, float]:
        ends = torch.tensor([scale, -scale], device="cpu")  # whatever the default device is
        reached = [F.sigma(ends, eta, iota).tolist() for eta, iota in self.ranges]
        return min(lowest for lowest, _ in reached), max(highest for _, highest in reached)

    def extra_repr(self) -> str:
        return (
            f"eta={self.eta:.4g}, iota={self.iota:.4g}, phi_input={self.phi_input!r}, "
            f"phi_output={self.phi_output!r}, phi_scale={self.phi_scale:.4g}, "
            f"phi_gradient={self.phi_gradient}"
        )

    def _warn_if_phi_stands_still(self) -> None:
        """Warn if no optimizer has changed φ after many training steps."""
        weight = next(self.phi.parameters())
        watch = self.training and torch.is_grad_enabled() and weight.requires_grad
        if torch.compiler.is_compiling() or not watch:
            return
        self._uses += 1
        if self._uses == 1:
            self._at_start = weight.detach().clone()
        if self._uses == _USES_BEFORE_WARNING and torch.equal(weight, self._at_start.to(weight)):
            warnings.warn(
                f"φ has not changed in the first {_USES_BEFORE_WARNING} times that it was used. "
                "Give the loss's parameters to the optimizer too: "
                "SGD([*model.parameters(), *loss.parameters()], …).",
                stacklevel=2,
            )


def _mean_of_items(x: torch.Tensor, shared: bool) -> torch.Tensor:
    """Return the mean of x (C, N, D) over items and, unless all share them, over processes.

    Every process has the same number of items. The mean is (C, 1, D).
    """
    mean = x.mean(1, keepdim=True)
    return mean if shared else gather(mean, check=False).mean(1, keepdim=True)
