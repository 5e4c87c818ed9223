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
    hard_beta=None,
    debias=None,
    positive_weight=None,
    bias=None,
):
    """The loss of one anchor in head c, with `negatives` the N^- of the paper's index n."""
    s_pos = sim(anchor.z[c], positive.z[c])
    tau_pos = tau("positive", c, anchor, positive)

    pairs = []  # (similarity, temperature) of each candidate of the denominator
    for negative in negatives:
        pairs.append((sim(anchor.z[c], negative.z[c]), tau("negative", c, anchor, negative)))
    if form in ("top_k", "top_k_softmax", "max"):
        pairs = most_similar(pairs, 1 if form == "max" else kappa)
    if similarity == "relative":
        level = negative_level([s for s, _ in pairs], prior_tau)
        pairs = [(s - level, t) for s, t in pairs]
        s_pos -= level
    if form in ("dclw", "hard", "sigmoid"):
        inside, outside = beta, 0.0
        if omega_place == "outside":  # Eq. 3
            taus = [t for _, t in pairs]
            outside = beta * omega(tau_pos, prior_tau)
            outside -= beta * omega_of_set(taus, prior_tau, omega_set)
            inside = 0.0
        u_pos = s_pos / tau_pos - inside * omega(tau_pos, prior_tau)
        u_neg = [s / t - inside * omega(t, prior_tau) for s, t in pairs]
        if form == "dclw":
            return dclw(u_pos, u_neg, positive_weight) + outside
        if form == "sigmoid":
            return sigmoid(u_pos, u_neg, bias) + outside
        least = [-1.0 / t - inside * omega(t, prior_tau) for _, t in pairs]
        negatives = reweighted(u_pos, u_neg, least, hard_beta, debias)
        denominator = math.exp(u_pos) if positive_in_denominator else 0.0
        return -math.log(math.exp(u_pos) / (denominator + negatives)) + outside

    loss = -s_pos / tau_pos + beta * omega(tau_pos, prior_tau)

    if form in ("softmax", "dcl", "top_k_softmax"):
        inside = beta
        if omega_place == "outside":  # Eq. 3
            loss -= beta * omega_of_set([t for _, t in pairs], prior_tau, omega_set)
            inside = 0.0
        if positive_in_denominator and form != "dcl":
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


def dclw(u_pos, u_neg, positive_weight):
    """DCLW (arXiv 2110.06848): −w u⁺ + log Σ exp(u⁻)."""
    denominator = 0.0
    for u in u_neg:
        denominator += math.exp(u)
    return -positive_weight * u_pos + math.log(denominator)


def weights_of_positives(c, view0, view1, sigma):
    """w = 2 − exp(s⁺/σ) / E[exp(s⁺/σ)] of each image."""
    values = [math.exp(sim(a.z[c], b.z[c]) / sigma) for a, b in zip(view0, view1, strict=True)]
    return [2.0 - value / (sum(values) / len(values)) for value in values]


def reweighted(u_pos, u_neg, least, hard_beta, debias):
    """Ng of HCL's code (arXiv 2010.04592), with the least sum that logits may have."""
    count = len(u_neg)
    importance = [math.exp(u) ** hard_beta for u in u_neg]
    mean = sum(importance) / count
    total = 0.0
    for weight, u in zip(importance, u_neg, strict=True):
        total += weight * math.exp(u) / mean
    negatives = (-debias * count * math.exp(u_pos) + total) / (1.0 - debias)
    return max(negatives, sum(math.exp(u) for u in least))


def sigmoid(u_pos, u_neg, bias):
    """SigLIP (arXiv 2303.15343): log(1 + exp(−z (u + b))), with z = 1 or −1, summed over pairs."""
    loss = math.log(1.0 + math.exp(-(u_pos + bias)))
    for u in u_neg:
        loss += math.log(1.0 + math.exp(u + bias))
    return loss


def of_each_image(c, view0, view1, options):
    """Return the options of `anchor_loss` for each image: weights of DCLW depend on all images."""
    options = dict(options)
    sigma = options.pop("dclw_sigma", None)
    if sigma is None:
        return [options] * len(view0)
    weights = weights_of_positives(c, view0, view1, sigma)
    return [{**options, "positive_weight": weight} for weight in weights]


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
                own = of_each_image(c, view0, view1, options)[i]
                total += anchor_loss(c, views[0][i], views[1][i], negatives, tau, **own)
            anchors += 1
    return total / anchors / (num_heads if head_reduction == "mean" else 1)


def other_view(num_heads, view0, view1, tau, head_reduction, **options):
    """Anchors of the first view, negatives from the second."""
    total = 0.0
    for i in range(len(view0)):
        negatives = [view1[j] for j in range(len(view1)) if j != i]
        for c in range(num_heads):
            own = of_each_image(c, view0, view1, options)[i]
            total += anchor_loss(c, view0[i], view1[i], negatives, tau, **own)
    return total / len(view0) / (num_heads if head_reduction == "mean" else 1)


def queue(num_heads, view0, view1, negatives, tau, head_reduction, **options):
    """MoCo: the same given negatives for all anchors."""
    total = 0.0
    for i in range(len(view0)):
        for c in range(num_heads):
            own = of_each_image(c, view0, view1, options)[i]
            total += anchor_loss(c, view0[i], view1[i], negatives, tau, **own)
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
