"""Shared by the contrastive methods: the settings of the contrastive loss."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeVar

from amcl import functional as F
from amcl.losses import ContrastiveLoss
from amcl.losses.forms import FORMS
from amcl.methods.heads import HeadSettings
from amcl.settings import Rule

S = TypeVar("S", bound="ContrastiveSettings")


@dataclass(frozen=True, kw_only=True)
class ContrastiveSettings(HeadSettings):
    """Settings that the contrastive methods share."""

    has_negatives: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            fields=("top_k",),
            depends=("form",),
            used=lambda values: FORMS[values["form"]].takes_top_k,
            belongs="losses over the hardest negatives (--form top_k or top_k_softmax)",
        ),
    )
    views_of_negatives: ClassVar[int] = 2
    """Views of each other image of the batch that are negatives."""

    form: str = field(default="softmax", metadata={"choices": FORMS.names})
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

    def published(self: S) -> S:
        return replace(super().published(), form="softmax", top_k=None)

    def num_negatives(self, batch_size: int) -> int:
        return self.views_of_negatives * (batch_size - 1)

    def check(self) -> None:
        self.make_loss("other_view")

    def check_batch(self, batch_size: int, accumulate: int = 1) -> None:
        negatives = self.num_negatives(batch_size // accumulate)
        if (self.top_k or 0) > negatives:
            raise ValueError(
                f"top_k={self.top_k} (κ) is more than the {negatives} negatives an anchor "
                "has: lower it, or enlarge the batch or the queue."
            )

    def min_batch_size(self) -> int:
        return math.ceil((self.top_k or 0) / self.views_of_negatives) + 1

    def make_loss(self, negatives: Literal["both_views", "other_view"]) -> ContrastiveLoss:
        """Make the contrastive loss of these settings.

        Args:
            negatives: "both_views" or "other_view", as in `ContrastiveLoss`.

        Returns:
            The loss, with its temperature scheme.
        """
        return ContrastiveLoss(
            **self.loss_settings(),
            form=self.form,
            top_k=self.top_k,
            positive_in_denominator=self.positive_in_denominator,
            negatives=negatives,
            similarity=self.similarity,
            omega_set=self.omega_set,
            omega_place=self.omega_place,
        )
