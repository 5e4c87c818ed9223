"""The base class of all multi-head losses: settings, checks, the reduction over heads."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import nn

from amcl import functional as F
from amcl.distributed import sum_over_ranks
from amcl.functional import all_pairs, literal_prior_tau, unit
from amcl.losses.statistics import LossStats
from amcl.settings import choose, non_negative, positive_number, whole_number
from amcl.temperature import Temperature
from amcl.temperature.ranges import PRIOR_FIX

HeadReduction = Literal["mean", "sum"]
PriorTau = float | Literal["literal"] | Sequence[float]


class PairMatrix(NamedTuple):
    """All pairs of M items of one view with M of the other; the diagonal holds the positive ones.

    The bounds are those of τ in pairs of either sign, None where it does not adapt within bounds.
    """

    s: torch.Tensor  # (C, M, M)
    tau: torch.Tensor  # (C, M, M)
    positive_bounds: tuple[float, float] | None
    negative_bounds: tuple[float, float] | None


class HeadLoss(nn.Module):
    """A loss over C heads with a temperature scheme and the regularizer Ω.

    Args:
        num_heads: Number C of heads.
        temperature: Temperature scheme.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω, or "literal" for the paper's 2/D, or one for each head.
        head_reduction: "mean" over heads keeps the learning rate of one head, "sum" is the paper.
        head_diversity: Weight of a penalty on heads that agree: the mean correlation between the
            heads' similarities of different images (`functional.head_agreement`), where it is
            positive.
        validate: Check the input for NaN, which waits for the device once a call.
    """

    items: ClassVar[Literal["images", "channels"]] = "images"
    """Kind of items that are compared, whose pairs have temperatures."""
    has_probability: ClassVar[bool] = False
    """True if exp(−loss) of an anchor may be the probability of its positive, as in InfoNCE."""

    def __init__(
        self,
        num_heads: int,
        temperature: Temperature,
        *,
        beta: float,
        prior_tau: PriorTau,
        head_reduction: HeadReduction,
        head_diversity: float = 0.0,
        validate: bool,
    ) -> None:
        super().__init__()
        whole_number("num_heads", num_heads)
        if not isinstance(temperature, Temperature):
            raise TypeError(
                f"temperature must be a scheme of amcl.temperature, got {temperature!r}. "
                "For a fixed number: ConstantTemperature(0.1)."
            )
        if temperature.needs_probability and not self.has_probability:
            raise ValueError(
                f"{type(temperature).__name__} weighs anchors by the probability of their "
                f"positive, which {type(self).__name__} does not have: use reweight=False "
                "(--no-macl-reweight)."
            )
        non_negative("beta", beta, "0 switches Ω off")
        if isinstance(prior_tau, Sequence) and not isinstance(prior_tau, str):
            check_priors(prior_tau, num_heads)
            prior_tau = tuple(map(float, prior_tau))
        elif prior_tau != "literal":
            positive_number("prior_tau", prior_tau, PRIOR_FIX)
        choose("head_reduction", head_reduction, ("mean", "sum"))
        non_negative("head_diversity", head_diversity, "0 switches the penalty off")
        if head_diversity and num_heads == 1:
            raise ValueError(
                f"head_diversity={head_diversity} lets heads differ, and there is one head: use "
                "num_heads=3 (--heads 3), or leave it out."
            )
        self.num_heads = num_heads
        self.temperature = temperature
        self.beta = float(beta)
        self.prior_tau = prior_tau
        self.head_reduction = head_reduction
        self.head_diversity = float(head_diversity)
        self.validate = validate

    def set_epoch(self, epoch: float) -> None:
        """Pass the epoch on to the temperature scheme.

        Args:
            epoch: Epochs since the start of training; fractions count.
        """
        self.temperature.set_epoch(epoch)

    def set_images(self, indices: torch.Tensor) -> None:
        """Pass the indices of the images of the next call on to the temperature scheme.

        Args:
            indices: Indices (N,) of the images in the training set, on this process.
        """
        self.temperature.set_images(indices)

    def pair_matrix(self, z0: torch.Tensor, z1: torch.Tensor) -> PairMatrix:
        """Return s and τ of all items of z0 with all items of z1, for analysis.

        Args:
            z0: Projections (C, N, D) of the first view.
            z1: Projections (C, N, D) of the second view.

        Returns:
            Similarities, temperatures and the bounds of τ.
        """
        raise NotImplementedError

    def cosines(self, z0: torch.Tensor, z1: torch.Tensor) -> torch.Tensor:
        """Return sim(z, z') of all images in z0 with all in z1.

        Args:
            z0: Projections (C, N, D) of the first view.
            z1: Projections (C, N, D) of the second view.

        Returns:
            Cosines (C, N, N).
        """
        with full_precision(z0):
            z0, _ = self._split("z0", z0)
            z1, _ = self._split("z1", z1)
            return all_pairs(unit(z0), unit(z1))

    def extra_repr(self) -> str:
        return (
            f"num_heads={self.num_heads}, beta={self.beta:.4g}, prior_tau={self.prior_tau}, "
            f"head_reduction={self.head_reduction!r}, head_diversity={self.head_diversity:.4g}"
        )

    def _prior_tau(self, dim: int, z: torch.Tensor) -> F.Prior:
        """Return τ₀ of Ω; where heads have their own, (C, 1, 1) in the dtype of z."""
        if isinstance(self.prior_tau, str):
            return literal_prior_tau(dim)
        if isinstance(self.prior_tau, Sequence):
            return z.new_tensor(self.prior_tau).view(-1, 1, 1)
        return self.prior_tau

    def _result(
        self, loss: torch.Tensor, stats: LossStats | None, z0: torch.Tensor, z1: torch.Tensor
    ) -> torch.Tensor | tuple[torch.Tensor, LossStats]:
        """Add the penalty on heads that agree; return the loss, with statistics if there are any.

        Args:
            loss: The loss without the penalty.
            stats: Statistics of the call; None where they are not wanted.
            z0: Projections (C, N, D) of the first view, without extra outputs.
            z1: Projections (C, N, D) of the second view, or (1, N, D) where heads share them.
        """
        if self.num_heads > 1 and (self.head_diversity or stats is not None):
            z1 = z1.expand_as(z0)
            if self.head_diversity:
                agreement = F.mean_agreement(F.head_agreement(z0, z1, sum_over_ranks))
                penalty = self.head_diversity * agreement.relu()
                loss = loss + penalty
                terms = {"diversity": penalty.detach()}
            else:  # statistics are those of this process: no other has to ask for them
                agreement = F.mean_agreement(F.head_agreement(z0.detach(), z1.detach()))
                terms = {}
            if stats is not None:
                terms = {**stats.terms, **terms}
                stats = replace(stats, agreement=agreement.detach(), terms=terms)
        return loss if stats is None else (loss, stats)

    def _over_heads(self, total: torch.Tensor) -> torch.Tensor:
        """Reduce a sum over heads."""
        return total / self.num_heads if self.head_reduction == "mean" else total

    def _split(self, name: str, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Check z and split it into projections (C, N, D) and extra outputs of the temperature."""
        z = self._checked(name, z, self.num_heads)
        extra = self.temperature.extra_outputs
        if z.shape[-1] <= extra:
            raise ValueError(
                f"{name} is {z.shape[-1]} wide, and {type(self.temperature).__name__} takes "
                f"{extra} of it: make the heads D + {extra} wide."
            )
        return (z[..., :-extra], z[..., -extra:]) if extra else (z, None)

    def _checked(self, name: str, z: torch.Tensor, heads: int) -> torch.Tensor:
        """Return z as (heads, N, ·), in float32 at least: 1/τ overflows float16."""
        _require_tensor(name, z)
        if z.ndim == 2 and heads == 1:
            z = z.unsqueeze(0)
        if z.ndim != 3 or z.shape[0] != heads:
            raise ValueError(_shape_error(name, z, heads))
        if not z.is_floating_point():
            raise TypeError(
                f"{name} must be floating point, got {z.dtype}: it is the output of the heads."
            )
        if self.validate and not torch.isfinite(z).all():
            bad = (~torch.isfinite(z)).sum().item()
            raise ValueError(
                f"{name} holds {bad} values that are NaN or infinite. The network diverged before "
                "this loss: lower the learning rate, clip gradients, or look at the input images."
            )
        return z.float() if z.dtype in (torch.float16, torch.bfloat16) else z


def check_priors(prior_tau: Sequence[float], num_heads: int) -> None:
    """Raise an error unless there is a temperature τ₀ for each head.

    Args:
        prior_tau: Temperatures of heads.
        num_heads: Number C of heads.
    """
    if len(prior_tau) != num_heads:
        raise ValueError(
            f"prior_tau has {len(prior_tau)} temperatures and there are {num_heads} heads: give "
            "one number for all, or one for each head."
        )
    for each in prior_tau:
        positive_number("prior_tau", each, PRIOR_FIX)


def full_precision(z: torch.Tensor) -> AbstractContextManager[object]:
    """Return a context without autocast on the device of z."""
    _require_tensor("z0", z)
    if not torch.amp.is_autocast_available(z.device.type):
        return nullcontext()
    return torch.autocast(z.device.type, enabled=False)


def same_items(z0: torch.Tensor, z1: torch.Tensor) -> None:
    """Raise an error unless the two views have the same items, width, dtype and device."""
    if (z0.dtype, z0.device) != (z1.dtype, z1.device):
        raise TypeError(
            f"the two views must have the same dtype and device: got {z0.dtype} on {z0.device} and "
            f"{z1.dtype} on {z1.device}."
        )
    if z0.shape[1:] != z1.shape[1:]:
        raise ValueError(
            "the two views must show the same N images in the same width D: got (N, D) = "
            f"{tuple(z0.shape[1:])} and {tuple(z1.shape[1:])}."
        )
    if not z0.shape[1]:
        raise ValueError(f"the views hold no images, got {tuple(z0.shape)}: skip empty batches.")


def _require_tensor(name: str, z: object) -> None:
    if not isinstance(z, torch.Tensor):
        raise TypeError(f"{name} must be a tensor (C, N, D), got {type(z).__name__}.")


def _shape_error(name: str, z: torch.Tensor, heads: int) -> str:
    message = f"{name} must be (C, N, D) with C = {heads}, got {tuple(z.shape)}"
    if z.ndim == 3 and z.shape[1] == heads:
        return f"{message}: heads come first, use {name}.transpose(0, 1)."
    if z.ndim == 3 and z.shape[2] == heads:
        return f"{message}: heads come first, use {name}.permute(2, 0, 1)."
    if z.ndim == 3 and name == "z0":
        return f"{message}: make the loss with num_heads={z.shape[0]}."
    if z.ndim == 2:
        return f"{message}: give the output of ProjectionHeads, or make the loss with num_heads=1."
    return f"{message}: give the output of the {heads} heads."
