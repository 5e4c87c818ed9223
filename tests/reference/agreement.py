"""Agreement of heads: the correlation of their similarities of different images."""

import math

from reference.temperature import sim


def similarities(view0, view1, c):
    """sim(z_i, z'_j) of head c for all i ≠ j."""
    found = []
    for i, anchor in enumerate(view0):
        for j, other in enumerate(view1):
            if i != j:
                found.append(sim(anchor.z[c], other.z[c]))
    return found


def agreement(view0, view1, c, d, eps=1e-6):
    first, second = similarities(view0, view1, c), similarities(view0, view1, d)
    mean0, mean1 = sum(first) / len(first), sum(second) / len(second)
    covariance, variance0, variance1 = 0.0, 0.0, 0.0
    for a, b in zip(first, second, strict=True):
        covariance += (a - mean0) * (b - mean1) / len(first)
        variance0 += (a - mean0) ** 2 / len(first)
        variance1 += (b - mean1) ** 2 / len(first)
    return covariance / math.sqrt((variance0 + eps) * (variance1 + eps))
