"""VICReg (arXiv 2105.04906), with a temperature for each pair of views."""

import math

from reference.cross_correlation import columns
from reference.temperature import Item, omega


def mean(values):
    return sum(values) / len(values)


def less_the_mean(view0, view1):
    """The items of both views, from which the mean of all projections of a head is subtracted."""
    middle = []
    for c in range(len(view0[0].z)):
        both = [item.z[c] for item in (*view0, *view1)]
        middle.append([mean(column) for column in zip(*both, strict=True)])
    centered = []
    for view in (view0, view1):
        batch = []
        for item in view:
            z = [
                [x - m for x, m in zip(vector, mean_of_head, strict=True)]
                for vector, mean_of_head in zip(item.z, middle, strict=True)
            ]
            batch.append(Item(z, item.score, batch))
        centered.append(batch)
    return centered


def invariance(a, b, tau, beta, prior_tau):
    distance = mean([(x - y) ** 2 for x, y in zip(a, b, strict=True)])
    return distance / tau + beta * omega(tau, prior_tau)


def covariance(column, other):
    products = [(x - mean(column)) * (y - mean(other)) for x, y in zip(column, other, strict=True)]
    return sum(products) / (len(column) - 1)


def variance_hinge(channels, eps=1e-4):
    return mean([max(0.0, 1.0 - math.sqrt(covariance(a, a) + eps)) for a in channels])


def covariances(channels):
    total = 0.0
    for l, a in enumerate(channels):
        for m, b in enumerate(channels):
            if m != l:
                total += covariance(a, b) ** 2
    return total / len(channels)


def vicreg(num_heads, view0, view1, tau, head_reduction, *, weights, beta=0.0, prior_tau=1.0):
    """Temperatures are those of projections less their mean, which the rest does not depend on."""
    centered = less_the_mean(view0, view1)
    total = 0.0
    for c in range(num_heads):
        pairs = []
        for i in range(len(view0)):
            tau_pair = tau("positive", c, centered[0][i], centered[1][i])
            pairs.append(invariance(view0[i].z[c], view1[i].z[c], tau_pair, beta, prior_tau))
        channels = [columns(view, c) for view in (view0, view1)]
        total += weights[0] * mean(pairs)
        total += weights[1] * mean([variance_hinge(each) for each in channels])
        total += weights[2] * sum(covariances(each) for each in channels)
    return total / (num_heads if head_reduction == "mean" else 1)
