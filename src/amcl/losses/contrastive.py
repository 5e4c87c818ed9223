"""NT-Xent and InfoNCE for C heads and any temperature scheme."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar, Literal

import torch

from amcl import functional as F
from amcl.distributed import rank, world_size
from amcl.losses.base import (
    HeadReduction,
    PairMatrix,
    PriorTau,
    check_priors,
    full_precision,
)
from amcl.losses.forms import FORMS, Form
from amcl.losses.pairs import Compared, Items, PairLoss, Pairs
from amcl.losses.statistics import LossStats
from amcl.settings import choose, whole_number
from amcl.temperature import AdaptiveTemperature, Temperature, prior_inside, range_around


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
        if self.contrast_form.takes_top_k:
            whole_number("top_k", top_k, f"form={form!r} keeps that many negatives (κ)")
        fixed = self.contrast_form.positive_in_denominator
        if fixed is not None and positive_in_denominator is not None:
            raise ValueError(
                f"form={form!r} does not have the positive in a denominator: leave out "
                f"positive_in_denominator={positive_in_denominator}, or use form='softmax'."
            )
        if similarity == "relative" and not self.contrast_form.shift_invariant:
            raise ValueError(
                f"form={form!r} depends on similarities themselves and not on their differences: "
                "use similarity='plain', or form='softmax'."
            )
        softmax = self.contrast_form.has_softmax
        if omega_set == "literal" and softmax and omega_place == "inside":
            raise ValueError(
                "omega_set='literal' is the paper's Ω of a set of negatives: it goes with "
                "form='top_k' or 'max', or with omega_place='outside', got "
                f"form={form!r} and omega_place='inside'."
            )
        if omega_place == "outside" and not softmax:
            raise ValueError(
                f"form={form!r} has no softmax, so Ω is always outside of it: leave out "
                "omega_place='outside'."
            )
        self.form = form
        self.top_k = top_k
        chosen = positive_in_denominator is not False
        self.positive_in_denominator = chosen if fixed is None else fixed
        if temperature.needs_probability and not (softmax and self.positive_in_denominator):
            raise ValueError(
                f"{type(temperature).__name__} weighs anchors by the probability of their "
                "positive: it goes with a softmax form and the positive in the denominator, got "
                f"form={form!r} and positive_in_denominator={self.positive_in_denominator}. Use "
                "these, or reweight=False (--no-macl-reweight)."
            )
        self.negatives = negatives
        self.similarity = similarity
        self.omega_set = omega_set
        self.omega_place = omega_place

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
            >>> loss = AMCLLoss(num_heads=3, dim=8)
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


class AMCLLoss(ContrastiveLoss):
    """InfoNCE over C heads with a learned temperature for each pair in each head.

    It is a `ContrastiveLoss` with an `AdaptiveTemperature`, and replaces a contrastive loss in
    other code. φ is part of the loss: give `loss.parameters()` to the optimizer too. The range is
    what holds τ: Ω pulls pairs with s < β toward τ₀ and has no minimum inside the range for the
    others.

    Args:
        num_heads: Number C of heads.
        dim: Width D of the projections.
        eta: Lower bound η of τ; by default τ₀/2.
        iota: Width ι of the range of τ; by default τ₀, so that the upper bound is 3τ₀/2.
        lower: Lower bound of τ, with `upper` in place of `eta` and `iota`.
        upper: Upper bound of τ.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω; by default 0.1 if that is in the range, else its center. One
            for each head, such as (0.05, 0.1, 0.2), has heads at several scales, whose
            temperatures vary around them.
        settings: Settings of `AdaptiveTemperature` if they begin with `phi_`, else of
            `ContrastiveLoss`.

    Example:
        >>> z0, z1 = torch.randn(2, 3, 16, 128)
        >>> loss = AMCLLoss(num_heads=3, dim=128)(z0, z1)
        >>> loss.shape
        torch.Size([])
    """

    def __init__(
        self,
        num_heads: int = 3,
        dim: int = 128,
        *,
        eta: float | None = None,
        iota: float | None = None,
        lower: float | Sequence[float] | None = None,
        upper: float | Sequence[float] | None = None,
        beta: float = 0.1,
        prior_tau: PriorTau | None = None,
        **settings: Any,
    ) -> None:
        _check_names(settings)
        if isinstance(prior_tau, Sequence) and not isinstance(prior_tau, str):
            if not (eta is iota is lower is upper is None):
                raise ValueError(
                    f"prior_tau={tuple(prior_tau)} gives each head a range of its own, half of its "
                    "τ₀ to either side: leave out eta, iota, lower and upper."
                )
            check_priors(prior_tau, num_heads)
            ranges = [range_around(each, dim) for each in prior_tau]
            lower = tuple(lowest for lowest, _ in ranges)
            upper = tuple(highest for _, highest in ranges)
        elif lower is upper is None:
            lowest, highest = range_around(_TAU if prior_tau is None else prior_tau, dim)
            eta = lowest if eta is None else eta
            iota = round(highest - lowest, 12) if iota is None else iota
        phi_settings = {
            name: settings.pop(name) for name in tuple(settings) if name.startswith("phi_")
        }
        temperature = AdaptiveTemperature(
            dim, eta=eta, iota=iota, lower=lower, upper=upper, **phi_settings
        )
        bounds = temperature.eta, temperature.eta + temperature.iota
        if prior_tau is None:
            prior_tau = prior_inside(_TAU, *bounds)
        elif isinstance(prior_tau, float | int) and not bounds[0] < prior_tau < bounds[1]:
            raise ValueError(
                f"prior_tau={prior_tau} lies outside the range of τ, {bounds[0]:.4g} to "
                f"{bounds[1]:.4g}: choose one inside, or leave it out."
            )
        super().__init__(num_heads, temperature, beta=beta, prior_tau=prior_tau, **settings)


_TAU = 0.1  # default τ₀
_RENAMED = {
    "tau": "the temperature that pairs vary around is prior_tau",
    "temperature": "it always has an AdaptiveTemperature around prior_tau; for another scheme use "
    "ContrastiveLoss(num_heads, temperature)",
}


def _make_form(name: str, given: Mapping[str, Any]) -> Form:
    """Return a form with its settings; an error if there are some that belong to other forms."""
    form = FORMS[name]
    given = {option: value for option, value in given.items() if value is not None}
    for option, value in given.items():
        if not form.takes(option):
            others = " or ".join(repr(other) for other in FORMS if FORMS[other].takes(option))
            raise ValueError(f"form={name!r} takes no {option}={value}: use form={others}.")
    return form(**{option: value for option, value in given.items() if option != "top_k"})


def _check_names(settings: Mapping[str, object]) -> None:
    """Raise an error that lists the settings of `AMCLLoss` if one of these names is none."""
    accepted = {
        name
        for cls in (AMCLLoss, ContrastiveLoss, AdaptiveTemperature)
        for name in signature(cls).parameters
    } - {"settings", "temperature"}
    for name in settings:
        if name not in accepted:
            hint = _RENAMED.get(name) or f"accepted are {', '.join(sorted(accepted))}"
            raise TypeError(f"AMCLLoss has no setting {name!r}: {hint}.")


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
