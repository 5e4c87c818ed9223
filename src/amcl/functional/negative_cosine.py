"""The negative cosine of SimSiam with a temperature for each pair."""

import torch

from amcl.functional.pair import pair_logit
from amcl.functional.temperature import Prior


def negative_cosine(
    s: torch.Tensor, tau: torch.Tensor, beta: float = 0.0, prior_tau: Prior = 1.0
) -> torch.Tensor:
    """Return one direction of Eq. 2.2: −s/(2τ) + β Ω(τ) for each pair and head.

    Ω carries no ½ in the paper, so this is −½ of the pair form with 2β. With τ = 1 it is Eq. 1.2
    plus the constant β.

    Args:
        s: Similarities sim(z, [h]) of any shape.
        tau: Temperatures, which broadcast together with s.
        beta: Weight β of Ω.
        prior_tau: Minimum τ₀ of Ω.

    Returns:
        The loss of each pair, in the shape that s and tau broadcast to.

    Example:
        >>> negative_cosine(torch.tensor([1.0, 0.5]), torch.tensor([1.0]))
        tensor([-0.5000, -0.2500])
    """
    return -0.5 * pair_logit(s, tau, 2.0 * beta, prior_tau)
