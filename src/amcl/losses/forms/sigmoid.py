"""Form that classifies each pair by itself: the sigmoid loss of SigLIP."""

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn
from torch.nn.functional import logsigmoid

from amcl import functional as F
from amcl.losses.forms.base import Form, negative_and_omega, register_form
from amcl.losses.pairs import Compared, Pairs
from amcl.settings import finite_number

if TYPE_CHECKING:
    from amcl.losses.contrastive import ContrastiveLoss


@register_form
class SigmoidForm(Form):
    """Sum over pairs of −log sigmoid(±(u + b)) with a learned bias b: SigLIP (arXiv 2303.15343).

    There is one b for all heads, as there is one learned τ. SigLIP starts with b = −10 and a
    learned τ = 0.1. With `negatives="other_view"` it is SigLIP's loss.

    Args:
        sigmoid_bias: First value of b; −log K suits K negatives.
    """

    name: ClassVar[str] = "sigmoid"
    options: ClassVar[tuple[str, ...]] = ("sigmoid_bias",)
    positive_in_denominator: ClassVar[bool | None] = False
    shift_invariant: ClassVar[bool] = False

    def __init__(self, sigmoid_bias: float = -10.0) -> None:
        super().__init__()
        fix = "SigLIP has -10, and -log K suits K negatives"
        self.bias = nn.Parameter(torch.tensor(finite_number("sigmoid_bias", sigmoid_bias, fix)))

    def anchor_values(self, pairs: Pairs) -> torch.Tensor:
        """Return b for each anchor, so that gradients of all blocks reach it."""
        vectors = pairs.anchors.vectors
        return self.bias.to(vectors).expand(1, vectors.shape[1], 1)

    def contrast(
        self, loss: "ContrastiveLoss", pairs: Compared, prior_tau: F.Prior
    ) -> tuple[torch.Tensor, Compared]:
        value = F.sigmoid_contrast(
            *pairs[:5],
            bias=pairs.anchor_value,
            beta=loss.beta,
            prior_tau=prior_tau,
            omega_place=loss.omega_place,
            omega_set=loss.omega_set,
        )
        return value, pairs

    def positive_terms(
        self, loss: "ContrastiveLoss", pairs: Compared, prior_tau: F.Prior
    ) -> dict[str, torch.Tensor]:
        inside = loss.beta if loss.omega_place == "inside" else 0.0
        u_pos = F.pair_logit(pairs.s_pos, pairs.tau_pos, inside, prior_tau)
        positive = -logsigmoid(u_pos + pairs.anchor_value).squeeze(-1)
        if loss.omega_place == "inside":  # then Ω⁺ is inside the logarithm
            return {"positive": positive}
        return {**super().positive_terms(loss, pairs, prior_tau), "positive": positive}

    def negative_terms(
        self, loss: "ContrastiveLoss", rest: torch.Tensor, pairs: Compared, prior_tau: F.Prior
    ) -> dict[str, torch.Tensor]:
        return negative_and_omega(loss, rest, pairs, prior_tau)
