"""NT-Xent and InfoNCE for C heads and any temperature scheme."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch

from amcl import functional as F
from amcl.distributed import rank, world_size
from amcl.losses.base import HeadReduction, PairMatrix, PriorTau, full_precision
from amcl.losses.forms import FORMS, Form
from amcl.losses.pair_loss import PairLoss
from amcl.losses.pairs import Compared, Items, Pairs
from amcl.losses.statistics import LossStats
from amcl.settings import choose, whole_number
from amcl.temperature import Temperature


class ContrastiveLoss(PairLoss):
    """Contrast two views of N images in C heads (Eq. 2.1 and 2.4: SimCLR, MoCo, CAN, LGP).

    Called with two views (C, N, D), the negatives come from the batch. Called with `negatives`
    (C, K, D), such as a queue, the same on every process, the first view is the anchor and the
    second its positive (MoCo). Over several processes candidates are gathered from all of them
    with gradient; each must have the same N.

    Args:
        num_heads: Number C of heads.
        temperature: Temperature scheme.
        form: "softmax" over all negatives; "top_k", the paper's best, the plain mean over the κ
            most similar of each head; "max", the same with κ = 1; "top_k_softmax", not in the
            paper, the softmax over those κ, whose weighting prevents the collapse of plain top_k;
            "dcl", "dclw", "hard" and "sigmoid", forms of other papers (docs/guide.md); or the name
            of a form that was registered with `forms.register_form`.
        top_k: Number κ of negatives.
        positive_in_denominator: True, the default, is InfoNCE, False NT-Xent as published; in
            "top_k" and "max" the positive then competes with the κ negatives. "dcl", "dclw" and
            "sigmoid" do not have it there.
        hard_beta: "hard": concentration on similar negatives, 1 by default; 0 switches it off.
        debias: "hard": share of negatives assumed to be of the anchor's class, 0.1 by default; 0
            switches the correction off.
        dclw_sigma: "dclw": width σ of the weights of positives, 0.5 by default.
        sigmoid_bias: "sigmoid": first value of the learned bias b, −10 by default.
        negatives: "both_views" makes 2N anchors with 2N − 2 negatives each (SimCLR), "other_view"
            N anchors, those of the first view, with N − 1 each (MoCo v3).
        similarity: "plain" is the paper's s; "relative" measures s from the level of the anchor's
            hard negatives (`functional.negative_level`), so that temperatures cannot make up for
            projections that are alike in groups. It makes no difference if all pairs of an anchor
            share a temperature.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω, or "literal" for the paper's 2/D, or one for each head.
        omega_set: Ω of a set of negatives, the κ chosen or those of Eq. 3, is their "mean" or the
            paper's set form ("literal").
        omega_place: In the softmax forms Ω of each negative pair is "inside" the logarithm, so
            that u = s/τ − βΩ(τ) is the logit of a pair, or Ω of all of them "outside" (Eq. 3).
        head_reduction: "mean" over heads keeps the learning rate of one head, "sum" is the paper.
        head_diversity: Weight of the penalty on heads that agree, see `HeadLoss`.
        max_pairs: Greatest number of pairs in memory at a time, see `PairLoss`.
        validate: Check the input for NaN, which waits for the device once a call.

    Example:
        >>> from amcl.temperature import ConstantTemperature
        >>> z0, z1 = torch.randn(2, 3, 16, 32)
        >>> simclr = ContrastiveLoss(3, ConstantTemperature(0.5))
        >>> loss, stats = simclr(z0, z1, return_stats=True)
        >>> stats.negative.s.shape
        torch.Size([3])
    """

    has_probability: ClassVar[bool] = True

    def __init__(
        self,
        num_heads: int,
        temperature: Temperature,
        *,
        form: str = "softmax",
        top_k: int | None = None,
        positive_in_denominator: bool | None = None,
        hard_beta: float | None = None,
        debias: float | None = None,
        dclw_sigma: float | None = None,
        sigmoid_bias: float | None = None,
        negatives: Literal["both_views", "other_view"] = "both_views",
        similarity: F.Similarity = "plain",
        beta: float = 0.0,
        prior_tau: PriorTau = 0.1,
        omega_set: F.OmegaSet = "mean",
        omega_place: F.OmegaPlace = "inside",
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
        given = {
            "top_k": top_k,
            "hard_beta": hard_beta,
            "debias": debias,
            "dclw_sigma": dclw_sigma,
            "sigmoid_bias": sigmoid_bias,
        }
        self.contrast_form = _make_form(form, given)
        choose("negatives", negatives, ("both_views", "other_view"))
        choose("similarity", similarity, ("relative", "plain"))
        choose("omega_set", omega_set, ("mean", "literal"))
        choose("omega_place", omega_place, ("inside", "outside"))
        self.form = form
        self.top_k = top_k
        self.negatives = negatives
        self.similarity = similarity
        self.omega_set = omega_set
        self.omega_place = omega_place
        self.positive_in_denominator = self._has_positive_below(positive_in_denominator)
        self._check_form()
        self._check_omega()
        self._check_probability()

    def _has_positive_below(self, wanted: bool | None) -> bool:
        """Return whether the positive is in the denominator; an error if the form decides that."""
        fixed = self.contrast_form.positive_in_denominator
        if fixed is None:
            return wanted is not False
        if wanted is not None:
            raise ValueError(
                f"form={self.form!r} does not have the positive in a denominator: leave out "
                f"positive_in_denominator={wanted}, or use form='softmax'."
            )
        return fixed

    def _check_form(self) -> None:
        """Raise an error if κ or the similarity does not go with the form."""
        if self.contrast_form.takes_top_k:
            whole_number("top_k", self.top_k, f"form={self.form!r} keeps that many negatives (κ)")
        if self.similarity == "relative" and not self.contrast_form.shift_invariant:
            raise ValueError(
                f"form={self.form!r} depends on similarities themselves and not on their "
                "differences: use similarity='plain', or form='softmax'."
            )

    def _check_omega(self) -> None:
        """Raise an error if the form of Ω does not go with the form of the loss."""
        softmax = self.contrast_form.has_softmax
        if self.omega_set == "literal" and softmax and self.omega_place == "inside":
            raise ValueError(
                "omega_set='literal' is the paper's Ω of a set of negatives: it goes with "
                "form='top_k' or 'max', or with omega_place='outside', got "
                f"form={self.form!r} and omega_place='inside'."
            )
        if self.omega_place == "outside" and not softmax:
            raise ValueError(
                f"form={self.form!r} has no softmax, so Ω is always outside of it: leave out "
                "omega_place='outside'."
            )

    def _check_probability(self) -> None:
        """Raise an error if the temperatures need a probability that the form does not have."""
        has_probability = self.contrast_form.has_softmax and self.positive_in_denominator
        if self.temperature.needs_probability and not has_probability:
            raise ValueError(
                f"{type(self.temperature).__name__} weighs anchors by the probability of their "
                "positive: it goes with a softmax form and the positive in the denominator, got "
                f"form={self.form!r} and positive_in_denominator={self.positive_in_denominator}. "
                "Use these, or reweight=False (--no-macl-reweight)."
            )

    def forward(
        self,
        z0: torch.Tensor,
        z1: torch.Tensor,
        negatives: torch.Tensor | None = None,
        *,
        return_stats: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, LossStats]:
        """Compute the loss of two views.

        Args:
            z0: Projections (C, N, D) of the first view.
            z1: Projections (C, N, D) of the second view.
            negatives: Projections (C, K, D) of other images; None takes those of the batch.
            return_stats: Return statistics too.

        Returns:
            The loss, or the loss and its statistics.
        """
        with full_precision(z0):
            view0, view1 = self._views(z0, z1)
            pairs = self._pairs(view0, view1, negatives)
            self._check_negatives(pairs)
            pairs = replace(pairs, value=self.contrast_form.anchor_values(pairs))
            _, n, dim = pairs.anchors.vectors.shape
            prior_tau = self._prior_tau(dim, view0.vectors)
            total, stats = self._sum_over_blocks(pairs, prior_tau, return_stats)
            loss = self._over_heads(total / n)
            if stats is not None:
                stats = stats.reduce_terms(lambda term: self._over_heads(term.sum() / n))
            return self._result(loss, stats, view0.vectors, view1.vectors)

    def pair_matrix(self, z0: torch.Tensor, z1: torch.Tensor) -> PairMatrix:
        """Return s and τ of each image of the first view with each of the second, in each head.

        Args:
            z0: Projections (C, N, D) of the first view.
            z1: Projections (C, N, D) of the second view.

        Returns:
            Similarities and temperatures, (C, N, N) each, and the bounds of τ.

        Example:
            >>> from amcl.temperature import ConstantTemperature
            >>> loss = ContrastiveLoss(3, ConstantTemperature(0.5))
            >>> loss.pair_matrix(*torch.randn(2, 3, 4, 8)).tau.shape
            torch.Size([3, 4, 4])
        """
        with full_precision(z0):
            return self._matrix(*self._views(z0, z1))

    def extra_repr(self) -> str:
        top_k = "" if self.top_k is None else f", top_k={self.top_k}"
        return (
            f"{super().extra_repr()}, form={self.form!r}{top_k}, negatives={self.negatives!r}, "
            f"positive_in_denominator={self.positive_in_denominator}"
        )

    def _pairs(self, view0: Items, view1: Items, negatives: torch.Tensor | None) -> Pairs:
        n = view0.vectors.shape[1]
        index = torch.arange(n, device=view0.vectors.device).unsqueeze(1)
        if negatives is not None:
            negatives, extra = self._split("negatives", negatives)
            _check_width(negatives, view0.vectors)
            _check_dtype(negatives, view0.vectors)
            queue = self._projections(negatives, extra, shared=True).as_candidates()
            return Pairs(view0, view1.as_positives(), queue, ignore=index[:, :0])
        itself = index + rank() * n
        candidates = view1.as_candidates_of_all_ranks()
        if self.negatives == "other_view":
            return Pairs(view0, view1.as_positives(), candidates, ignore=itself)
        partner = itself + world_size() * n
        return Pairs(
            view0.concat(view1),
            view1.as_positives().concat(view0.as_positives()),
            view0.as_candidates_of_all_ranks().concat(candidates),
            ignore=torch.cat([torch.cat([itself, partner], 1), torch.cat([partner, itself], 1)]),
        )

    def _check_negatives(self, pairs: Pairs) -> None:
        available = pairs.num_negatives
        if available < 1:
            raise ValueError(
                f"{pairs.candidates.vectors.shape[1]} candidates leave no negatives: give at "
                "least N = 2 images, or `negatives` that are not empty."
            )
        if self.top_k is not None and self.top_k > available:
            raise ValueError(
                f"top_k = {self.top_k} (κ) is more than the K = {available} negatives an anchor "
                "has: lower top_k, or enlarge the batch or the queue."
            )

    @property
    def kappa(self) -> int | None:
        return self.contrast_form.fixed_kappa or self.top_k

    def _level(self, pairs: Compared, prior_tau: F.Prior) -> torch.Tensor | None:
        branches = [self.temperature.branch(sign) for sign in ("positive", "negative")]
        if self.similarity == "plain" or not any(branch.pairwise for branch in branches):
            return None  # with one τ for all pairs of an anchor it would cancel
        return F.negative_level(pairs.s_neg, prior_tau, pairs.ignored)

    def _contrast(self, pairs: Compared, prior_tau: F.Prior) -> tuple[torch.Tensor, Compared]:
        return self.contrast_form.contrast(self, pairs, prior_tau)

    def _terms(
        self, loss: torch.Tensor, pairs: Compared, prior_tau: F.Prior
    ) -> dict[str, torch.Tensor]:
        positive = self.contrast_form.positive_terms(self, pairs, prior_tau)
        rest = loss
        for term in positive.values():
            rest = rest - term
        return {**positive, **self.contrast_form.negative_terms(self, rest, pairs, prior_tau)}


def _make_form(name: str, given: Mapping[str, Any]) -> Form:
    """Return a form with its settings; an error if there are some that belong to other forms."""
    form = FORMS[name]
    given = {option: value for option, value in given.items() if value is not None}
    for option, value in given.items():
        if not form.takes(option):
            others = " or ".join(repr(other) for other in FORMS if FORMS[other].takes(option))
            raise ValueError(f"form={name!r} takes no {option}={value}: use form={others}.")
    return form(**{option: value for option, value in given.items() if option != "top_k"})


def _check_dtype(negatives: torch.Tensor, z: torch.Tensor) -> None:
    if negatives.dtype != z.dtype:
        raise TypeError(
            f"negatives are {negatives.dtype} and the views {z.dtype}: use negatives.to({z.dtype})."
        )


def _check_width(negatives: torch.Tensor, z: torch.Tensor) -> None:
    if negatives.shape[-1] != z.shape[-1]:
        transposed = negatives.shape[1] == z.shape[-1]
        fix = "use negatives.transpose(1, 2)" if transposed else "keep the output of the same heads"
        raise ValueError(
            f"negatives must be (C, K, D) with D = {z.shape[-1]}, got {tuple(negatives.shape)}: "
            f"{fix}."
        )
