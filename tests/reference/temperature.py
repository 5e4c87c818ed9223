"""§4.1: the pair-adaptive temperature, its regularizer, and the schemes it is compared with."""

import math
from dataclasses import dataclass
from functools import cache


@dataclass(eq=False)
class Item:
    """One image's projections: z[c] is the vector of head c, score[c] TaU's extra output.

    `batch` is all items that came with it, itself among them; `partner` is its positive. Two items
    are equal only if they are the same item, so that what is computed from one can be kept.
    """

    z: list[list[float]]
    score: list[float] | None = None
    batch: "list[Item] | None" = None
    partner: "Item | None" = None


def dot(a, b):
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += x * y
    return total


def norm(a):
    return math.sqrt(dot(a, a))


def unit(a):
    length = norm(a)
    return [x / length for x in a]


def sim(a, b):
    """Cosine similarity."""
    return dot(a, b) / (norm(a) * norm(b))


def linear(weight, bias, a):
    out = []
    for row, b in zip(weight, bias, strict=True):
        out.append(dot(row, a) + b)
    return out


def phi(layers, a):
    """The MLP φ: linear layers with ReLU between them."""
    for depth, (weight, bias) in enumerate(layers):
        if depth > 0:
            a = [max(0.0, x) for x in a]
        a = linear(weight, bias, a)
    return a


def centered(a, batch, scale, eps=1e-8):
    """a less the mean of its batch, brought to length √ρ."""
    mean = [sum(column) / len(batch) for column in zip(*batch, strict=True)]
    a = [x - m for x, m in zip(a, mean, strict=True)]
    return [math.sqrt(scale) * x / math.sqrt(dot(a, a) + eps) for x in a]


def gate(vectors):
    """(1 − s̄)⁸, with s̄ the mean cosine of two different vectors, and none below 0."""
    total, count = 0.0, 0
    for i, a in enumerate(vectors):
        for j, b in enumerate(vectors):
            if i != j:
                total += sim(a, b)
                count += 1
    return (1.0 - max(0.0, total / count if count else 0.0)) ** 8


def sigma(r, eta, iota):
    """σ(r) = ι / (1 + exp(r)) + η."""
    return iota / (1.0 + math.exp(r)) + eta


def omega(tau, prior_tau):
    """Eq. 4 with 1/τ₀ for D/2: Ω(τ) = (1/τ₀) log τ + 1/τ."""
    return math.log(tau) / prior_tau + 1.0 / tau


def adaptive(layers, eta, iota, scale=None, raw=False, shared=False):
    """τ = σ(⟨φ(z), φ(z')⟩), head by head; with a scale ρ φ is centered and r is gated.

    The gate is that of the head, or where all heads share a τ that of the head most alike.
    """

    @cache
    def gate_of(c, item):
        heads = range(len(item.z)) if shared else [c]
        return min(gate([other.z[head] for other in item.batch]) for head in heads)

    @cache
    def key(c, item):
        return phi(layers, item.z[c] if raw else unit(item.z[c]))

    @cache
    def centered_key(c, item):
        return centered(key(c, item), [key(c, other) for other in item.batch], scale)

    def tau(sign, c, anchor, other):
        if scale is not None:
            a, b = centered_key(c, anchor), centered_key(c, other)
            closed = math.sqrt(gate_of(c, anchor) * gate_of(c, other))
            return sigma(closed * dot(a, b), eta, iota)
        return sigma(dot(key(c, anchor), key(c, other)), eta, iota)

    return tau


def constant(value):
    return lambda sign, c, anchor, other: value


def first_head(tau):
    """The temperatures of head 1 for all heads."""
    return lambda sign, c, anchor, other: tau(sign, 0, anchor, other)


def split(positive, negative):
    """One scheme for positive pairs, another for negative ones."""

    def tau(sign, c, anchor, other):
        scheme = positive if sign == "positive" else negative
        return scheme(sign, c, anchor, other)

    return tau


def uncertainty(t):
    """TaU: τ_i = t / sigmoid(score of the anchor)."""
    return lambda sign, c, anchor, other: t * (1.0 + math.exp(-anchor.score[c]))


def cosine_schedule(epoch, tau_min, tau_max, period):
    """TS."""
    return tau_min + 0.5 * (tau_max - tau_min) * (1.0 + math.cos(2.0 * math.pi * epoch / period))


def alignment(c, item):
    """A, the mean cosine of all positive pairs of the batch in head c."""
    total = 0.0
    for other in item.batch:
        total += sim(other.z[c], other.partner.z[c])
    return total / len(item.batch)


def macl(value, alpha, baseline):
    """MACL: τ = τ₀ (1 + α (A − A₀))."""
    return lambda sign, c, anchor, other: value * (1 + alpha * (alignment(c, anchor) - baseline))


def positive_scale(factor):
    """The mean of ‖z − z⁺‖² = 2 − 2 sim over the positive pairs of the batch, at least 0.01."""
    return lambda sign, c, anchor, other: max(0.01, factor * (2 - 2 * alignment(c, anchor)))


def dystress_of(s, tau_min, tau_max):
    return tau_min + 0.5 * (tau_max - tau_min) * (1 + math.cos(math.pi * (1 + s)))


def dystress(tau_min, tau_max):
    """DySTreSS: τ from the similarity of the pair."""

    def tau(sign, c, anchor, other):
        return dystress_of(sim(anchor.z[c], other.z[c]), tau_min, tau_max)

    return tau


def artanh(sign, c, anchor, other):
    """The temperature with which s/τ is 2 artanh(s)."""
    return artanh_of(sim(anchor.z[c], other.z[c]))


def artanh_of(s):
    s = min(max(s, -1 + 1e-4), 1 - 1e-4)
    return s / (2 * math.atanh(s))


def one_sided(layers, direction, eta, iota, scale):
    """τ = σ(⟨φ(z), v⟩) of the anchor, with φ centered, both of length √ρ, and gated."""
    axis = unit(direction)

    def tau(sign, c, anchor, other):
        keys = [phi(layers, unit(item.z[c])) for item in anchor.batch]
        key = centered(phi(layers, unit(anchor.z[c])), keys, scale)
        closed = gate([item.z[c] for item in anchor.batch])
        return sigma(closed * math.sqrt(scale) * dot(key, axis), eta, iota)

    return tau
