"""The loss of DINO for C heads and any temperature scheme."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch.utils.checkpoint import checkpoint

from amcl import functional as F
from amcl.distributed import gather, mean_over_ranks
from amcl.losses.base import (
    HeadLoss,
    HeadReduction,
    PairMatrix,
    PriorTau,
    full_precision,
    same_items,
)
from amcl.losses.statistics import LossStats, PairStats
from amcl.settings import choose, non_negative_int, positive_number, whole_number
from amcl.temperature import Temperature

Centering = Literal["center", "sinkhorn"]


class DINOLoss(HeadLoss):
    """Predict the teacher's distribution over prototypes from another view, in C heads (DINO).

    The student's distribution is softmax(s/τ), with s its similarities to K prototypes. The pairs
    are those of a view that the student sees with another that the teacher sees of the same image:
    the scheme's positive branch gives each its τ. It reads projections less the mean of their view,
    which is what the center leaves of them. Ω stands beside the cross-entropy, because all
    prototypes share the τ of a pair. There are no negatives.

    Only one view of one head is compared with the prototypes at a time, and again in the backward
    pass: memory does not grow with the number of views, of which K similarities each are large.

    Call `update_center` after each step of the optimizer.

    Args:
        num_heads: Number C of heads.
        temperature: Temperature scheme of the student; a constant 0.1 is DINO.
        num_prototypes: Number K of prototypes of each head.
        teacher_tau: Temperature of the teacher after its warm-up.
        teacher_tau_start: Temperature of the teacher at the start.
        teacher_tau_warmup: Number of epochs in which it rises, epoch by epoch, as `set_epoch` says.
        centering: "center" subtracts a moving average of the teacher's similarities; "sinkhorn"
            makes the batch use all prototypes equally.
        center_momentum: Share of itself that the center keeps in a step.
        sinkhorn_iterations: Number of iterations of Sinkhorn and Knopp.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω, or "literal" for the paper's 2/D.
        head_reduction: "mean" over heads keeps the learning rate of one head, "sum" is the paper.
        head_diversity: Weight of the penalty on heads that agree, see `HeadLoss`.
        validate: Check the input for NaN, which waits for the device once a call.

    Example:
        >>> from amcl.temperature import ConstantTemperature
        >>> loss = DINOLoss(3, ConstantTemperature(0.1), num_prototypes=64)
        >>> student = torch.randn(4, 3, 16, 8)  # four views, three heads, 16 images
        >>> teacher = torch.randn(2, 3, 16, 8)  # the first two of the views
        >>> prototypes, of_teacher = torch.randn(2, 3, 64, 8)
        >>> loss(student, teacher, prototypes, of_teacher).shape
        torch.Size([])
        >>> loss.update_center()
    """

    center: torch.Tensor | None
    teacher_tau: float
    """Temperature of the teacher in the epoch that `set_epoch` was called with."""

    def __init__(
        self,
        num_heads: int,
        temperature: Temperature,
        *,
        num_prototypes: int = 65536,
        teacher_tau: float = 0.07,
        teacher_tau_start: float = 0.04,
        teacher_tau_warmup: int = 30,
        centering: Centering = "center",
        center_momentum: float = 0.9,
        sinkhorn_iterations: int = 3,
        beta: float = 0.0,
        prior_tau: PriorTau = 0.1,
        head_reduction: HeadReduction = "mean",
        head_diversity: float = 0.0,
        validate: bool = True,
    ) -> None:
        super().__init__(
            num_heads,
            temperature,
            beta=beta,
            prior_tau=prior_tau,
            head_reduction=head_reduction,
            head_diversity=head_diversity,
            validate=validate,
        )
        self.num_prototypes = whole_number("num_prototypes", num_prototypes)
        self.final_tau = positive_number("teacher_tau", teacher_tau, "DINO has 0.04 to 0.07")
        self.first_tau = positive_number("teacher_tau_start", teacher_tau_start, "DINO has 0.04")
        self.warmup = non_negative_int("teacher_tau_warmup", teacher_tau_warmup, "it is in epochs")
        choose("centering", centering, ("center", "sinkhorn"))
        if not 0 <= center_momentum <= 1:
            raise ValueError(
                f"center_momentum must lie in [0, 1], got {center_momentum}: DINO 0.9."
            )
        self.centering = centering
        self.center_momentum = float(center_momentum)
        self.iterations = whole_number("sinkhorn_iterations", sinkhorn_iterations)
        by_center = centering == "center"
        zeros = torch.zeros(num_heads, 1, num_prototypes) if by_center else None
        self.register_buffer("center", zeros)
        self.teacher_tau = self.tau_of_teacher(0.0)
        self._batch_centers: list[torch.Tensor] = []

    def tau_of_teacher(self, epoch: float) -> float:
        """Return the teacher's temperature in an epoch.

        Args:
            epoch: Epochs since the start of training; fractions do not count.

        Returns:
            The temperature, of which the warm-up reaches the last value in its last epoch.

        Example:
            >>> from amcl.temperature import ConstantTemperature
            >>> loss = DINOLoss(1, ConstantTemperature(0.1), num_prototypes=8)
            >>> [round(loss.tau_of_teacher(epoch), 4) for epoch in (0, 14.5, 29, 30)]
            [0.04, 0.0545, 0.07, 0.07]
        """
        if epoch >= self.warmup:
            return self.final_tau
        progress = math.floor(epoch) / max(self.warmup - 1, 1)
        return self.first_tau + (self.final_tau - self.first_tau) * progress

    def set_epoch(self, epoch: float) -> None:
        super().set_epoch(epoch)
        self.teacher_tau = self.tau_of_teacher(epoch)

    def forward(
        self,
        student: Sequence[torch.Tensor],
        teacher: Sequence[torch.Tensor],
        prototypes: torch.Tensor,
        teacher_prototypes: torch.Tensor,
        *,
        return_stats: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, LossStats]:
        """Compute the loss of V views that the student sees, and T of them that the teacher sees.

        No gradient reaches the teacher, but φ sees its projections and is trained through them.

        Args:
            student: V projections (C, N, D), those of the teacher's views first. They are brought
                to length one.
            teacher: T projections (C, N, D).
            prototypes: Prototypes (C, K, D) of the student.
            teacher_prototypes: Prototypes (C, K, D) of the teacher.
            return_stats: Return statistics too.

        Returns:
            The loss, or the loss and its statistics. The mean is over all pairs of different views.
        """
        if not 1 <= len(teacher) <= len(student) or len(student) < 2:
            raise ValueError(
                f"the student sees two views or more, and the teacher the first of them: got "
                f"{len(student)} and {len(teacher)} views."
            )
        with full_precision(student[0]):
            views = [self._split(f"student[{v}]", z) for v, z in enumerate(student)]
            targets = [self._split(f"teacher[{t}]", z.detach())[0] for t, z in enumerate(teacher)]
            for z in (*(z for z, _ in views[1:]), *targets):
                same_items(views[0][0], z)
            weights = self._prototypes("prototypes", prototypes, views[0][0])
            of_teacher = self._prototypes("teacher_prototypes", teacher_prototypes, views[0][0])
            of_teacher = of_teacher.detach()
            units = [F.unit(z) for z, _ in views]
            unit_targets = [F.unit(z) for z in targets]
            tau = self._temperatures(units, [extra for _, extra in views], unit_targets)
            entropies, total = units[0].new_zeros(()), units[0].new_zeros(())
            for c in range(self.num_heads):
                q = self._targets(c, torch.stack([z[c] for z in unit_targets]), of_teacher[c])
                total = total + self._cross_entropy(c, units, q, weights[c], tau)
                if return_stats:
                    entropies += torch.special.entr(q).sum(-1).mean()
            if self.training and self.center is not None:
                mean = torch.stack(unit_targets).mean((0, 2)).unsqueeze(1)
                self._batch_centers.append(mean @ of_teacher.mT)
            pairs = torch.cat([t.expand(self.num_heads, -1, 1) for t in tau.values()], dim=1)
            omega = F.omega(pairs, self._prior_tau(units[0].shape[-1], units[0])).mean((1, 2)).sum()
            loss = self._over_heads(total + self.beta * omega if self.beta else total)
            if not return_stats:
                return self._result(loss, None, units[0], units[1])
            with torch.no_grad():
                s = torch.cat([F.paired(units[v], unit_targets[t]) for v, t in tau], dim=1)
                terms = {
                    "entropy": self._over_heads(entropies),
                    "divergence": self._over_heads(total.detach() - entropies),
                    "omega_positive": self._over_heads(self.beta * omega.detach()),
                }
                bounds = self.temperature.branch("positive").bounds()
                stats = LossStats(PairStats.of(s, pairs, None, bounds), None, terms)
            return self._result(loss, stats, units[0], units[1])

    @torch.no_grad()
    def update_center(self) -> None:
        """Move the center toward the mean of what the teacher saw since the last call.

        The mean is over all processes and over all parts of a step, and so this is called after the
        step. With "sinkhorn" there is no center to update.
        """
        if self.center is not None and self._batch_centers:
            mean = mean_over_ranks(torch.stack(self._batch_centers).mean(0))
            self.center.lerp_(mean.to(self.center), 1.0 - self.center_momentum)
        self._batch_centers.clear()

    def pair_matrix(self, z0: torch.Tensor, z1: torch.Tensor) -> PairMatrix:
        """Return s and τ of each projection of the student with each of the teacher.

        s are the cosines of projections, which the loss compares by way of prototypes. It sees
        positive pairs alone: τ of the others is that of the positive branch.

        Args:
            z0: Projections (C, N, D) of the student, of the first view.
            z1: Projections (C, N, D) of the teacher, of the second view.

        Returns:
            Similarities and temperatures, (C, N, N) each, and the bounds of τ.
        """
        with full_precision(z0):
            anchors, extra = self._split("z0", z0)
            others, _ = self._split("z1", z1.detach())
            units = [F.unit(anchors), F.unit(others)]
            anchors, others = _from_mean(units)
            scheme = self.temperature.branch("positive")
            scheme.observe(F.unit(anchors), F.unit(others))
            tau = scheme.tau(scheme.keys(anchors, extra), scheme.keys(others), F.all_pairs)
            s = F.all_pairs(*units)
            bounds = scheme.bounds()
            return PairMatrix(s, tau.expand_as(s), bounds, bounds)

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, num_prototypes={self.num_prototypes}, "
            f"centering={self.centering!r}"
        )

    def _temperatures(
        self,
        units: list[torch.Tensor],
        extras: list[torch.Tensor | None],
        targets: list[torch.Tensor],
    ) -> dict[tuple[int, int], torch.Tensor]:
        """Return τ (C or 1, N, 1) of the pairs (student's view, teacher's view) of the loss."""
        scheme = self.temperature.branch("positive")
        relative = _from_mean([*units, *targets])
        of_student = relative[: len(units)]
        of_teacher = relative[len(units) :]
        pairs = [(v, t) for v in range(len(units)) for t in range(len(targets)) if v != t]
        scheme.observe(
            torch.cat([F.unit(of_student[v]) for v, _ in pairs], dim=1),
            torch.cat([F.unit(of_teacher[t]) for _, t in pairs], dim=1),
        )
        student_keys = [scheme.keys(z, e) for z, e in zip(of_student, extras, strict=True)]
        teacher_keys = [scheme.keys(z) for z in of_teacher]
        return {(v, t): scheme.tau(student_keys[v], teacher_keys[t], F.paired) for v, t in pairs}

    @torch.no_grad()
    def _targets(self, c: int, z: torch.Tensor, prototypes: torch.Tensor) -> torch.Tensor:
        """Return the distributions (T, N, K) of a head from the teacher's units (T, N, D)."""
        s = z.flatten(0, 1) @ prototypes.mT
        if self.center is not None:
            q = F.centered_targets(s, self.center[c].to(s), self.teacher_tau)
        else:
            q = F.sinkhorn_targets(s[None], self.teacher_tau, self.iterations, _gathered)[0]
        return q.view(*z.shape[:2], -1)

    def _cross_entropy(
        self,
        c: int,
        units: list[torch.Tensor],
        q: torch.Tensor,
        prototypes: torch.Tensor,
        tau: dict[tuple[int, int], torch.Tensor],
    ) -> torch.Tensor:
        """Return the mean cross-entropy of a head over images and pairs of views."""
        losses = []
        for v, z in enumerate(units):
            partners = [t for t in range(len(q)) if t != v]
            if not partners:
                continue
            of_pairs = [tau[v, t] for t in partners]
            of_head = torch.stack([t[c if len(t) > 1 else 0] for t in of_pairs])
            losses.append(
                checkpoint(
                    _compare,
                    z[c],
                    prototypes,
                    of_head,
                    *[q[t] for t in partners],
                    use_reentrant=False,
                    preserve_rng_state=False,
                )
            )
        return torch.cat(losses).mean()

    def _prototypes(self, name: str, weights: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Return the prototypes in the precision of z; raise an error on another shape."""
        shape = (self.num_heads, self.num_prototypes, z.shape[-1])
        if not isinstance(weights, torch.Tensor) or weights.shape != shape:
            actual = tuple(weights.shape) if isinstance(weights, torch.Tensor) else weights
            raise ValueError(
                f"{name} must be (C, K, D) = {shape}, got {actual}: make the loss with "
                "num_prototypes=K, and prototypes as wide as the projections."
            )
        return weights.to(z.dtype)


def _compare(
    z: torch.Tensor, prototypes: torch.Tensor, tau: torch.Tensor, *q: torch.Tensor
) -> torch.Tensor:
    """Return the cross-entropies (P, N) of a view in a head with P views of the teacher."""
    return F.prototype_cross_entropy(z @ prototypes.mT, torch.stack(q), tau)


def _from_mean(units: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return unit vectors (C, N, D) of several views less their mean, each over all processes.

    What all images have in common is left to the center: it says nothing of a pair, and would
    close the gate of adaptive temperatures.
    """
    means = torch.cat([z.mean(1, keepdim=True) for z in units], dim=-1)
    means = _gathered(means).mean(1, keepdim=True)
    return [z - mean for z, mean in zip(units, means.chunk(len(units), dim=-1), strict=True)]


def _gathered(values: torch.Tensor) -> torch.Tensor:
    return gather(values, check=False)
