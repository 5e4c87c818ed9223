"""Eq. 2.3 (Barlow Twins). A channel of head c is the list of its N values in a batch."""

import math
from functools import cache

from reference.temperature import (
    Item,
    artanh_of,
    centered,
    dot,
    dystress_of,
    gate,
    omega,
    phi,
    sigma,
    unit,
)


def standardized(column, eps=1e-5):
    mean = sum(column) / len(column)
    variance = sum((x - mean) ** 2 for x in column) / len(column)
    return [(x - mean) / math.sqrt(variance + eps) for x in column]


def correlation(column, other, eps=1e-5):
    return dot(standardized(column, eps), standardized(other, eps)) / len(column)


def columns(batch, c):
    """The D channels of head c of a list of items."""
    return [[item.z[c][channel] for item in batch] for channel in range(len(batch[0].z[c]))]


def phi_on_samples(layers, eta, iota, scale=None):
    """τ_lm from ρ times the correlation of φ's channels l and m over the batch."""
    rho = 1.0 if scale is None else scale

    @cache
    def key(c, item):
        return Item([phi(layers, unit(item.z[c]))])

    def tau(sign, c, batch0, batch1, l, m):
        phi0 = [key(c, item) for item in batch0]
        phi1 = [key(c, item) for item in batch1]
        r = rho * correlation(columns(phi0, 0)[l], columns(phi1, 0)[m], eps=1e-10)
        return sigma(r, eta, iota)

    return tau


def phi_on_channels(layers, eta, iota, scale=None):
    """The print: φ acts on the N-vector z_l:; with a scale ρ it is centered over channels."""

    def key(batch, c, channel):
        return phi(layers, unit(standardized(columns(batch, c)[channel])))

    def tau(sign, c, batch0, batch1, l, m):
        a, b = key(batch0, c, l), key(batch1, c, m)
        if scale is not None:
            width = range(len(columns(batch0, c)))
            a = centered(a, [key(batch0, c, channel) for channel in width], scale)
            b = centered(b, [key(batch1, c, channel) for channel in width], scale)
            gates = [
                gate([standardized(x) for x in columns(batch, c)]) for batch in (batch0, batch1)
            ]
            return sigma(math.sqrt(gates[0] * gates[1]) * dot(a, b), eta, iota)
        return sigma(dot(a, b), eta, iota)

    return tau


def constant(value):
    return lambda sign, c, batch0, batch1, l, m: value


def first_head(tau):
    return lambda sign, c, batch0, batch1, l, m: tau(sign, 0, batch0, batch1, l, m)


def split(positive, negative):
    def tau(sign, c, batch0, batch1, l, m):
        scheme = positive if sign == "positive" else negative
        return scheme(sign, c, batch0, batch1, l, m)

    return tau


def uncertainty(t):
    """TaU for channels: the mean score of the anchors' view."""

    def tau(sign, c, batch0, batch1, l, m):
        mean = sum(item.score[c] for item in batch0) / len(batch0)
        return t * (1.0 + math.exp(-mean))

    return tau


def cross_correlation(
    num_heads, batch0, batch1, tau, head_reduction, *, lam, beta, prior_tau, omega_reduction
):
    total = 0.0
    for c in range(num_heads):
        z0, z1 = columns(batch0, c), columns(batch1, c)
        dim = len(z0)
        mean = omega_reduction == "mean"
        for l in range(dim):
            tau_pos = tau("positive", c, batch0, batch1, l, l)
            total += (1.0 - correlation(z0[l], z1[l]) / tau_pos) ** 2
            total += beta * omega(tau_pos, prior_tau) / (dim if mean else 1)
            for m in range(dim):
                if m != l:
                    tau_neg = tau("negative", c, batch0, batch1, l, m)
                    total += lam * correlation(z0[l], z1[m]) ** 2 / tau_neg
                    weight = beta / (dim * (dim - 1) if mean else 1)
                    total -= weight * omega(tau_neg, prior_tau)
    return total / (num_heads if head_reduction == "mean" else 1)


def alignment(c, batch0, batch1):
    """A of MACL for channels: the mean of 𝒞_ll."""
    pairs = list(zip(columns(batch0, c), columns(batch1, c), strict=True))
    return sum(correlation(a, b) for a, b in pairs) / len(pairs)


def macl(value, alpha, baseline):
    def tau(sign, c, batch0, batch1, l, m):
        return value * (1 + alpha * (alignment(c, batch0, batch1) - baseline))

    return tau


def positive_scale(factor):
    def tau(sign, c, batch0, batch1, l, m):
        return max(0.01, factor * (2 - 2 * alignment(c, batch0, batch1)))

    return tau


def dystress(tau_min, tau_max):
    def tau(sign, c, batch0, batch1, l, m):
        entry = correlation(columns(batch0, c)[l], columns(batch1, c)[m])
        return dystress_of(entry, tau_min, tau_max)

    return tau


def artanh(sign, c, batch0, batch1, l, m):
    entry = correlation(columns(batch0, c)[l], columns(batch1, c)[m])
    return artanh_of(entry)
