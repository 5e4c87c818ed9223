"""What SimCLR and MoCo share: the settings of the contrastive loss."""

from dataclasses import dataclass
from typing import Literal

from amcl.losses import ContrastiveLoss
from amcl.losses.contrastive import Form
from amcl.methods.heads import HeadSettings


@dataclass(frozen=True, kw_only=True)
class ContrastiveSettings(HeadSettings):
    """What the contrastive methods share."""

    form: Form = "softmax"
    """Over which negatives, and how, the loss runs: softmax, top_k, top_k_softmax, max."""
    top_k: int | None = None
    """κ, the negatives kept by top_k and top_k_softmax."""
    positive_in_denominator: bool = True
    """True is InfoNCE, False NT-Xent as the paper prints it."""

    def make_loss(self, negatives: Literal["both_views", "other_view"]) -> ContrastiveLoss:
        """The contrastive loss these settings ask for."""
        return ContrastiveLoss(
            self.heads,
            self.make_temperature(),
            form=self.form,
            top_k=self.top_k,
            positive_in_denominator=self.positive_in_denominator,
            negatives=negatives,
            beta=self.omega_weight,
            prior_tau=self.prior_tau,
            head_reduction=self.head_reduction,
            validate=False,  # the training loop watches over finite numbers
        )
