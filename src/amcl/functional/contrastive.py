"""NT-Xent and InfoNCE over pairs with their own temperatures: softmax, top-κ and max."""

from typing import Literal, NamedTuple

import torch

from amcl.functional.pair import pair_logit

Form = Literal["softmax", "top_k", "top_k_softmax", "max"]
OmegaSet = Literal["mean", "literal"]


class Contrast(NamedTuple):
    """The loss of each anchor and head, and the pairs beside the positive that made it."""

    loss: torch.Tensor  # (C, N)
    s_neg: torch.Tensor  # (C, N, K)
    tau_neg: torch.Tensor  # broadcasts to s_neg
    ignored: torch.Tensor | None  # bool, broadcasts to s_neg: entries that are not negatives


def contrast(
    s_pos: torch.Tensor,
    tau_pos: torch.Tensor,
    s_neg: torch.Tensor,
    tau_neg: torch.Tensor,
    ignored: torch.Tensor | None = None,
    *,
    form: Form = "softmax",
    top_k: int | None = None,
    positive_in_denominator: bool = True,
    beta: float = 0.0,
    prior_tau: float = 1.0,
    omega_set: OmegaSet = "mean",
) -> Contrast:
    """Contrast each positive with its negatives, with u = s/τ − β Ω(τ) for each pair.

    s_pos: (C, N, 1), s_neg: (C, N, M), temperatures broadcast to them, ignored: (N, M) True where
    a candidate is no negative of that anchor.

    - softmax (Eq. 6, 7 and 9): −u⁺ + logsumexp of the denominator;
    - top_k (Eq. 2.1 and 2.4 with TopMax-κ): −u⁺ + (1/κ) Σ u over the κ most similar of the head;
    - max (Eq. 2.1 and 2.4): top_k with κ = 1;
    - top_k_softmax (not in the paper): the softmax over the κ most similar negatives, which keeps
      the weighting whose absence lets plain top_k collapse.

    `positive_in_denominator` tells InfoNCE (Eq. 1.4, 2.4, 9) from NT-Xent as printed (Eq. 1.1,
    2.1, 6); for top_k and max the positive then competes for the κ places. `omega_set` is the
    regulariser of the κ chosen: the mean of Ω, or the print's sum without D/2.
    """
    u_pos = pair_logit(s_pos, tau_pos, beta, prior_tau).squeeze(-1)
    averages = form in ("top_k", "max")
    if form != "softmax":
        s_neg, tau_neg, ignored = _most_similar(
            (s_pos, tau_pos) if averages and positive_in_denominator else None,
            s_neg,
            tau_neg,
            ignored,
            _kappa(form, top_k),
        )
    if averages and omega_set == "literal":
        kappa = s_neg.shape[-1]
        u_neg = pair_logit(s_neg / kappa, tau_neg, beta, prior_tau=1.0).sum(-1)
    elif averages:
        u_neg = pair_logit(s_neg, tau_neg, beta, prior_tau).mean(-1)
    else:
        u_all = pair_logit(s_neg, tau_neg, beta, prior_tau)
        if ignored is not None:
            u_all.masked_fill_(ignored, -torch.inf)
        u_neg = u_all.logsumexp(-1)
        if positive_in_denominator:
            u_neg = torch.logaddexp(u_neg, u_pos)
    return Contrast(u_neg - u_pos, s_neg, tau_neg, ignored)


def _kappa(form: Form, top_k: int | None) -> int:
    if form == "max":
        return 1
    if top_k is None:
        raise ValueError(f"form={form!r} needs top_k, the number of negatives kept (κ); got None.")
    return top_k


def _most_similar(
    positive: tuple[torch.Tensor, torch.Tensor] | None,
    s_neg: torch.Tensor,
    tau_neg: torch.Tensor,
    ignored: torch.Tensor | None,
    kappa: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The κ most similar candidates of each anchor and head: n* of Eq. 2.1, per head.

    With `positive` given (its s and τ), the positive is one of the candidates; where it is chosen,
    the returned mask is True.
    """
    with torch.no_grad():
        ranked = s_neg if ignored is None else s_neg.masked_fill(ignored, -torch.inf)
        if positive is not None:
            ranked = torch.cat([positive[0], ranked], dim=-1)
        chosen = ranked.topk(kappa, dim=-1, sorted=False).indices
    if positive is None:
        return s_neg.gather(-1, chosen), _pick(tau_neg, chosen), None
    is_positive = chosen == 0
    chosen = (chosen - 1).clamp_(min=0)
    s = torch.where(is_positive, positive[0], s_neg.gather(-1, chosen))
    tau = torch.where(is_positive, positive[1], _pick(tau_neg, chosen))
    return s, tau, is_positive


def _pick(tau: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """tau at the chosen candidates; a τ that is the same for all candidates stays as it is."""
    if tau.shape[-1] == 1:
        return tau
    return tau.expand(chosen.shape[0], chosen.shape[1], -1).gather(-1, chosen)
