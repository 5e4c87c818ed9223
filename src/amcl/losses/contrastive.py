"""NT-Xent and InfoNCE for C heads and any temperature scheme."""

from collections.abc import Mapping
from inspect import signature
from typing import Any, Literal

import torch

from amcl import functional as F
from amcl.distributed import rank, world_size
from amcl.losses.base import HeadReduction, PairMatrix, PriorTau, full_precision, same_items
from amcl.losses.pairs import Compared, Items, PairLoss, Pairs
from amcl.losses.statistics import LossStats
from amcl.settings import choose, whole_number
from amcl.temperature import AdaptiveTemperature, Temperature, prior_inside, range_around

Form = Literal["softmax", "top_k", "top_k_softmax", "max"]


class ContrastiveLoss(PairLoss):
    """Contrast two views of N images in C heads (Eq. 2.1 and 2.4: SimCLR, MoCo, CAN, LGP).

    Called with two views (C, N, D), the negatives come from the batch: "both_views" makes 2N
    anchors with 2N − 2 negatives each (SimCLR), "other_view" N anchors, those of the first view,
    with N − 1 each (MoCo v3). Called with `negatives` (C, K, D), such as a queue, the same on
    every process, the first view is the anchor and the second its positive (MoCo). Over several
    processes candidates are gathered from all of them with gradient; each brings the same N.

    - `form`: "softmax" over all negatives; "top_k", the paper's best, the plain mean over the κ
      most similar of each head; "max", the same with κ = 1; "top_k_softmax", not in the paper, the
      softmax over those κ, which keeps the weighting whose absence lets plain top_k collapse;
    - `positive_in_denominator`: True is InfoNCE, False NT-Xent as published; in "top_k" and "max"
      the positive then competes for the κ places;
    - `similarity`: "plain" is the paper's s; "relative" measures s from the level of the anchor's
      hard negatives (`functional.negative_level`), so that temperatures cannot make up for
      projections that are alike in groups either. It makes no difference where all pairs of an
      anchor share a temperature;
    - `omega_place`: in the softmax forms Ω of each negative pair stands "inside" the logarithm, so
      that u = s/τ − βΩ(τ) is the logit of a pair, or Ω of all of them "outside" (Eq. 3);
    - `omega_set`: Ω of a set of negatives, the κ chosen or those of Eq. 3, is their "mean" or the
      paper's set form ("literal");
    - `max_pairs`: memory bound, see `PairLoss`; the rest: see `HeadLoss`.

    >>> from amcl.temperature import ConstantTemperature
    >>> z0, z1 = torch.randn(2, 3, 16, 32)
    >>> simclr = ContrastiveLoss(3, ConstantTemperature(0.5))
    >>> loss, stats = simclr(z0, z1, return_stats=True)
    >>> stats.negative.s.shape
    torch.Size([3])
    """

    def __init__(
        self,
        num_heads: int,
        temperature: Temperature,
        *,
        form: Form = "softmax",
        top_k: int | None = None,
        positive_in_denominator: bool = True,
        negatives: Literal["both_views", "other_view"] = "both_views",
        similarity: F.Similarity = "plain",
        beta: float = 0.0,
        prior_tau: PriorTau = 0.1,
        omega_set: F.OmegaSet = "mean",
        omega_place: F.OmegaPlace = "inside",
        head_reduction: HeadReduction = "mean",
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
            validate=validate,
        )
        choose("form", form, ("softmax", "top_k", "top_k_softmax", "max"))
        choose("negatives", negatives, ("both_views", "other_view"))
        choose("similarity", similarity, ("relative", "plain"))
        choose("omega_set", omega_set, ("mean", "literal"))
        choose("omega_place", omega_place, ("inside", "outside"))
        if form in ("top_k", "top_k_softmax"):
            whole_number("top_k", top_k, f"form={form!r} keeps that many negatives (κ)")
        if form in ("softmax", "max") and top_k is not None:
            raise ValueError(
                f"form={form!r} takes no top_k, got {top_k}: use form='top_k' or 'top_k_softmax'."
            )
        softmax = form in ("softmax", "top_k_softmax")
        if omega_set == "literal" and softmax and omega_place == "inside":
            raise ValueError(
                "omega_set='literal' is the paper's Ω of a set of negatives: it goes with "
                "form='top_k' or 'max', or with omega_place='outside', got "
                f"form={form!r} and omega_place='inside'."
            )
        if omega_place == "outside" and not softmax:
            raise ValueError(
                f"form={form!r} has no softmax, so Ω always stands outside of it: leave out "
                "omega_place='outside'."
            )
        self.form, self.top_k, self.omega_set = form, top_k, omega_set
        self.omega_place, self.similarity = omega_place, similarity
        self.positive_in_denominator, self.negatives = positive_in_denominator, negatives

    def forward(
        self,
        z0: torch.Tensor,
        z1: torch.Tensor,
        negatives: torch.Tensor | None = None,
        *,
        return_stats: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, LossStats]:
        """The loss of two views, (C, N, D) each; with statistics on request."""
        with full_precision(z0):
            pairs = self._pairs(z0, z1, negatives)
            self._check_negatives(pairs)
            _, n, dim = pairs.anchors.vectors.shape
            total, stats = self._walk(pairs, self._prior_tau(dim), return_stats)
            loss = self._over_heads(total / n)
            if stats is None:
                return loss
            return loss, stats.reduce_terms(lambda term: self._over_heads(term.sum() / n))

    def pair_matrix(self, z0: torch.Tensor, z1: torch.Tensor) -> PairMatrix:
        """s and τ of each image of the first view with each of the second, in each head."""
        with full_precision(z0):
            return self._matrix(*self._views(z0, z1))

    def extra_repr(self) -> str:
        top_k = "" if self.top_k is None else f", top_k={self.top_k}"
        return (
            f"{super().extra_repr()}, form={self.form!r}{top_k}, negatives={self.negatives!r}, "
            f"positive_in_denominator={self.positive_in_denominator}"
        )

    def _pairs(self, z0: torch.Tensor, z1: torch.Tensor, given: torch.Tensor | None) -> Pairs:
        view0, view1 = self._views(z0, z1)
        n = view0.vectors.shape[1]
        index = torch.arange(n, device=z0.device).unsqueeze(1)
        if given is not None:
            given, extra = self._split("negatives", given)
            _same_width(given, view0.vectors)
            _same_dtype(given, view0.vectors)
            queue = self._projections(given, extra, shared=True).as_candidates()
            return Pairs(view0, view1.as_positives(), queue, ignore=index[:, :0])
        own, candidates = index + rank() * n, view1.as_candidates_of_all_ranks()
        if self.negatives == "other_view":
            return Pairs(view0, view1.as_positives(), candidates, ignore=own)
        partner = own + world_size() * n
        return Pairs(
            view0.then(view1),
            view1.as_positives().then(view0.as_positives()),
            view0.as_candidates_of_all_ranks().then(candidates),
            ignore=torch.cat([torch.cat([own, partner], 1), torch.cat([partner, own], 1)]),
        )

    def _views(self, z0: torch.Tensor, z1: torch.Tensor) -> tuple[Items, Items]:
        z0, extra0 = self._split("z0", z0)
        z1, extra1 = self._split("z1", z1)
        same_items(z0, z1)
        return self._projections(z0, extra0), self._projections(z1, extra1)

    def _projections(
        self, z: torch.Tensor, extra: torch.Tensor | None, shared: bool = False
    ) -> Items:
        return self._items(F.unit(z), lambda scheme: scheme.keys(z, extra, shared))

    def _check_negatives(self, pairs: Pairs) -> None:
        available = pairs.negatives_each
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
        return 1 if self.form == "max" else self.top_k

    def _level(self, pairs: Compared, prior_tau: float) -> torch.Tensor | None:
        branches = [self.temperature.branch(sign) for sign in ("positive", "negative")]
        if self.similarity == "plain" or all(branch.bounds() is None for branch in branches):
            return None  # with one τ for all pairs of an anchor it would cancel
        return F.negative_level(pairs.s_neg, prior_tau, pairs.ignored)

    def _contrast(self, pairs: Compared, prior_tau: float) -> tuple[torch.Tensor, Compared]:
        inside, beta = self.positive_in_denominator, self.beta
        if not self._averages:
            loss = F.softmax_contrast(
                *pairs,
                positive_in_denominator=inside,
                beta=beta,
                prior_tau=prior_tau,
                omega_place=self.omega_place,
                omega_set=self.omega_set,
            )
            return loss, pairs
        if inside:
            pairs = Compared(*pairs[:2], *F.let_positive_compete(*pairs[:4]))
        loss = F.mean_contrast(*pairs[:4], beta=beta, prior_tau=prior_tau, omega_set=self.omega_set)
        return loss, pairs

    def _terms(
        self, loss: torch.Tensor, pairs: Compared, prior_tau: float
    ) -> dict[str, torch.Tensor]:
        positive = -(pairs.s_pos / pairs.tau_pos).squeeze(-1)
        omega = self.beta * F.omega(pairs.tau_pos, prior_tau).squeeze(-1).expand_as(positive)
        rest = loss - positive - omega
        terms = {"positive": positive, "omega_positive": omega, "negative": rest}
        if self._averages:
            terms["negative"] = (pairs.s_neg / pairs.tau_neg).mean(-1)
            terms["omega_negative"] = rest - terms["negative"]
        elif self.omega_place == "outside":  # else Ω⁻ stands inside the logarithm
            tau = pairs.tau_neg.expand_as(pairs.s_neg)
            of_set = F.omega_of_set(tau, prior_tau, pairs.ignored, self.omega_set)
            terms["omega_negative"] = -self.beta * of_set
            terms["negative"] = rest - terms["omega_negative"]
        return terms

    @property
    def _averages(self) -> bool:
        return self.form in ("top_k", "max")


class AMCLLoss(ContrastiveLoss):
    """The drop-in: InfoNCE over C heads with a learned temperature for each pair in each head.

    A `ContrastiveLoss` with an `AdaptiveTemperature` around τ₀ (`prior_tau`, 0.1), between τ₀/2 and
    3τ₀/2. The range is what holds τ: Ω, of weight β = 0.1, pulls pairs with s < β toward τ₀ and has
    no minimum inside the range for the others. Where a range is given and no τ₀, τ₀ is 0.1 if that
    lies inside, else the middle. φ is part of the loss: give `loss.parameters()` to the optimizer
    too. Settings that begin with `phi_` are those of `AdaptiveTemperature`, all others those of
    `ContrastiveLoss`.

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
        lower: float | None = None,
        upper: float | None = None,
        beta: float = 0.1,
        prior_tau: PriorTau | None = None,
        **settings: Any,
    ) -> None:
        _known(settings)
        if lower is upper is None:
            lowest, highest = range_around(_TAU if prior_tau is None else prior_tau, dim)
            eta = lowest if eta is None else eta
            iota = round(highest - lowest, 12) if iota is None else iota
        of_phi = {name: settings.pop(name) for name in tuple(settings) if name.startswith("phi_")}
        temperature = AdaptiveTemperature(
            dim, eta=eta, iota=iota, lower=lower, upper=upper, **of_phi
        )
        bounds = temperature.eta, temperature.eta + temperature.iota
        if prior_tau is None:
            prior_tau = prior_inside(_TAU, *bounds)
        elif prior_tau != "literal" and not bounds[0] < prior_tau < bounds[1]:
            raise ValueError(
                f"prior_tau={prior_tau} lies outside the range of τ, {bounds[0]:.4g} to "
                f"{bounds[1]:.4g}: choose one inside, or leave it out."
            )
        super().__init__(num_heads, temperature, beta=beta, prior_tau=prior_tau, **settings)


_TAU = 0.1  # τ₀ where none is chosen
_RENAMED = {
    "tau": "the temperature that pairs vary around is prior_tau",
    "temperature": "it always has an AdaptiveTemperature around prior_tau; for another scheme use "
    "ContrastiveLoss(num_heads, temperature)",
}


def _known(settings: Mapping[str, object]) -> None:
    """Raise an error that lists the settings of `AMCLLoss` if one of these is unknown."""
    accepted = {
        name
        for cls in (AMCLLoss, ContrastiveLoss, AdaptiveTemperature)
        for name in signature(cls).parameters
    } - {"settings", "temperature"}
    for name in settings:
        if name not in accepted:
            hint = _RENAMED.get(name) or f"accepted are {', '.join(sorted(accepted))}"
            raise TypeError(f"AMCLLoss has no setting {name!r}: {hint}.")


def _same_dtype(negatives: torch.Tensor, z: torch.Tensor) -> None:
    if negatives.dtype != z.dtype:
        raise TypeError(
            f"negatives are {negatives.dtype} and the views {z.dtype}: use negatives.to({z.dtype})."
        )


def _same_width(negatives: torch.Tensor, z: torch.Tensor) -> None:
    if negatives.shape[-1] != z.shape[-1]:
        transposed = negatives.shape[1] == z.shape[-1]
        fix = "use negatives.transpose(1, 2)" if transposed else "keep what the same heads put out"
        raise ValueError(
            f"negatives must be (C, K, D) with D = {z.shape[-1]}, got {tuple(negatives.shape)}: "
            f"{fix}."
        )
