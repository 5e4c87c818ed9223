"""The supervised contrastive loss for C heads and any temperature scheme."""

import torch

from amcl import functional as F
from amcl.distributed import gather, rank, world_size
from amcl.losses.base import HeadReduction, PairMatrix, PriorTau, full_precision
from amcl.losses.pair_loss import PairLoss
from amcl.losses.pairs import Items, LabeledPairs, Pairs
from amcl.losses.statistics import LossStats, PairStats
from amcl.temperature import Temperature


class SupervisedContrastiveLoss(PairLoss):
    """Contrast images of one class with those of others, in C heads (SupCon).

    It is L_out of arXiv 2004.11362 over the 2N anchors of two views: each has as positives its
    other view and both views of every image with its label, and the loss is the mean of InfoNCE
    over them (`functional.supervised_contrast`). Each pair has its temperature; where pairs of
    both signs have schemes of their own, the labels decide about the sign. Where all labels differ
    it is `ContrastiveLoss`. Over several processes candidates and their labels are gathered from
    all of them with gradient; each must have the same N.

    Args:
        num_heads: Number C of heads.
        temperature: Temperature scheme.
        beta: Weight β of Ω, which is part of the logit of each pair.
        prior_tau: Minimum τ₀ of Ω, or "literal" for the paper's 2/D.
        head_reduction: "mean" over heads keeps the learning rate of one head, "sum" is the paper.
        head_diversity: Weight of the penalty on heads that agree, see `HeadLoss`.
        max_pairs: Greatest number of pairs in memory at a time, see `PairLoss`.
        validate: Check the input for NaN, which waits for the device once a call.

    Example:
        >>> from amcl.temperature import ConstantTemperature
        >>> z0, z1 = torch.randn(2, 3, 16, 32)
        >>> loss = SupervisedContrastiveLoss(3, ConstantTemperature(0.1))
        >>> loss(z0, z1, torch.arange(16) % 4).shape  # four classes
        torch.Size([])
    """

    def __init__(
        self,
        num_heads: int,
        temperature: Temperature,
        *,
        beta: float = 0.0,
        prior_tau: PriorTau = 0.1,
        head_reduction: HeadReduction = "mean",
        head_diversity: float = 0.0,
        max_pairs: int | None = None,
        validate: bool = True,
    ) -> None:
        super().__init__(
            num_heads,
            temperature,
            max_pairs=max_pairs,
            beta=beta,
            prior_tau=prior_tau,
            head_reduction=head_reduction,
            head_diversity=head_diversity,
            validate=validate,
        )

    def forward(
        self,
        z0: torch.Tensor,
        z1: torch.Tensor,
        labels: torch.Tensor,
        *,
        return_stats: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, LossStats]:
        """Compute the loss of two views.

        Args:
            z0: Projections (C, N, D) of the first view.
            z1: Projections (C, N, D) of the second view.
            labels: Classes (N,) of the images, whole numbers.
            return_stats: Return statistics too.

        Returns:
            The loss, or the loss and its statistics.
        """
        with full_precision(z0):
            view0, view1 = self._views(z0, z1)
            pairs = self._pairs(view0, view1, labels)
            _, n, dim = pairs.anchors.vectors.shape
            prior_tau = self._prior_tau(dim, view0.vectors)
            total, stats = self._sum_over_blocks(pairs, prior_tau, return_stats)
            loss = self._over_heads(total / n)
            if stats is not None:
                stats = stats.reduce_terms(lambda term: self._over_heads(term.sum() / n))
            return self._result(loss, stats, view0.vectors, view1.vectors)

    def pair_matrix(
        self, z0: torch.Tensor, z1: torch.Tensor, labels: torch.Tensor | None = None
    ) -> PairMatrix:
        """Return s and τ of each image of the first view with each of the second, in each head.

        Args:
            z0: Projections (C, N, D) of the first view.
            z1: Projections (C, N, D) of the second view.
            labels: Classes (N,) of the images, by which pairs have the τ of positive or of negative
                ones; None: pairs of two images are negative.

        Returns:
            Similarities and temperatures, (C, N, N) each, and the bounds of τ.
        """
        with full_precision(z0):
            rows, columns = self._views(z0, z1)
            matrix = self._matrix(rows, columns)
            if labels is None:
                return matrix
            _check_labels(labels, rows.vectors.shape[1])
            same = labels.unsqueeze(1) == labels
            scheme = self.temperature.branch("positive")
            tau = scheme.tau(rows.positive_keys, columns.positive_keys, F.all_pairs)
            return matrix._replace(tau=torch.where(same.to(matrix.tau.device), tau, matrix.tau))

    def _pairs(self, view0: Items, view1: Items, labels: torch.Tensor) -> LabeledPairs:
        n = view0.vectors.shape[1]
        device = view0.vectors.device
        _check_labels(labels, n)
        labels = labels.to(device)
        candidates = view0.of_all_ranks().concat(view1.of_all_ranks())
        if candidates.vectors.shape[1] < 4:
            raise ValueError("one image has no others to compare with: give at least N = 2 images.")
        itself = torch.arange(n, device=device).unsqueeze(1) + rank() * n
        return LabeledPairs(
            view0.concat(view1),
            candidates.as_positives(),
            candidates.as_candidates(),
            ignore=torch.cat([itself, itself + world_size() * n]),
            anchor_labels=labels.repeat(2),
            labels=gather(labels.view(1, n, 1), check=False).flatten().repeat(2),
        )

    def _block(
        self, pairs: Pairs, prior_tau: F.Prior, with_stats: bool
    ) -> tuple[torch.Tensor, LossStats | None]:
        assert isinstance(pairs, LabeledPairs)
        if isinstance(prior_tau, torch.Tensor):
            prior_tau = prior_tau[pairs.heads]
        anchors, candidates = pairs.anchors, pairs.candidates
        s = F.all_pairs(anchors.vectors, candidates.vectors)
        same = pairs.same_label()
        itself = pairs.ignored()
        assert itself is not None
        is_positive = same & ~itself
        positive = self.temperature.branch("positive").for_heads(pairs.heads)
        negative = self.temperature.branch("negative").for_heads(pairs.heads)
        tau = negative.tau(anchors.negative_keys, candidates.keys, F.all_pairs)
        if self.temperature.branch("positive") is not self.temperature.branch("negative"):
            tau_pos = positive.tau(anchors.positive_keys, pairs.positives.keys, F.all_pairs)
            tau = torch.where(same, tau_pos, tau)
        loss = F.supervised_contrast(
            s, tau, is_positive, itself, beta=self.beta, prior_tau=prior_tau
        )
        if not with_stats:
            return loss, None
        with torch.no_grad():
            share = is_positive.to(s.dtype) / is_positive.sum(-1, keepdim=True)
            pull = -(share * s / tau).sum((1, 2))
            omega = self.beta * (share * F.omega(tau, prior_tau)).expand_as(s).sum((1, 2))
            stats = LossStats(
                PairStats.of(s, tau, ~is_positive, self._bounds(positive)),
                PairStats.of(s, tau, same, self._bounds(negative)),
                {
                    "positive": pull,
                    "omega_positive": omega,
                    "negative": loss.sum(1) - pull - omega,
                },
            )
        return loss, stats


def _check_labels(labels: object, n: int) -> None:
    if not isinstance(labels, torch.Tensor):
        raise TypeError(f"labels must be a tensor (N,), got {type(labels).__name__}.")
    if labels.is_floating_point() or labels.is_complex():
        raise TypeError(
            f"labels must be whole numbers, one class for each image, got {labels.dtype}: use "
            "labels.long()."
        )
    if labels.shape != (n,):
        raise ValueError(
            f"labels must be (N,) with N = {n}, got {tuple(labels.shape)}: give one class for each "
            "image, not for each view."
        )
