"""Form with hard negatives, corrected for negatives of the anchor's class: HCL and debiased."""

from typing import TYPE_CHECKING, ClassVar

import torch

from amcl import functional as F
from amcl.losses.forms.base import register_form
from amcl.losses.forms.softmax import SoftmaxForm
from amcl.losses.pairs import Compared
from amcl.settings import non_negative

if TYPE_CHECKING:
    from amcl.losses.contrastive import ContrastiveLoss


@register_form
class HardForm(SoftmaxForm):
    """Negatives weighted by exp(h u⁻), less those expected to be of the anchor's class.

    Hard negatives as in HCL (arXiv 2010.04592); with `hard_beta=0` the debiased contrastive loss
    (arXiv 2007.00224), and with both 0 the form "softmax".

    Args:
        hard_beta: Concentration h on similar negatives; 1 as in the authors' code.
        debias: Probability that a negative is of the anchor's class; 0.1 as in the authors' code.
    """

    name: ClassVar[str] = "hard"
    options: ClassVar[tuple[str, ...]] = ("hard_beta", "debias")
    shift_invariant: ClassVar[bool] = False  # the least value of G is a number of its own

    def __init__(self, hard_beta: float = 1.0, debias: float = 0.1) -> None:
        super().__init__()
        self.hard_beta = non_negative("hard_beta", hard_beta, "0 weights all negatives alike")
        self.debias = non_negative("debias", debias, "0 assumes no negatives of the same class")
        if self.debias >= 1:
            raise ValueError(
                f"debias must be below 1, got {debias}: it is the share of negatives that are of "
                "the anchor's class, such as 0.1 for ten classes."
            )

    def contrast(
        self, loss: "ContrastiveLoss", pairs: Compared, prior_tau: F.Prior
    ) -> tuple[torch.Tensor, Compared]:
        value = F.hard_contrast(
            *pairs[:5],
            hard_beta=self.hard_beta,
            debias=self.debias,
            positive_in_denominator=loss.positive_in_denominator,
            beta=loss.beta,
            prior_tau=prior_tau,
            omega_place=loss.omega_place,
            omega_set=loss.omega_set,
        )
        return value, pairs

    def extra_repr(self) -> str:
        return f"hard_beta={self.hard_beta:g}, debias={self.debias:g}"
