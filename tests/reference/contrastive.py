"""Eq. 2.1 (NT-Xent), Eq. 2.4 (InfoNCE) and their softmax forms (Eq. 6, 7, 9), anchor by anchor."""

import math

from reference.temperature import Item, omega, sim


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
    omega_place="inside",
    similarity="plain",
):
    """The loss of one anchor in head c, with `negatives` the N^- of the paper's index n."""
    s_pos = sim(anchor.z[c], positive.z[c])
    tau_pos = tau("positive", c, anchor, positive)

    pairs = []  # (similarity, temperature) of each candidate of the denominator
    for negative in negatives:
        pairs.append((sim(anchor.z[c], negative.z[c]), tau("negative", c, anchor, negative)))
    if form != "softmax":
        pairs = most_similar(pairs, 1 if form == "max" else kappa)
    if similarity == "relative":
        level = negative_level([s for s, _ in pairs], prior_tau)
        pairs = [(s - level, t) for s, t in pairs]
        s_pos -= level
    loss = -s_pos / tau_pos + beta * omega(tau_pos, prior_tau)

    if form in ("softmax", "top_k_softmax"):
        inside = beta
        if omega_place == "outside":  # Eq. 3
            loss -= beta * omega_of_set([t for _, t in pairs], prior_tau, omega_set)
            inside = 0.0
        if positive_in_denominator:
            pairs.append((s_pos, tau_pos))
        denominator = 0.0
        for s, t in pairs:
            denominator += math.exp(s / t - inside * omega(t, prior_tau))
        return loss + math.log(denominator)

    if positive_in_denominator:
        pairs.append((s_pos, tau_pos))  # n = N + 1
    chosen = most_similar(pairs, 1 if form == "max" else kappa)
    for s, t in chosen:
        loss += s / t / len(chosen)
    return loss - beta * omega_of_set([t for _, t in chosen], prior_tau, omega_set)


def omega_of_set(taus, prior_tau, omega_set):
    """Ω of a set: the mean, or the paper's Ω({n*_k}) = log(τ_1 · … · τ_κ) + Σ 1/τ_k."""
    if omega_set == "mean":
        return sum(omega(t, prior_tau) for t in taus) / len(taus)
    product, inverse = 1.0, 0.0
    for t in taus:
        product *= t
        inverse += 1.0 / t
    return math.log(product) + inverse


def negative_level(similarities, prior_tau):
    """The mean similarity of negatives, each weighed by exp(4 s/τ₀)."""
    weights = [math.exp(4.0 * s / prior_tau) for s in similarities]
    total = 0.0
    for weight, s in zip(weights, similarities, strict=True):
        total += weight * s
    return total / sum(weights)


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


def nearest(vector, candidates):
    """The candidate with the greatest cosine, the first of equal ones."""
    best = candidates[0]
    for candidate in candidates[1:]:
        if sim(vector, candidate) > sim(vector, best):
            best = candidate
    return best


def neighbors(num_heads, projections, queue):
    """NN(z, Q) of NNCLR for a list of items, in each head by its own queue."""
    batch = []
    for item in projections:
        z = []
        for c in range(num_heads):
            z.append(nearest(item.z[c], [past.z[c] for past in queue]))
        batch.append(Item(z, None, batch))
    return batch


def nnclr(num_heads, z0, z1, p0, p1, queue, tau, head_reduction, **options):
    """NNCLR: the neighbor of each projection finds the other view's prediction in the batch."""
    near0, near1 = neighbors(num_heads, z0, queue), neighbors(num_heads, z1, queue)
    forth = other_view(num_heads, near0, p1, tau, head_reduction, **options)
    back = other_view(num_heads, near1, p0, tau, head_reduction, **options)
    return 0.5 * forth + 0.5 * back
