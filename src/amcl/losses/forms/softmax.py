"""Forms that weight negatives by a softmax: over all of them, or over the κ most similar."""

from typing import TYPE_CHECKING, ClassVar

import torch

from amcl import functional as F
from amcl.losses.forms.base import Form, negative_and_omega, register_form
from amcl.losses.pairs import Compared

if TYPE_CHECKING:
    from amcl.losses.contrastive import ContrastiveLoss


@register_form
class SoftmaxForm(Form):
    """Softmax over all negatives: NT-Xent and InfoNCE."""

    name: ClassVar[str] = "softmax"

    def contrast(
        self, loss: "ContrastiveLoss", pairs: Compared, prior_tau: F.Prior
    ) -> tuple[torch.Tensor, Compared]:
        value = F.softmax_contrast(
            *pairs[:5],
            positive_in_denominator=loss.positive_in_denominator,
            beta=loss.beta,
            prior_tau=prior_tau,
            omega_place=loss.omega_place,
            omega_set=loss.omega_set,
        )
        return value, pairs

    def negative_terms(
        self, loss: "ContrastiveLoss", rest: torch.Tensor, pairs: Compared, prior_tau: F.Prior
    ) -> dict[str, torch.Tensor]:
        return negative_and_omega(loss, rest, pairs, prior_tau)


@register_form
class TopKSoftmaxForm(SoftmaxForm):
    """Softmax over the κ most similar negatives of each head.

    It is not in the paper. Its weighting prevents the collapse of plain top_k.
    """

    name: ClassVar[str] = "top_k_softmax"
    takes_top_k: ClassVar[bool] = True
