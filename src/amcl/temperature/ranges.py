"""Ranges of adaptive temperatures: around τ₀, or as they are given, for all heads or for each."""

from collections.abc import Sequence
from typing import Literal

from amcl import functional as F
from amcl.settings import positive_number

PRIOR_FIX = "it is the temperature you believe in, or 'literal' for the paper's 2/D"
_FLOOR_FIX = "the floor of τ keeps it from 0; 0.05 to 0.2 trains well"


def range_around(prior_tau: float | Literal["literal"], dim: int) -> tuple[float, float]:
    """Return the default range of τ: half of τ₀ to either side of it.

    Args:
        prior_tau: Temperature τ₀, or "literal" for the paper's 2/D.
        dim: Width D of the projections.

    Returns:
        The lower and the upper bound of τ.

    Example:
        >>> range_around(0.2, dim=128)
        (0.1, 0.3)
    """
    if prior_tau == "literal":
        prior_tau = F.literal_prior_tau(dim)
    prior = positive_number("prior_tau", prior_tau, PRIOR_FIX)
    return prior / 2, round(1.5 * prior, 12)


def prior_inside(prior_tau: float, lower: float, upper: float) -> float:
    """Return τ₀ where only a range is chosen: `prior_tau` if it lies in the range, else its middle.

    Args:
        prior_tau: Preferred value of τ₀.
        lower: Lower bound of τ.
        upper: Upper bound of τ.

    Returns:
        The temperature τ₀.

    Example:
        >>> prior_inside(0.1, lower=0.05, upper=0.15), prior_inside(0.1, lower=0.5, upper=1.5)
        (0.1, 1.0)
    """
    return prior_tau if lower < prior_tau < upper else round((lower + upper) / 2, 12)


def ranges_of(
    eta: float | None,
    iota: float | None,
    lower: float | Sequence[float] | None,
    upper: float | Sequence[float] | None,
) -> tuple[tuple[float, float], ...]:
    """Return (η, ι) of each head, or one that all of them share.

    Args:
        eta: Lower bound η of τ.
        iota: Width ι of the range.
        lower: Lower bound of τ in place of `eta` and `iota`; one for each head, or one for all.
        upper: Upper bound of τ, as `lower`.

    Returns:
        The ranges; (0.05, 0.1) where nothing is given.

    Example:
        >>> ranges_of(None, None, lower=(0.25, 0.5), upper=1.0)
        ((0.25, 0.75), (0.5, 0.5))
    """
    if not isinstance(lower, Sequence) and not isinstance(upper, Sequence):
        return (_range(eta, iota, lower, upper),)
    lowers = lower if isinstance(lower, Sequence) else (lower,) * len(upper)  # type: ignore[arg-type]
    uppers = upper if isinstance(upper, Sequence) else (upper,) * len(lowers)
    if len(lowers) != len(uppers) or not lowers:
        raise ValueError(
            f"lower and upper have {len(lowers)} and {len(uppers)} values: give one for each head."
        )
    return tuple(_range(eta, iota, *both) for both in zip(lowers, uppers, strict=True))


def _range(
    eta: float | None, iota: float | None, lower: float | None, upper: float | None
) -> tuple[float, float]:
    """Return (η, ι) from either spelling; 0.05 and 0.1 when neither is given."""
    if (lower is not None or upper is not None) and (eta is not None or iota is not None):
        raise ValueError(
            f"give the range of τ as (eta, iota) or as (lower, upper), not both: got eta={eta}, "
            f"iota={iota}, lower={lower}, upper={upper}."
        )
    if lower is not None or upper is not None:
        for name, value in (("lower", lower), ("upper", upper)):
            if value is not None:
                positive_number(name, value, _FLOOR_FIX)
        if lower is None or upper is None or not lower < upper:
            raise ValueError(f"need both, lower < upper: got lower={lower}, upper={upper}.")
        eta = lower
        iota = upper - lower
    eta = 0.05 if eta is None else eta
    iota = 0.1 if iota is None else iota
    return positive_number("eta", eta, _FLOOR_FIX), positive_number("iota", iota)
