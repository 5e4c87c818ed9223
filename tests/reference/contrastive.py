"""Eq. 2.1 (NT-Xent), Eq. 2.4 (InfoNCE) and their softmax forms (Eq. 6, 7, 9), anchor by anchor."""

import math

from reference.temperature import omega, sim


def anchor_loss(
    c,
    anchor,
    positive,
    negatives,
    tau,
    *,
    form,
    kappa=None,
    positive_in_denominator=True,
    beta=0.0,
    prior_tau=1.0,
    omega_set="mean",
):
    """The loss of one anchor in head c, with `negatives` the N^- of the paper's index n."""
    s_pos = sim(anchor.z[c], positive.z[c])
    tau_pos = tau("positive", c, anchor, positive)
    loss = -s_pos / tau_pos + beta * omega(tau_pos, prior_tau)

    pairs = []  # (similarity, temperature) of each candidate of the denominator
    for negative in negatives:
        pairs.append((sim(anchor.z[c], negative.z[c]), tau("negative", c, anchor, negative)))

    if form in ("softmax", "top_k_softmax"):
        if form == "top_k_softmax":
            pairs = most_similar(pairs, kappa)
        if positive_in_denominator:
            pairs.append((s_pos, tau_pos))
        denominator = 0.0
        for s, t in pairs:
            denominator += math.exp(s / t - beta * omega(t, prior_tau))
        return loss + math.log(denominator)

    if positive_in_denominator:
        pairs.append((s_pos, tau_pos))  # n = N + 1
    chosen = most_similar(pairs, 1 if form == "max" else kappa)
    for s, t in chosen:
        loss += s / t / len(chosen)
    if omega_set == "mean":
        for _, t in chosen:
            loss -= beta * omega(t, prior_tau) / len(chosen)
    else:  # the print's Ω({n*_k}) = log(τ_1 · … · τ_κ) + Σ 1/τ_k
        product, inverse = 1.0, 0.0
        for _, t in chosen:
            product *= t
            inverse += 1.0 / t
        loss -= beta * (math.log(product) + inverse)
    return loss


def most_similar(pairs, kappa):
    """TopMax-κ."""
    return sorted(pairs, key=lambda pair: pair[0], reverse=True)[:kappa]


def both_views(num_heads, view0, view1, tau, head_reduction, **options):
    """SimCLR's batch: each view of each image is an anchor; all other images' views negatives."""
    total, anchors = 0.0, 0
    for views in ((view0, view1), (view1, view0)):
        for i in range(len(view0)):
            negatives = []
            for view in (view0, view1):
                for j in range(len(view0)):
                    if j != i:
                        negatives.append(view[j])
            for c in range(num_heads):
                total += anchor_loss(c, views[0][i], views[1][i], negatives, tau, **options)
            anchors += 1
    return total / anchors / (num_heads if head_reduction == "mean" else 1)


def other_view(num_heads, view0, view1, tau, head_reduction, **options):
    """Anchors of the first view, negatives from the second."""
    total = 0.0
    for i in range(len(view0)):
        negatives = [view1[j] for j in range(len(view1)) if j != i]
        for c in range(num_heads):
            total += anchor_loss(c, view0[i], view1[i], negatives, tau, **options)
    return total / len(view0) / (num_heads if head_reduction == "mean" else 1)


def queue(num_heads, view0, view1, negatives, tau, head_reduction, **options):
    """MoCo: the same given negatives for all anchors."""
    total = 0.0
    for i in range(len(view0)):
        for c in range(num_heads):
            total += anchor_loss(c, view0[i], view1[i], negatives, tau, **options)
    return total / len(view0) / (num_heads if head_reduction == "mean" else 1)
