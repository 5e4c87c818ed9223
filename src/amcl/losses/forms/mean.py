"""Forms that average the most similar negatives: TopMax-κ, the paper's best, and max."""

from typing import TYPE_CHECKING, ClassVar

import torch

from amcl import functional as F
from amcl.losses.forms.base import Form, register_form
from amcl.losses.pairs import Compared

if TYPE_CHECKING:
    from amcl.losses.contrastive import ContrastiveLoss


@register_form
class TopKForm(Form):
    """Plain mean over the κ most similar negatives of each head (TopMax-κ)."""

    name: ClassVar[str] = "top_k"
    takes_top_k: ClassVar[bool] = True
    has_softmax: ClassVar[bool] = False

    def contrast(
        self, loss: "ContrastiveLoss", pairs: Compared, prior_tau: F.Prior
    ) -> tuple[torch.Tensor, Compared]:
        if loss.positive_in_denominator:
            pairs = Compared(*pairs[:2], *F.let_positive_compete(*pairs[:4]))
        value = F.mean_contrast(
            *pairs[:4], beta=loss.beta, prior_tau=prior_tau, omega_set=loss.omega_set
        )
        return value, pairs

    def negative_terms(
        self, loss: "ContrastiveLoss", rest: torch.Tensor, pairs: Compared, prior_tau: F.Prior
    ) -> dict[str, torch.Tensor]:
        negative = (pairs.s_neg / pairs.tau_neg).mean(-1)
        return {"negative": negative, "omega_negative": rest - negative}


@register_form
class MaxForm(TopKForm):
    """Most similar negative of each head (Eq. 2.1): top_k with κ = 1."""

    name: ClassVar[str] = "max"
    takes_top_k: ClassVar[bool] = False
    fixed_kappa: ClassVar[int | None] = 1
