"""Decoupled forms: the positive is not in the denominator (DCL), and may be weighted (DCLW)."""

from typing import TYPE_CHECKING, ClassVar

import torch

from amcl import functional as F
from amcl.distributed import gather, rank
from amcl.losses.forms.base import register_form
from amcl.losses.forms.softmax import SoftmaxForm
from amcl.losses.pairs import Compared, Pairs
from amcl.settings import positive_number

if TYPE_CHECKING:
    from amcl.losses.contrastive import ContrastiveLoss


@register_form
class DCLForm(SoftmaxForm):
    """Softmax over all negatives without the positive: DCL (arXiv 2110.06848).

    It is the form "softmax" with `positive_in_denominator=False` by the name of its paper.
    """

    name: ClassVar[str] = "dcl"
    positive_in_denominator: ClassVar[bool | None] = False


@register_form
class DCLWForm(DCLForm):
    """DCL whose positives are weighted by w = 2 − exp(s⁺/σ) / E[exp(s⁺/σ)]: DCLW.

    The mean E is over the positive pairs of a head, of all processes; no gradient flows through w.
    It weights u⁺ and so, if Ω is inside the logit, Ω(τ⁺) too.

    Args:
        dclw_sigma: Width σ; 0.5 as published.
    """

    name: ClassVar[str] = "dclw"
    options: ClassVar[tuple[str, ...]] = ("dclw_sigma",)
    shift_invariant: ClassVar[bool] = False

    def __init__(self, dclw_sigma: float = 0.5) -> None:
        super().__init__()
        self.sigma = positive_number("dclw_sigma", dclw_sigma, "DCLW has 0.5")

    def anchor_values(self, pairs: Pairs) -> torch.Tensor:
        """Return the weights of positives."""
        with torch.no_grad():  # views of both directions have the same s⁺, and so the same mean
            s_pos = F.paired(pairs.anchors.vectors, pairs.positives.vectors)
            n = s_pos.shape[1]
            weights = F.mises_fisher_weights(gather(s_pos), self.sigma)
            return weights[:, rank() * n :][:, :n]

    def contrast(
        self, loss: "ContrastiveLoss", pairs: Compared, prior_tau: F.Prior
    ) -> tuple[torch.Tensor, Compared]:
        value = F.softmax_contrast(
            *pairs[:5],
            positive_in_denominator=False,
            positive_weight=pairs.anchor_value,
            beta=loss.beta,
            prior_tau=prior_tau,
            omega_place=loss.omega_place,
            omega_set=loss.omega_set,
        )
        return value, pairs

    def positive_terms(
        self, loss: "ContrastiveLoss", pairs: Compared, prior_tau: F.Prior
    ) -> dict[str, torch.Tensor]:
        terms = super().positive_terms(loss, pairs, prior_tau)
        weight = pairs.anchor_value.squeeze(-1)
        weighted = terms if loss.omega_place == "inside" else {"positive": terms["positive"]}
        return {**terms, **{name: weight * term for name, term in weighted.items()}}

    def extra_repr(self) -> str:
        return f"dclw_sigma={self.sigma:g}"
