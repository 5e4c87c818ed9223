"""What SimCLR and MoCo share: the settings of the contrastive loss."""

from dataclasses import dataclass
from typing import Literal

from amcl import functional as F
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
    similarity: F.Similarity = "plain"
    """plain: as the paper has it; relative: measured from that of the anchor's hard negatives, so
    that adaptive temperatures cannot make up for pictures that look alike in groups."""
    omega_set: F.OmegaSet = "mean"
    """Ω of the negatives that enter the loss: the mean, or the paper's set form ("literal")."""
    omega_place: F.OmegaPlace = "inside"
    """Ω of negatives stands inside the softmax, with each pair, or outside (the paper's Eq. 3)."""

    def make_loss(self, negatives: Literal["both_views", "other_view"]) -> ContrastiveLoss:
        """The contrastive loss these settings ask for."""
        return ContrastiveLoss(
            self.heads,
            self.make_temperature(),
            form=self.form,
            top_k=self.top_k,
            positive_in_denominator=self.positive_in_denominator,
            negatives=negatives,
            similarity=self.similarity,
            omega_set=self.omega_set,
            omega_place=self.omega_place,
            beta=self.omega_weight,
            prior_tau=self.omega_prior,
            head_reduction=self.head_reduction,
            validate=False,  # the training loop watches over finite numbers
        )
