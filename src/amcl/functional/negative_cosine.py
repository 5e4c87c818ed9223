"""The negative cosine of SimSiam with a temperature for each pair."""

import torch

from amcl.functional.pair import pair_logit


def negative_cosine(
    s: torch.Tensor, tau: torch.Tensor, beta: float = 0.0, prior_tau: float = 1.0
) -> torch.Tensor:
    """Return one direction of Eq. 2.2: −s/(2τ) + β Ω(τ) for each pair and head.

    s: sim(z, [h]) and tau, shapes that broadcast together. Ω carries no ½ in the paper, so this is
    −½ of the pair form with 2β. With τ = 1 it is Eq. 1.2 plus the constant β.
    """
    return -0.5 * pair_logit(s, tau, 2.0 * beta, prior_tau)
