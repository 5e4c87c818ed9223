"""Shared by the contrastive methods: the settings of the contrastive loss."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeVar

from amcl import functional as F
from amcl.losses import ContrastiveLoss
from amcl.losses.forms import FORMS, OPTIONS
from amcl.methods.heads import HeadSettings
from amcl.settings import Rule

S = TypeVar("S", bound="ContrastiveSettings")


def _option(name: str, belongs: str) -> Rule:
    """Return the rule of a setting that some forms of the loss have."""
    return Rule(
        fields=(name,),
        depends=("form",),
        used=lambda values: FORMS[values["form"]].takes(name),
        belongs=belongs,
    )


@dataclass(frozen=True, kw_only=True)
class ContrastiveSettings(HeadSettings):
    """Settings that the contrastive methods share."""

    has_negatives: ClassVar[bool] = True
    rules: ClassVar[tuple[Rule, ...]] = (
        _option("top_k", "losses over the hardest negatives (--form top_k or top_k_softmax)"),
        _option("hard_beta", "hard negatives (--form hard)"),
        _option("debias", "hard negatives (--form hard)"),
        _option("dclw_sigma", "the weighted decoupled loss (--form dclw)"),
        _option("sigmoid_bias", "the sigmoid loss (--form sigmoid)"),
        Rule(
            fields=("positive_in_denominator",),
            depends=("form",),
            used=lambda values: FORMS[values["form"]].positive_in_denominator is None,
            belongs="forms with a denominator that may have it (--form softmax or hard)",
        ),
    )
    views_of_negatives: ClassVar[int] = 2
    """Views of each other image of the batch that are negatives."""

    form: str = field(default="softmax", metadata={"choices": FORMS.names})
    """Over which negatives, and how, the loss runs: softmax, top_k, top_k_softmax, max; dcl, dclw,
    hard, sigmoid are losses of other papers."""
    top_k: int | None = None
    """κ, the negatives kept by top_k and top_k_softmax."""
    positive_in_denominator: bool = True
    """True is InfoNCE, False NT-Xent as the paper prints it."""
    hard_beta: float | None = None
    """form hard: concentration on similar negatives; by default 1, 0 switches it off."""
    debias: float | None = None
    """form hard: share of negatives of the anchor's class; by default 0.1, 0 switches it off."""
    dclw_sigma: float | None = None
    """form dclw: width σ of the weights of positive pairs; by default 0.5."""
    sigmoid_bias: float | None = None
    """form sigmoid: first value of the learned bias; by default -10."""
    similarity: F.Similarity = "plain"
    """plain: as the paper has it; relative: measured from that of the anchor's hard negatives, so
    that adaptive temperatures cannot make up for pictures that look alike in groups."""
    omega_set: F.OmegaSet = "mean"
    """Ω of the negatives that enter the loss: the mean, or the paper's set form ("literal")."""
    omega_place: F.OmegaPlace = "inside"
    """Ω of negatives stands inside the softmax, with each pair, or outside (the paper's Eq. 3)."""

    def published(self: S) -> S:
        options: dict[str, Any] = dict.fromkeys(OPTIONS)
        return replace(super().published(), form="softmax", **options)

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
        is_open = FORMS[self.form].positive_in_denominator is None
        return ContrastiveLoss(
            **self.loss_settings(),
            form=self.form,
            **{option: getattr(self, option) for option in OPTIONS},
            positive_in_denominator=self.positive_in_denominator if is_open else None,
            negatives=negatives,
            similarity=self.similarity,
            omega_set=self.omega_set,
            omega_place=self.omega_place,
        )
